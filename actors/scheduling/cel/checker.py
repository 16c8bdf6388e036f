"""Checks the types of an expression, as cel-go's checker does for selectors."""

from __future__ import annotations

from collections.abc import Mapping

from .built import built_type
from .declarations import Overload
from .errors import Problem
from .functions import FUNCTIONS, FUNCTIONS_OF_PATCHES, FUNCTIONS_OF_SELECTORS
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
from .types import (
    ANY,
    BOOL,
    BYTES,
    CIDR,
    DEVICE,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    IP,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    Inference,
    ObjectType,
    Type,
    is_dyn,
    is_wild,
    list_of,
    map_of,
    more_general,
    optional_of,
    param,
    type_of,
    without_optional,
)
from .values import Uint

ATTRIBUTES = map_of(STRING, map_of(STRING, ANY))
CAPACITY = map_of(STRING, map_of(STRING, QUANTITY))
FIELDS = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": ATTRIBUTES,
    "capacity": CAPACITY,
}
FIELDS_WITH_LISTS = {**FIELDS, "attributes": map_of(STRING, map_of(STRING, DYN))}
_TYPES = (BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT, IP, CIDR)
# The names of types, which are also values.
TYPES = {
    **{t.name: type_of(t) for t in _TYPES},
    "list": type_of(list_of(param("A"))),
    "map": type_of(map_of(param("A"), param("B"))),
    "type": Type("type", "type", (Type("type", "type"),)),
    "optional_type": type_of(optional_of(param("V"))),
}
# The variables of a selector.
DEVICE_ONLY = {"device": DEVICE}
_LITERALS = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


def check(
    root: TreeNode, variables: Mapping[str, Type], *, lists: bool = False, builds: bool = False
) -> list[Problem]:
    """Writes the types and the overloads into the tree, and returns its problems.

    `variables` are the types of the variables; their names may have dots. With `lists`, attributes
    of devices may be lists, as since Kubernetes 1.37. With `builds`, the expression may build
    objects.
    """
    checker = _Checker(variables, lists=lists, builds=builds)
    walk(checker.check(root))
    checker.finish()
    return checker.problems


class _Checker:
    def __init__(self, variables: Mapping[str, Type], *, lists: bool, builds: bool) -> None:
        self.problems: list[Problem] = []
        self._fields = FIELDS_WITH_LISTS if lists else FIELDS
        is_selector = DEVICE in variables.values()
        self._functions = FUNCTIONS_OF_SELECTORS if is_selector else FUNCTIONS
        self._builds = builds
        if builds:
            self._functions = FUNCTIONS_OF_PATCHES
        self._names = {**TYPES, **variables}
        self._inference = Inference()
        self._scopes: list[dict[str, Type]] = []
        self._checked: list[TreeNode] = []

    def finish(self) -> None:
        """Replaces types that are still unknown by `dyn`."""
        for node in self._checked:
            node.type = self._inference.resolved(node.type, to_dyn=True)

    def _add_problem(self, node: TreeNode, message: str) -> None:
        self.problems.append(Problem(node.at, message))

    def check(self, node: TreeNode) -> Walk[None]:
        match node:
            case Literal():
                node.type = _LITERALS[type(node.value)]
            case Ident():
                self._ident(node, node.name)
            case Select():
                yield self._select(node)
            case Call():
                yield self._call(node)
            case ListNode():
                yield self._list(node)
            case MapNode():
                yield self._map(node)
            case Comprehension():
                yield self._comprehension(node)
            case Message():
                yield self._message(node)
            case _:
                raise AssertionError(node)
        self._checked.append(node)

    def _ident(self, node: TreeNode, name: str) -> None:
        if not name.startswith("."):
            for scope in reversed(self._scopes):
                if name in scope:
                    node.type = scope[name]
                    return
        declared = self._names.get(name.removeprefix("."))
        if declared is None:
            self._add_problem(node, _undeclared_problem(name))
        node.type = declared or ERROR

    def _select(self, node: Select) -> Walk[None]:
        name = None if node.test else qualified(node)
        if name in self._names and not self._is_local(name.partition(".")[0]):
            node.type = self._names[name]
            return
        yield self.check(node.operand)
        field = self._field(node, node.operand, node.field, optional=False)
        node.type = BOOL if node.test else self._inference.resolved(field)

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _field(self, node: TreeNode, operand: TreeNode, field: str, *, optional: bool) -> Type:
        """Returns the type of a field of a checked operand."""
        target, was_optional = without_optional(self._inference.resolved(operand.type))
        result = ERROR
        if target.kind == "map":
            result = target.of[1]
        elif target == DEVICE:
            if field in self._fields:
                result = self._fields[field]
            else:
                self._add_problem(node, f"undefined field '{field}'")
        elif isinstance(target, ObjectType):
            known = target.field(field)
            result = known or ERROR
            if known is None:
                self._add_problem(node, f"undefined field '{field}'")
        elif target.kind == "struct":
            self._add_problem(node, f"unexpected failed resolution of '{target.name}'")
        elif target.kind == "param":
            self._inference.assignable([DYN], [target])
            result = DYN
        else:
            if not is_wild(target):
                self._add_problem(node, f"type '{target}' does not support field selection")
            result = DYN
        return optional_of(result) if was_optional or optional else result

    # ------------------------------------------------------------------------------------- calls

    def _call(self, node: Call) -> Walk[None]:
        if node.function == "_?._":
            operand, field = node.args
            yield self.check(operand)
            assert isinstance(field, Literal)
            field.type = STRING
            result = self._field(node, operand, field.value, optional=True)
            node.type = self._inference.resolved(result)
            return
        for arg in node.args:
            yield self.check(arg)
        target = node.target
        if target is None:
            node.function = node.function.removeprefix(".")
        else:
            prefix = qualified(target)
            if prefix and f"{prefix.removeprefix('.')}.{node.function}" in self._functions:
                node.function = f"{prefix.removeprefix('.')}.{node.function}"
                node.target = None
            else:
                yield self.check(target)
        overloads = self._functions.get(node.function)
        if overloads is None:
            self._add_problem(node, _undeclared_problem(node.function))
            node.type = ERROR
        else:
            node.type = self._resolve(node, overloads)

    def _resolve(self, node: Call, overloads: tuple[Overload, ...]) -> Type:
        """Finds the overloads that match a call, and returns the type of the result."""
        arguments = [operand.type for operand in node.operands]
        if node.function in ("_&&_", "_||_"):
            return self._logical(node)
        node.overloads = []
        result: Type | None = None
        for overload in overloads:
            if overload.member is not (node.target is not None):
                continue
            parameters, returned = self._instantiate(overload)
            if not self._inference.assignable(arguments, parameters):
                continue
            node.overloads.append(overload)
            returned = self._inference.resolved(returned)
            if result is None:
                result = returned
            elif not is_dyn(result) and returned != result:
                result = DYN
        if result is not None:
            return result
        shown = [str(self._inference.resolved(t, to_dyn=True)) for t in arguments]
        signature = f"{shown.pop(0)}." if node.target is not None else ""
        signature += f"({', '.join(shown)})"
        self._add_problem(
            node, f"found no matching overload for '{node.function}' applied to '{signature}'"
        )
        return ERROR

    def _logical(self, node: Call) -> Type:
        result = BOOL
        for arg in node.args:
            if not self._inference.assignable([arg.type], [BOOL]):
                self._add_problem(arg, f"expected type 'bool' but found '{arg.type}'")
                result = ERROR
        return result

    def _instantiate(self, overload: Overload) -> tuple[list[Type], Type]:
        """Returns the types of an overload's parameters and result, with fresh type parameters."""
        fresh: dict[str, Type] = {}
        return [
            self._with_fresh_parameters(t, fresh) for t in overload.params
        ], self._with_fresh_parameters(overload.result, fresh)

    def _with_fresh_parameters(self, t: Type, fresh: dict[str, Type]) -> Type:
        if t.kind == "param":
            if t.name not in fresh:
                fresh[t.name] = self._inference.fresh()
            return fresh[t.name]
        if not t.of:
            return t
        return Type(t.kind, t.name, tuple(self._with_fresh_parameters(p, fresh) for p in t.of))

    # --------------------------------------------------------------------------------- aggregates

    def _list(self, node: ListNode) -> Walk[None]:
        joined: Type | None = None
        for i, element in enumerate(node.elements):
            yield self.check(element)
            element_type = element.type
            if i in node.optional:
                element_type = self._optional(element)
            joined = self._join(joined, element_type)
        node.type = list_of(self._inference.fresh() if joined is None else joined)

    def _map(self, node: MapNode) -> Walk[None]:
        key_type: Type | None = None
        value_type: Type | None = None
        for key, value, optional in node.entries:
            yield self.check(key)
            key_type = self._join(key_type, key.type)
            yield self.check(value)
            value_type = self._join(value_type, self._optional(value) if optional else value.type)
        if key_type is None or value_type is None:
            key_type, value_type = self._inference.fresh(), self._inference.fresh()
        node.type = map_of(key_type, value_type)

    def _message(self, node: Message) -> Walk[None]:
        built = built_type(node.name) if self._builds else None
        if built is None:
            self._add_problem(node, _undeclared_problem(node.name))
            node.type = ERROR
            return
        for field, value, optional in node.fields:
            yield self.check(value)
            expected = built.field(field)
            if expected is None:
                self._add_problem(value, f"undefined field '{field}'")
                continue
            found = self._optional(value) if optional else value.type
            if not self._inference.assignable([expected], [found]):
                message = f"expected type of field '{field}' is '{expected}' but provided type is "
                self._add_problem(value, f"{message}'{found}'")
        node.type = built

    def _optional(self, node: TreeNode) -> Type:
        content, optional = without_optional(self._inference.resolved(node.type))
        if not optional and not is_dyn(content):
            self._add_problem(node, f"expected type '{optional_of(content)}' but found '{content}'")
        return content

    def _join(self, before: Type | None, other: Type) -> Type:
        """Returns the more general of two types, or `dyn` if they do not agree."""
        if before is None:
            return other
        return more_general(before, other) if self._inference.assignable([before], [other]) else DYN

    # ----------------------------------------------------------------------------- comprehensions

    def _comprehension(self, node: Comprehension) -> Walk[None]:
        yield self.check(node.range)
        yield self.check(node.init)
        first, second = self._variables(node)
        self._scopes.append({node.accumulator: node.init.type})
        variables = {node.var: first}
        if node.var2:
            variables[node.var2] = second
        self._scopes.append(variables)
        yield self.check(node.condition)
        self._expect_type(node.condition, BOOL)
        yield self.check(node.step)
        self._expect_type(node.step, node.init.type)
        self._scopes.pop()
        yield self.check(node.result)
        self._scopes.pop()
        node.type = self._inference.resolved(node.result.type)

    def _variables(self, node: Comprehension) -> tuple[Type, Type]:
        over = self._inference.resolved(node.range.type)
        if over.kind == "list":
            return (INT, over.of[0]) if node.var2 else (over.of[0], DYN)
        if over.kind == "map":
            return over.of[0], over.of[1]
        if over.kind in ("dyn", "error", "param"):
            self._inference.assignable([DYN], [over])
            return DYN, DYN
        self._add_problem(
            node.range,
            f"expression of type '{over}' cannot be range of a comprehension (must be list, map, "
            "or dynamic)",
        )
        return ERROR, ERROR

    def _expect_type(self, node: TreeNode, expected: Type) -> None:
        if not self._inference.assignable([expected], [node.type]):
            self._add_problem(node, f"expected type '{expected}' but found '{node.type}'")


def _undeclared_problem(name: str) -> str:
    return f"undeclared reference to '{name}' (in container '')"


def qualified(node: TreeNode) -> str:
    """Returns the dotted name in a node, such as `a.b.c`, or "" if it is none."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test:
        names.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(names)]) if isinstance(node, Ident) else ""
