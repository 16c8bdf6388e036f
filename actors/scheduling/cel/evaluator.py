"""Turns a checked tree into a Python function that evaluates it.

Each node becomes a closure that takes the `Run` of an evaluation, adds the cost of the node in
cel-go's units, and returns the value of the node. It raises CelError for CEL's errors; the places
that can absorb an error (`&&`, `||`, accumulators) catch it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import access, steps
from .calls import call, constant
from .checker import TYPES, qualified
from .errors import CelError
from .folds import Fold, append_step, insert_step, new_list, new_map
from .regex import Pattern
from .run import Run, Step
from .tree import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Message,
    Select,
    TreeNode,
    Walk,
    walk,
)
from .types import DEVICE, Type
from .values import MISSING, Built, TypeValue, key_of

StepWalk = Walk[Any]  # a walk that returns a step
_ATTRIBUTE = (Ident, Select)


class Program(NamedTuple):
    """A compiled expression. `slots` is the number of local variables, `size` the number of
    nodes.
    """

    step: Step
    slots: int
    size: int
    patterns: Mapping[str, Pattern]


class _Local(NamedTuple):
    slot: int
    read: Step


def program(
    root: TreeNode, patterns: Mapping[str, Pattern], variables: Mapping[str, Type]
) -> Program:
    """Returns the program of a tree that was checked with these variables.

    `patterns` holds the compiled patterns of the literals.
    """
    compiler = _Compiler(variables)
    return Program(walk(compiler.compile(root)), compiler.slots, root.size, patterns)


class _Compiler:
    def __init__(self, variables: Mapping[str, Type]) -> None:
        self.slots = 0
        self._variables = variables
        self._locals: list[tuple[str, _Local]] = []
        self._values: dict[Step, Any] = {}

    def compile(self, node: TreeNode) -> StepWalk:
        match node:
            case Literal():
                return self._constant(node.value)
            case Ident():
                return self._ident(node.name)
            case Select():
                return (yield self._select(node))
            case Call():
                return (yield self._call(node))
            case ListNode():
                return (yield self._list(node))
            case MapNode():
                return (yield self._map(node))
            case Message():
                return (yield self._message(node))
            case Comprehension():
                return (yield self._bind(node) if node.binds else self._fold(node))
            case _:
                raise AssertionError(node)

    def _constant(self, value: Any) -> Step:
        step = constant(value)
        self._values[step] = value
        return step

    def _local(self, name: str) -> _Local | None:
        if name.startswith("."):
            return None
        return next((each for bound, each in reversed(self._locals) if bound == name), None)

    def _ident(self, name: str) -> Step:
        variable = self._local(name)
        if variable is not None:
            return variable.read
        return self._variable_or_type(name.removeprefix("."))

    def _variable_or_type(self, name: str) -> Step:
        """Returns the step of a variable or of the name of a type."""
        if name in self._variables:
            return steps.device if self._variables[name] == DEVICE else steps.variable(name)
        return self._constant(TypeValue(TYPES[name].of[0].name))

    # ------------------------------------------------------------------------------------ access

    def _select(self, node: Select) -> StepWalk:
        operand, field = node.operand, node.field
        name = qualified(node)
        is_named = name in TYPES or name in self._variables
        if is_named and self._local(name.partition(".")[0]) is None:
            return self._variable_or_type(name)
        is_device = isinstance(operand, Ident) and self._local(operand.name) is None
        if is_device and operand.type == DEVICE:
            return steps.has_field(field) if node.test else steps.FIELDS[field]
        step = yield self.compile(operand)
        if node.test:
            return lambda run: access.optional_part(step(run), field).present
        return steps.selection(step, field, 1 if _is_attribute(operand) else 2)

    def _index_access(self, node: Call) -> StepWalk:
        operand, key = node.args
        container = yield self.compile(operand)
        if isinstance(key, Literal) and type(key.value) is str:
            return steps.selection(container, key.value, 1 if _is_attribute(operand) else 2)
        index = yield self.compile(key)
        cost = 1 if _is_attribute(operand) else 2

        def indexed(run: Run) -> Any:
            value = container(run)
            part = index(run)
            run.cost += cost
            return access.index(value, part)

        return indexed

    def _optional_access(self, node: Call) -> StepWalk:
        """Compiles the optional accesses `a.?b` and `a[?b]`."""
        container = yield self.compile(node.args[0])
        index = yield self.compile(node.args[1])

        def selected(run: Run) -> Any:
            value = container(run)
            part = index(run)
            run.cost += 1
            return access.optional_part(value, part)

        return selected

    # ------------------------------------------------------------------------------------- calls

    def _call(self, node: Call) -> StepWalk:
        match node.function:
            case "_[_]":
                return (yield self._index_access(node))
            case "_?._" | "_[?_]":
                return (yield self._optional_access(node))
            case _:
                operands = []
                for operand in node.operands:
                    operands.append((yield self.compile(operand)))  # noqa: PERF401 - a comprehension cannot yield
        special = steps.OPERATORS.get(node.function)
        if special is None:
            return call(node, operands)
        if node.function == "_==_" and operands[1] in self._values:
            return steps.equals_constant(operands[0], self._values[operands[1]])
        if node.function == "@in" and operands[1] in self._values:
            return steps.in_constant(operands[0], self._values[operands[1]])
        return special(*operands)

    # -------------------------------------------------------------------------------- aggregates

    def _list(self, node: ListNode) -> StepWalk:
        elements: list[Step] = []
        for element in node.elements:
            elements.append((yield self.compile(element)))  # noqa: PERF401 - a comprehension cannot yield
        optional = node.optional
        if not optional and all(step in self._values for step in elements):
            return self._constant([self._values[step] for step in elements])

        def build(run: Run) -> Any:
            values = [step(run) for step in elements]
            run.cost += 10
            return steps.without_none(values, optional) if optional else values

        return build

    def _map(self, node: MapNode) -> StepWalk:
        entries: list[tuple[Step, Step, bool]] = []
        for key, value, optional in node.entries:
            key_step = yield self.compile(key)
            entries.append((key_step, (yield self.compile(value)), optional))

        def build(run: Run) -> Any:
            result: dict[Any, Any] = {}
            for key_step, value_step, optional in entries:
                key, value = key_step(run), value_step(run)
                if optional:
                    value = steps.optional_entry(key, value)
                if value is MISSING:
                    continue
                stored = key_of(key)
                if stored in result:
                    raise CelError(f"Failed with repeated key: {key}")
                result[stored] = value
            run.cost += 30
            return result

        if all(k in self._values and v in self._values and not o for k, v, o in entries):
            try:
                return self._constant(build(Run(0)))
            except CelError:
                return build
        return build

    def _message(self, node: Message) -> StepWalk:
        fields: list[tuple[str, Step, bool]] = []
        for name, value, optional in node.fields:
            fields.append((name, (yield self.compile(value)), optional))
        type_name = node.name.removeprefix(".")

        def build(run: Run) -> Any:
            values: dict[str, Any] = {}
            for name, step, optional in fields:
                value = step(run)
                if optional:
                    value = steps.optional_entry(name, value)
                if value is not MISSING:
                    values[name] = value
            run.cost += 40
            return Built(type_name, values)

        return build

    # ---------------------------------------------------------------------------- comprehensions

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _bind(self, node: Comprehension) -> StepWalk:
        value = yield self.compile(node.init)
        slot = self._slot()
        self._locals.append((node.accumulator, _Local(slot, steps.binding_step(slot, value))))
        result = yield self.compile(node.result)
        self._locals.pop()

        def bound(run: Run) -> Any:
            run.slots[slot] = MISSING
            return result(run)

        return bound

    def _fold(self, node: Comprehension) -> StepWalk:
        over = yield self.compile(node.range)
        work = node.step.size + node.condition.size
        fold = Fold(over, self._slot(), self._slot(), self._slot() if node.var2 else -1, work)
        fold.init = yield self.compile(node.init)
        accumulator = _Local(fold.accumulator, steps.accumulator(fold.accumulator))
        self._locals.append((node.accumulator, accumulator))
        self._locals.append((node.var, _Local(fold.first, steps.local(fold.first))))
        if node.var2:
            self._locals.append((node.var2, _Local(fold.second, steps.local(fold.second))))
        fold.step = yield self._step(node, node.step, fold)
        if not isinstance(node.condition, Literal):
            fold.condition = yield self.compile(node.condition)
        del self._locals[-2 if node.var2 else -1 :]
        fold.result = yield self.compile(node.result)
        self._locals.pop()
        return fold.run

    def _step(self, node: Comprehension, step: TreeNode, fold: Fold) -> StepWalk:
        """Compiles the step of a comprehension. One that only adds to a list or map changes the
        accumulator in place.
        """
        if isinstance(step, Call) and _accumulates(node, step):
            if step.function == "_?_:_":
                condition = yield self.compile(step.args[0])
                truthy = yield self._step(node, step.args[1], fold)
                return steps.conditional(condition, truthy, (yield self.compile(step.args[2])))
            parts = []
            for arg in step.args[1:]:
                part = arg.elements[0] if isinstance(arg, ListNode) else arg
                parts.append((yield self.compile(part)))
            if step.function == "_+_":
                fold.init = new_list
                return append_step(fold.accumulator, parts[0], parts[0] in self._values)
            fold.init = new_map
            return insert_step(fold.accumulator, parts)
        return (yield self.compile(step))


def _accumulates(node: Comprehension, step: Call) -> bool:
    """True if the step of a comprehension only adds to the accumulator, which begins empty."""
    if step.function == "_?_:_":
        inner = step.args[1]
        last = step.args[2]
        kept = isinstance(last, Ident) and last.name == node.accumulator
        return kept and isinstance(inner, Call) and inner is not step and _only_appends(node, inner)
    return _only_appends(node, step)


def _only_appends(node: Comprehension, step: Call) -> bool:
    first = step.args[0] if step.args else None
    if not (isinstance(first, Ident) and first.name == node.accumulator):
        return False
    if step.function == "_+_" and isinstance(node.init, ListNode) and not node.init.elements:
        added = step.args[1]
        return isinstance(added, ListNode) and len(added.elements) == 1 and not added.optional
    return step.function == "cel.@mapInsert"


def _is_attribute(node: TreeNode) -> bool:
    """True for variables and their parts, which cel-go charges as one attribute."""
    return isinstance(node, _ATTRIBUTE) or (isinstance(node, Call) and node.function == "_[_]")
