"""Expands the macros, including two-variable comprehensions, optionals and `sortBy`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .errors import CompileError, Problem
from .tree import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Select,
    TreeNode,
)

Expansion = Callable[[int, TreeNode, list[TreeNode]], TreeNode | None]
SORT_INPUT = "@__sortBy_input__"


def expand(
    at: int, function: str, args: list[TreeNode], target: TreeNode | None
) -> TreeNode | None:
    """Returns the expansion of a call, or None if the call is not a macro. Raises CompileError."""
    if target is None:
        return _has(at, args[0]) if function == "has" and len(args) == 1 else None
    macro = _MACROS.get((function, len(args)))
    return macro(at, target, args) if macro else None


def _problem(node: TreeNode, message: str) -> CompileError:
    return CompileError([Problem(node.at, message)])


def _name(node: TreeNode, message: str) -> str:
    if not isinstance(node, Ident):
        raise _problem(node, message)
    if node.name in (ACCUMULATOR, "__result__"):
        raise _problem(node, "iteration variable overwrites accumulator variable")
    return node.name


def _loop_variables(args: list[TreeNode], count: int, message: str) -> tuple[str, str]:
    """Returns the loop variables; "" for a second one that is missing."""
    first = _name(args[0], message)
    if count == 1:
        return first, ""
    second = _name(args[1], message)
    if first == second:
        raise _problem(args[1], f"duplicate variable name: {first}")
    return first, second


def _has(at: int, operand: TreeNode) -> TreeNode:
    if not isinstance(operand, Select):
        raise _problem(operand, "invalid argument to has() macro")
    return Select(at, operand.operand, operand.field, test=True)


def _bind(at: int, target: TreeNode, args: list[TreeNode]) -> TreeNode | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise _problem(args[0], "cel.bind() variable names must be simple identifiers")
    return binding_node(at, args[0].name, args[1], args[2])


def binding_node(at: int, name: str, value: TreeNode, result: TreeNode) -> Comprehension:
    """Returns the node that binds a name to a value."""
    return Comprehension(
        at, ListNode(at, []), (UNUSED, ""), name, value, Literal(at, False), Ident(at, name), result
    )


def _all_or_exists(
    count: int, at: int, target: TreeNode, args: list[TreeNode], *, stop: bool
) -> TreeNode:
    """Expands `all` or `exists`, which end at the first element whose predicate is `stop`."""
    names = _loop_variables(args, count, "argument must be a simple name")
    accu = Ident(at, ACCUMULATOR)
    condition = Call(at, "@not_strictly_false", [Call(at, "!_", [accu]) if stop else accu])
    step = Call(at, "_||_" if stop else "_&&_", [accu, args[-1]])
    init = Literal(at, not stop)
    return Comprehension(at, target, names, ACCUMULATOR, init, condition, step, accu)


def _exists_one(count: int, at: int, target: TreeNode, args: list[TreeNode]) -> TreeNode:
    names = _loop_variables(args, count, "argument must be a simple name")
    accu, unit = Ident(at, ACCUMULATOR), Literal(at, 1)
    step = Call(at, "_?_:_", [args[-1], Call(at, "_+_", [accu, unit]), accu])
    result = Call(at, "_==_", [accu, unit])
    return Comprehension(
        at, target, names, ACCUMULATOR, Literal(at, 0), Literal(at, True), step, result
    )


def _accumulated_list(
    at: int,
    target: TreeNode,
    names: tuple[str, str],
    init: TreeNode,
    step: TreeNode,
    predicate: TreeNode | None,
) -> TreeNode:
    accu = Ident(at, ACCUMULATOR)
    if predicate is not None:
        step = Call(at, "_?_:_", [predicate, step, accu])
    return Comprehension(at, target, names, ACCUMULATOR, init, Literal(at, True), step, accu)


def _list(count: int, at: int, target: TreeNode, args: list[TreeNode]) -> TreeNode:
    """Expands `map` and `transformList`, with or without a predicate."""
    message = "argument is not an identifier" if count == 1 else "argument must be a simple name"
    names = _loop_variables(args, count, message)
    predicate = args[count] if len(args) == count + 2 else None
    step = Call(at, "_+_", [Ident(at, ACCUMULATOR), ListNode(at, [args[-1]])])
    return _accumulated_list(at, target, names, ListNode(at, []), step, predicate)


def _filter(at: int, target: TreeNode, args: list[TreeNode]) -> TreeNode:
    names = _loop_variables(args, 1, "argument is not an identifier")
    step = Call(at, "_+_", [Ident(at, ACCUMULATOR), ListNode(at, [args[0]])])
    return _accumulated_list(at, target, names, ListNode(at, []), step, args[1])


def _map(at: int, target: TreeNode, args: list[TreeNode], *, entries: bool) -> TreeNode:
    """Expands `transformMap` and `transformMapEntry`."""
    names = _loop_variables(args, 2, "argument must be a simple name")
    predicate = args[2] if len(args) == 4 else None
    key = [] if entries else [Ident(at, names[0])]
    step = Call(at, "cel.@mapInsert", [Ident(at, ACCUMULATOR), *key, args[-1]])
    return _accumulated_list(at, target, names, MapNode(at, []), step, predicate)


def _opt_map(at: int, target: TreeNode, args: list[TreeNode], *, flat: bool) -> TreeNode:
    if not isinstance(args[0], Ident):
        name = "optFlatMap" if flat else "optMap"
        raise _problem(args[0], f"{name}() variable name must be a simple identifier")
    value: TreeNode = binding_node(at, args[0].name, Call(at, "value", [], target), args[1])
    if not flat:
        value = Call(at, "optional.of", [value])
    none = Call(at, "optional.none", [])
    return Call(at, "_?_:_", [Call(at, "hasValue", [], target), value, none])


def _sort_by(at: int, target: TreeNode, args: list[TreeNode]) -> TreeNode:
    if not isinstance(target, ListNode | Select | Ident | Comprehension | Call):
        raise _problem(
            target,
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression",
        )
    source = Ident(at, SORT_INPUT)
    keys = _list(1, at, source, args)
    return binding_node(at, SORT_INPUT, target, Call(at, "@sortByAssociatedKeys", [keys], source))


_MACROS: dict[tuple[str, int], Expansion] = {
    ("bind", 3): _bind,
    ("all", 2): partial(_all_or_exists, 1, stop=False),
    ("all", 3): partial(_all_or_exists, 2, stop=False),
    ("exists", 2): partial(_all_or_exists, 1, stop=True),
    ("exists", 3): partial(_all_or_exists, 2, stop=True),
    ("exists_one", 2): partial(_exists_one, 1),
    ("exists_one", 3): partial(_exists_one, 2),
    ("existsOne", 2): partial(_exists_one, 1),
    ("existsOne", 3): partial(_exists_one, 2),
    ("map", 2): partial(_list, 1),
    ("map", 3): partial(_list, 1),
    ("filter", 2): _filter,
    ("transformList", 3): partial(_list, 2),
    ("transformList", 4): partial(_list, 2),
    ("transformMap", 3): partial(_map, entries=False),
    ("transformMap", 4): partial(_map, entries=False),
    ("transformMapEntry", 3): partial(_map, entries=True),
    ("transformMapEntry", 4): partial(_map, entries=True),
    ("optMap", 2): partial(_opt_map, flat=False),
    ("optFlatMap", 2): partial(_opt_map, flat=True),
    ("sortBy", 2): _sort_by,
}
