"""Estimates the cost of an expression in the worst case, as the API server limits it.

Mirrors cel-go's checker/cost.go with the sizes that the parts of a device can have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from berth.actors.scheduling.cel.compiled import Compiled
from berth.actors.scheduling.cel.declarations import Overload
from berth.actors.scheduling.cel.tree import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Select,
    TreeNode,
    Walk,
    walk,
)
from berth.actors.scheduling.cel.types import Type
from berth.actors.scheduling.cel.values import MAX_UINT64

from .call_estimates import (
    NOTHING,
    ONE,
    ZERO,
    Estimate,
    Operand,
    Path,
    Range,
    call_estimate,
    device_size,
    fixed,
    or_unknown,
)

Walked = Walk[Any]  # a walk that returns a cost


class Entries(NamedTuple):
    """The sizes of the keys and values of a list or map."""

    kind: str
    key: Range
    value: Range


class _Variable(NamedTuple):
    path: Path
    size: Range | None
    entries: Entries | None


def worst_cost(selector: Compiled, sizes: Callable[[Path], Range | None] = device_size) -> int:
    """Returns the highest cost of an evaluation; the largest uint64 if it cannot be estimated.

    `sizes` returns the size of a part of a variable; None for one that it does not know.
    """
    if selector.root is None:
        return MAX_UINT64
    cost: Range = walk(_Coster(sizes).cost(selector.root))
    return cost.high


class _Coster:
    def __init__(self, sizes: Callable[[Path], Range | None]) -> None:
        self._part_size = sizes
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, Entries] = {}
        self._variables: list[tuple[str, _Variable]] = []

    def cost(self, node: TreeNode) -> Walked:
        match node:
            case Ident():
                variable = self._variable(node.name)
                self._paths[id(node)] = (
                    variable.path if variable else (node.name.removeprefix("."),)
                )
                return ONE
            case Select():
                return (yield self._select(node))
            case Call():
                return (yield self._call(node))
            case ListNode():
                return (yield self._list(node))
            case MapNode():
                return (yield self._map(node))
            case Comprehension():
                return (yield self._bind(node) if node.binds else self._fold(node))
            case _:
                return ZERO

    def _variable(self, name: str) -> _Variable | None:
        return next(
            (variable for bound, variable in reversed(self._variables) if bound == name), None
        )

    # ------------------------------------------------------------------------------------- sizes

    def _path(self, node: TreeNode) -> Path:
        if isinstance(node, Ident):
            variable = self._variable(node.name)
            if variable is not None:
                return variable.path
        return self._paths.get(id(node), ())

    def _size(self, node: TreeNode) -> Range | None:
        size = self._sizes.get(id(node)) or _literal_size(node)
        if size is not None:
            return size
        size = self._part_size(self._path(node))
        if size is not None:
            self._sizes[id(node)] = size
            return size
        if _is_scalar(node.type):
            return ONE
        variable = self._variable(node.name) if isinstance(node, Ident) else None
        return variable.size if variable else None

    def _entries_of(self, node: TreeNode | None) -> Entries | None:
        if node is None:
            return None
        entries = self._entries.get(id(node))
        if entries is None and isinstance(node, Ident):
            variable = self._variable(node.name)
            return variable.entries if variable else None
        return entries

    def _sized(self, node: TreeNode) -> Operand:
        path = self._path(node)
        if path and path[0] == ACCUMULATOR:
            path = ()
        return Operand(node, node.type, path, self._size(node))

    def _keep(self, node: TreeNode, size: Range | None, entries: Entries | None = None) -> None:
        if size is not None:
            self._sizes[id(node)] = size
        if entries is not None:
            self._entries[id(node)] = entries

    # ------------------------------------------------------------------------------------- nodes

    def _select(self, node: Select) -> Walked:
        cost: Range = yield self.cost(node.operand)
        if node.test:
            return cost
        if node.operand.type.kind in ("map", "struct"):
            cost = cost.plus(ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _call(self, node: Call) -> Walked:
        costs: list[Range] = []
        for arg in node.args:
            costs.append((yield self.cost(arg)))  # noqa: PERF401 - a comprehension cannot yield
        total = ZERO
        for cost in costs:
            total = total.plus(cost)
        if node.function == "dyn":
            self._keep(node, self._size(node.args[0]), self._entries_of(node.args[0]))
            return total.plus(ONE)
        args = [self._sized(arg) for arg in node.args]
        if node.function in ("_&&_", "_||_"):
            return Range(costs[0].low, costs[0].plus(costs[1]).high)
        if node.function == "_?_:_":
            return self._conditional(node, costs, args)
        target = None
        if node.target is not None:
            total = total.plus((yield self.cost(node.target)))
            target = self._sized(node.target)
        if node.function == "_?._":
            return total.plus(ONE)
        if not node.overloads:
            return ZERO
        own, size = NOTHING, None
        for overload in node.overloads:
            estimate = self._overload(node, overload, target, args)
            own = own.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if overload.id in ("index_list", "index_map"):
                entries = self._entries_of(node.args[0])
                size = entries.value if entries else None
                part = "@items" if overload.id == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.args[0]), part)
            if size is None:
                size = self._size(node)
        self._keep(node, size)
        return total.plus(own)

    def _conditional(self, node: Call, costs: list[Range], args: list[Operand]) -> Range:
        size = or_unknown(args[1].size).union(or_unknown(args[2].size))
        self._keep(node, size, self._joined(node.args[1], node.args[2]))
        return costs[0].plus(costs[1].union(costs[2]))

    def _joined(self, first: TreeNode, second: TreeNode) -> Entries | None:
        a, b = self._entries_of(first), self._entries_of(second)
        if a is None or b is None:
            return None
        return Entries(a.kind, a.key.union(b.key), a.value.union(b.value))

    def _overload(
        self, node: Call, overload: Overload, target: Operand | None, args: list[Operand]
    ) -> Estimate:
        estimate = call_estimate(overload, target, args)
        if estimate is not None:
            return estimate
        if overload.id in ("add_string", "add_bytes", "add_list"):
            size = or_unknown(args[0].size).plus(or_unknown(args[1].size))
            self._keep(node, None, self._joined(node.args[0], node.args[1]))
            return Estimate(ONE if overload.id == "add_list" else size.scaled(0.1), size)
        return Estimate(ONE)

    def _list(self, node: ListNode) -> Walked:
        cost, size = ZERO, Range(0 if not node.elements else MAX_UINT64, 0)
        for element in node.elements:
            cost = cost.plus((yield self.cost(element)))
            size = size.union(or_unknown(self._size(element)))
        self._keep(node, None, Entries("list", ONE, size))
        return cost.plus(fixed(10))

    def _map(self, node: MapNode) -> Walked:
        cost = ZERO
        key_size = value_size = Range(0 if not node.entries else MAX_UINT64, 0)
        for key, value, _ in node.entries:
            cost = cost.plus((yield self.cost(key)))
            cost = cost.plus((yield self.cost(value)))
            key_size = key_size.union(or_unknown(self._size(key)))
            value_size = value_size.union(or_unknown(self._size(value)))
        self._keep(node, None, Entries("map", key_size, value_size))
        return cost.plus(fixed(30))

    def _bind(self, node: Comprehension) -> Walked:
        cost: Range = yield self.cost(node.range)
        cost = cost.plus((yield self.cost(node.init)))
        self._push(node.accumulator, node.init)
        cost = cost.plus((yield self.cost(node.result)))
        self._keep(node, self._size(node.result), self._entries_of(node.result))
        self._variables.pop()
        return cost

    def _push(self, name: str, node: TreeNode) -> None:
        variable = _Variable(self._path(node), self._size(node), self._entries_of(node))
        self._variables.append((name, variable))

    def _fold(self, node: Comprehension) -> Walked:
        cost: Range = yield self.cost(node.range)
        cost = cost.plus((yield self.cost(node.init)))
        self._push(node.accumulator, node.init)
        pushed = self._push_variables(node)
        loop: Range = yield self.cost(node.condition)
        step: Range = yield self.cost(node.step)
        stepped = self._entries_of(node.step)
        del self._variables[-pushed:]
        cost = cost.plus((yield self.cost(node.result)))
        self._variables.pop()
        count = or_unknown(self._size(node.range))
        if isinstance(node.init, Literal):
            self._keep(node, self._size(node.init))
        elif isinstance(node.init, ListNode | MapNode):
            self._keep(node, count, stepped)
        return cost.plus(count.times(step.plus(loop)))

    def _push_variables(self, node: Comprehension) -> int:
        """Adds the variables of a loop and returns their number."""
        entries, path = self._entries_of(node.range), self._path(node.range)
        key, value = (entries.key, entries.value) if entries else (None, None)
        is_list = (entries.kind if entries else node.range.type.kind) == "list"
        items = ("@items" if is_list else "@values", value)
        keys = ("@indices" if is_list else "@keys", key)
        if not node.var2:
            part, size = items if is_list else keys
            self._variables.append((node.var, _Variable((*path, part), size, None)))
            return 1
        for name, (part, size) in ((node.var, keys), (node.var2, items)):
            self._variables.append((name, _Variable((*path, part), size, None)))
        return 2


def _is_scalar(t: Type) -> bool:
    if t.name == "optional_type":
        return _is_scalar(t.of[0])
    return t.kind in ("bool", "double", "duration", "int", "timestamp", "uint")


def _literal_size(node: TreeNode) -> Range | None:
    match node:
        case Literal():
            return fixed(len(node.value) if isinstance(node.value, str | bytes) else 1)
        case ListNode():
            return fixed(len(node.elements))
        case MapNode():
            return fixed(len(node.entries))
        case _:
            return None
