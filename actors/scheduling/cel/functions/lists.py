"""Functions of lists: Kubernetes' own, those of cel-go's extensions, and those of sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key, partial, reduce
from itertools import pairwise
from typing import Any

from ..declarations import LIMIT, Budget, Overload, budgeted, overload
from ..equality import contains, equal_within
from ..errors import CelError, no_such_overload
from ..times import Duration
from ..values import MISSING, Uint, compare, key_of, size_of
from .operators import add

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: dict[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}


MOST_VISITED = 1 << 17
MOST_INCLUDED = 48  # the most values of an attribute


def _traversal(value: Any, *_: Any) -> int:
    """Returns the cost of reading all parts of a value once; a cost above the limit if they are too
    many.
    """
    return _cost_and_size(value)[0]


def _traversing_overload(id_: str, signature: str, run: Callable[..., Any]) -> Overload:
    """Returns the overload of a function that reads all parts of a list, which first count as
    work.
    """

    def traversing(budget: Budget, values: list[Any], *rest: Any) -> Any:
        budget.strain(_cost_and_size(values)[1])
        return run(budget, values, *rest)

    return budgeted(id_, signature, traversing, _traversal)


def _cost_and_size(value: Any) -> tuple[int, int]:
    """Returns the cost of reading all parts of a value once, and the number of parts."""
    cost = visited = 0
    stack = [value]
    while stack and visited <= MOST_VISITED:
        part = stack.pop()
        visited += 1
        if type(part) in (str, bytes):
            cost += len(part) // 10
        elif type(part) is list:
            visited += len(part)
            stack.extend(part)
        elif isinstance(part, dict):
            stack += [*part, *part.values()]
        else:
            cost += 1
    return cost if visited <= MOST_VISITED else LIMIT + 1, visited


def _is_sorted(_: Budget, values: list[Any]) -> bool:
    return all(compare(a, b) <= 0 for a, b in pairwise(values))


def _sum(zero: Any) -> Callable[..., Any]:
    return lambda budget, values: reduce(partial(add, budget), values, zero)


def _extreme(name: str, choose: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(_: Budget, values: list[Any]) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        return choose(values, key=cmp_to_key(compare))

    return extreme


def _index_of(budget: Budget, values: list[Any], target: Any) -> int:
    for i, value in enumerate(values):
        if equal_within(budget, value, target):
            return i
    return -1


def _last_index_of(budget: Budget, values: list[Any], target: Any) -> int:
    for i in range(len(values) - 1, -1, -1):
        if equal_within(budget, values[i], target):
            return i
    return -1


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(values) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _slice_cost(values: Any, start: int, end: int) -> int:
    return 11 + (end - start if 0 <= start <= end <= size_of(values) else 0)


def _flatten(budget: Budget, values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat = values
    while depth and any(type(value) is list for value in flat):
        budget.strain(len(flat))
        size = sum(len(value) if type(value) is list else 1 for value in flat)
        budget.makes_elements(size)
        flat = [part for value in flat for part in (value if type(value) is list else (value,))]
        depth -= 1
    return flat


def _flatten_cost(values: Any, depth: int = 1) -> int:
    return 11 + size_of(values) * max(0, depth)


def _sort_by(budget: Budget, values: list[Any], order: list[Any]) -> list[Any]:
    if len(values) != len(order):
        raise CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys "
            f"list, but got {len(values)} and {len(order)} elements respectively"
        )
    if len({type(key) for key in order}) > 1:
        raise CelError("list elements must have the same type")
    if order and type(order[0]) in (list, dict):
        raise CelError("list elements must be comparable")
    compared = sum(4 + (size_of(key) >> 4) for key in order)
    budget.strain(compared * len(order).bit_length())
    by_key = cmp_to_key(compare)
    return [values[i] for i in sorted(range(len(values)), key=lambda i: by_key(order[i]))]


def _cost_of_all_pairs(values: list[Any], *_: Any) -> int:
    """Returns the cost of comparing each element with every other."""
    size = size_of(values)
    text = size and type(values[0]) in (str, bytes)
    return 11 + int(size * size * (2.1 if text else 2.0))


def _range(budget: Budget, count: int) -> list[int]:
    budget.makes_elements(max(0, count))
    return list(range(count))


def _distinct(budget: Budget, values: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for value in values:
        if not contains(budget, distinct, value):
            distinct.append(value)
    return distinct


def _is_subset(budget: Budget, target: Any, value: Any) -> bool:
    """True if an attribute equals a value or, if it is a list, one of its elements does."""
    if type(target) is not list:
        return equal_within(budget, target, value)
    if any(equal_within(budget, element, value) for element in target[:MOST_INCLUDED]):
        return True
    if len(target) > MOST_INCLUDED:
        raise CelError(
            f"'includes' function cannot be applied to lists longer than {MOST_INCLUDED} values"
        )
    return False


INCLUDES = (budgeted("dra_includes_dyn_dyn", "dyn::includes(dyn) -> bool", _is_subset),)


# -------------------------------------------------------------------------------------------- sets


def _sets_contain(budget: Budget, values: list[Any], others: list[Any]) -> bool:
    return all(contains(budget, values, other) for other in others)


def _sets_equivalent(budget: Budget, values: list[Any], others: list[Any]) -> bool:
    return _sets_contain(budget, values, others) and _sets_contain(budget, others, values)


def _sets_intersect(budget: Budget, values: list[Any], others: list[Any]) -> bool:
    return any(contains(budget, others, value) for value in values)


def _product(factor: int) -> Callable[[Any, Any], int]:
    return lambda a, b: 1 + size_of(a) * size_of(b) * factor


# -------------------------------------------------------------------------------------------- maps


def insert(entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Adds an entry to the map of a comprehension. Raises CelError."""
    stored = key_of(key)
    if stored in entries:
        raise CelError(f"insert failed: key {key} already exists")
    entries[stored] = value


def insert_all(entries: dict[Any, Any], others: dict[Any, Any]) -> None:
    """Adds the entries of a map. Raises CelError."""
    for key, value in others.items():
        if entries.get(key, MISSING) is not MISSING:
            raise CelError(f"insert failed: key {key} already exists")
        entries[key] = value


def _inserted(entries: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    copy = dict(entries)
    insert(copy, key, value)
    return copy


def _inserted_all(entries: dict[Any, Any], others: dict[Any, Any]) -> dict[Any, Any]:
    if not isinstance(others, dict):
        raise no_such_overload()
    copy = dict(entries)
    insert_all(copy, others)
    return copy


OVERLOADS = [
    *(
        _traversing_overload(f"list_{t}_is_sorted", f"list({t})::isSorted() -> bool", _is_sorted)
        for t in _COMPARABLE
    ),
    *(
        _traversing_overload(f"list_{t}_sum", f"list({t})::sum() -> {t}", _sum(zero))
        for t, zero in _ZEROS.items()
    ),
    *(
        _traversing_overload(
            f"list_{t}_{name}", f"list({t})::{name}() -> {t}", _extreme(name, choose)
        )
        for name, choose in (("max", max), ("min", min))
        for t in _COMPARABLE
    ),
    _traversing_overload("list_index_of", "list(A)::indexOf(A) -> int", _index_of),
    _traversing_overload("list_last_index_of", "list(A)::lastIndexOf(A) -> int", _last_index_of),
    overload("list_slice", "list(T)::slice(int, int) -> list(T)", _slice, _slice_cost),
    budgeted("list_flatten", "list(list(T))::flatten() -> list(T)", _flatten, _flatten_cost),
    budgeted("list_flatten_int", "list(dyn)::flatten(int) -> list(dyn)", _flatten, _flatten_cost),
    *(
        budgeted(
            f"list_{t}_sort",
            f"list({t})::sort() -> list({t})",
            lambda budget, values: _sort_by(budget, values, values),
            _cost_of_all_pairs,
            strains=False,
        )
        for t in _COMPARABLE
    ),
    *(
        budgeted(
            f"list_{t}_sortByAssociatedKeys",
            f"list(T)::@sortByAssociatedKeys(list({t})) -> list(T)",
            _sort_by,
            lambda _, order: _cost_of_all_pairs(order),
            strains=False,
        )
        for t in _COMPARABLE
    ),
    budgeted(
        "lists_range",
        "lists.range(int) -> list(int)",
        _range,
        lambda count: 11 + max(0, count),
        strains=False,
    ),
    overload(
        "list_reverse",
        "list(T)::reverse() -> list(T)",
        lambda values: values[::-1],
        lambda values: 11 + size_of(values),
    ),
    budgeted("list_distinct", "list(T)::distinct() -> list(T)", _distinct, _cost_of_all_pairs),
    budgeted(
        "list_sets_contains_list",
        "sets.contains(list(T), list(T)) -> bool",
        _sets_contain,
        _product(1),
    ),
    budgeted(
        "list_sets_equivalent_list",
        "sets.equivalent(list(T), list(T)) -> bool",
        _sets_equivalent,
        _product(2),
    ),
    budgeted(
        "list_sets_intersects_list",
        "sets.intersects(list(T), list(T)) -> bool",
        _sets_intersect,
        _product(1),
    ),
    overload("map_insert_key", "cel.@mapInsert(map(K, V), K, V) -> map(K, V)", _inserted),
    overload("map_insert_map", "cel.@mapInsert(map(K, V), map(K, V)) -> map(K, V)", _inserted_all),
]
