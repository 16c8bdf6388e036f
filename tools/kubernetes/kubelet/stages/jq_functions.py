"""The values and functions of jq: order, arithmetic, access, and the functions that queries may
call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from berth.actors.scheduling.cel.regex import compile_pattern

Filter = Callable[[Any], list[Any]]  # from a value to its results
_RANKS: dict[type, int] = {type(None): 0, bool: 1, int: 2, float: 2, str: 3, list: 4, dict: 5}
_TYPES = ("null", "boolean", "number", "string", "array", "object")


class FailedError(Exception):
    """A query that cannot be applied to a value."""


def itself(value: Any) -> list[Any]:
    return [value]


def holds(value: Any) -> bool:
    return value is not None and value is not False


def _rank(value: Any) -> int:
    return _RANKS[type(value)]


def _place(value: Any) -> tuple[Any, ...]:
    """Returns a value's place in jq's order, in which any two values can be compared."""
    match value:
        case None:
            return (0,)
        case list():
            return _rank(value), [_place(item) for item in value]
        case dict():
            names = sorted(value)
            return _rank(value), names, [_place(value[name]) for name in names]
    return _rank(value), value


def _before(left: Any, right: Any) -> bool:
    return _place(left) < _place(right)


def _equal(left: Any, right: Any) -> bool:
    return _place(left) == _place(right)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<=": lambda left, right: not _before(right, left),
    ">=": lambda left, right: not _before(left, right),
    "<": _before,
    ">": lambda left, right: _before(right, left),
}


def add(left: Any, right: Any) -> Any:
    if left is None:
        return right
    if right is None:
        return left
    match left, right:
        case (bool(), _) | (_, bool()):
            raise FailedError
        case (int() | float(), int() | float()) | (str(), str()) | (list(), list()):
            return left + right
        case dict(), dict():
            return {**left, **right}
    raise FailedError


def subtract(left: Any, right: Any) -> Any:
    match left, right:
        case (bool(), _) | (_, bool()):
            raise FailedError
        case int() | float(), int() | float():
            return left - right
        case list(), list():
            return [item for item in left if not any(_equal(item, each) for each in right)]
    raise FailedError


def items(value: Any) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value.values())
    raise FailedError


def at(value: Any, place: Any) -> Any:
    match value, place:
        case None, _:
            return None
        case dict(), str():
            return value.get(place)
        case list(), int():
            return value[place] if -len(value) <= place < len(value) else None
    raise FailedError


def _number(value: Any) -> int | float:
    if isinstance(value, str):
        try:
            return float(value) if any(mark in value for mark in ".eE") else int(value)
        except ValueError:
            raise FailedError from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FailedError
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _length(value: Any) -> Any:
    match value:
        case None:
            return 0
        case bool():
            raise FailedError
        case int() | float():
            return abs(value)
    return len(value)


def _seconds(value: Any) -> int:
    try:
        return int(datetime.fromisoformat(_of(str, value)).timestamp())
    except ValueError:
        raise FailedError from None


def _has(value: Any, place: Any) -> bool:
    match value, place:
        case None, _:
            return False
        case dict(), str():
            return place in value
        case list(), int():
            return 0 <= place < len(value)
    raise FailedError


def _test(value: Any, pattern: Any) -> bool:
    """True if the text matches the pattern. As in Go, the time grows linearly with the text."""
    matcher = compile_pattern(_of(str, pattern)).matcher
    if matcher is None:
        raise FailedError
    return matcher.search(_of(str, value).encode(errors="replace")) is not None


def _of(type_: Any, value: Any) -> Any:
    if not isinstance(value, type_):
        raise FailedError
    return value


def _split(value: Any, mark: Any) -> list[str]:
    text, mark = _of(str, value), _of(str, mark)
    if not text:
        return []
    return text.split(mark) if mark else list(text)


def _join(value: Any, mark: Any) -> str:
    parts = ("" if item is None else item for item in _of(list, value))
    return str.join(_of(str, mark), (_text(_of(str | bool | int | float, each)) for each in parts))


def _best(value: Any, better: Callable[[Any, Any], bool]) -> Any:
    best = None
    for number, item in enumerate(_of(list, value)):
        if number == 0 or better(item, best):
            best = item
    return best


def _plain(function: Callable[[Any], Any]) -> Callable[[], Filter]:
    return lambda: lambda value: [function(value)]


def _with_argument(function: Callable[[Any, Any], Any]) -> Callable[[Filter], Filter]:
    return lambda argument: lambda value: [function(value, result) for result in argument(value)]


def _select(test: Filter) -> Filter:
    return lambda value: [value for held in test(value) if holds(held)]


def _map(each: Filter) -> Filter:
    return lambda value: [[out for item in items(value) for out in each(item)]]


def _any(test: Filter) -> Filter:
    return lambda value: [any(holds(h) for item in items(value) for h in test(item))]


def _all(test: Filter) -> Filter:
    return lambda value: [all(holds(h) for item in items(value) for h in test(item))]


def _sum_of(value: Any) -> Any:
    total = None
    for item in items(value):
        total = add(total, item)
    return total


FUNCTIONS: dict[tuple[str, int], Callable[..., Filter]] = {
    ("select", 1): _select,
    ("map", 1): _map,
    ("any", 1): _any,
    ("all", 1): _all,
    ("any", 0): lambda: _any(itself),
    ("all", 0): lambda: _all(itself),
    ("empty", 0): lambda: lambda _: [],
    ("first", 1): lambda inner: lambda value: inner(value)[:1],
    ("not", 0): _plain(lambda value: not holds(value)),
    ("length", 0): _plain(_length),
    ("add", 0): _plain(_sum_of),
    ("keys", 0): _plain(
        lambda value: sorted(value) if isinstance(value, dict) else list(range(len(items(value))))
    ),
    ("min", 0): _plain(lambda value: _best(value, _before)),
    ("max", 0): _plain(lambda value: _best(value, lambda a, b: not _before(a, b))),
    ("tonumber", 0): _plain(_number),
    ("tostring", 0): _plain(_text),
    ("type", 0): _plain(lambda value: _TYPES[_rank(value)]),
    ("ascii_downcase", 0): _plain(lambda value: _of(str, value).lower()),
    ("fromdateiso8601", 0): _plain(_seconds),
    ("has", 1): _with_argument(_has),
    ("startswith", 1): _with_argument(lambda v, a: _of(str, v).startswith(_of(str, a))),
    ("endswith", 1): _with_argument(lambda v, a: _of(str, v).endswith(_of(str, a))),
    ("split", 1): _with_argument(_split),
    ("join", 1): _with_argument(_join),
    ("test", 1): _with_argument(_test),
}
