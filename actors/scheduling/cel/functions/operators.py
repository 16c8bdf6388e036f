"""The operators, and the functions of optionals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import times
from ..declarations import Budget, Overload, budgeted, cost_of_reading, overload
from ..errors import CelError, no_such_overload
from ..times import Duration, Timestamp
from ..values import (
    MAX_INT64,
    MAX_UINT64,
    MIN_INT64,
    NONE,
    Optional,
    Uint,
    compare,
    is_zero,
    size_of,
)


def as_int(value: int) -> int:
    """Returns the value. Raises CelError if it is not an int64."""
    if not MIN_INT64 <= value <= MAX_INT64:
        raise CelError("integer overflow")
    return value


def as_uint(value: int) -> Uint:
    """Returns the value as a uint. Raises CelError if it is not a uint64."""
    if not 0 <= value <= MAX_UINT64:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def add(budget: Budget, a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is Timestamp or (kind is Duration and type(b) is Timestamp):
        moment, span = (a, b) if kind is Timestamp else (b, a)
        if type(span) is not Duration:
            raise no_such_overload()
        return times.timestamp(moment.nanos + span.nanos, moment.offset)
    if kind is not type(b):
        raise no_such_overload()
    if kind is int:
        return as_int(a + b)
    if kind is str or kind is bytes:
        budget.makes_text(len(a) + len(b))
    elif kind is list:
        budget.makes_elements(len(a) + len(b))
    elif kind is Uint:
        return as_uint(int(a) + int(b))
    elif kind is Duration:
        return times.duration(a.nanos + b.nanos)
    elif kind is not float:
        raise no_such_overload()
    return a + b


def subtract(a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is Timestamp and type(b) is Duration:
        return times.timestamp(a.nanos - b.nanos, a.offset)
    if kind is not type(b):
        raise no_such_overload()
    if kind is int:
        return as_int(a - b)
    if kind is float:
        return a - b
    if kind is Uint:
        return as_uint(int(a) - int(b))
    if kind is Duration or kind is Timestamp:
        return times.duration(a.nanos - b.nanos)
    raise no_such_overload()


def multiply(a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is not type(b):
        raise no_such_overload()
    if kind is int:
        return as_int(a * b)
    if kind is float:
        return a * b
    if kind is Uint:
        return as_uint(int(a) * int(b))
    raise no_such_overload()


def divide(a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is not type(b):
        raise no_such_overload()
    if kind is float:
        return _divide_floats(a, b)
    if kind is not int and kind is not Uint:
        raise no_such_overload()
    if b == 0:
        raise CelError("division by zero")
    if kind is Uint:
        return Uint(int(a) // int(b))
    quotient = abs(a) // abs(b)
    return as_int(quotient if (a < 0) is (b < 0) else -quotient)


def _divide_floats(a: float, b: float) -> float:
    if b:
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def modulo(a: Any, b: Any) -> Any:
    kind = type(a)
    if kind is not type(b) or (kind is not int and kind is not Uint):
        raise no_such_overload()
    if b == 0:
        raise CelError("modulus by zero")
    if kind is Uint:
        return Uint(int(a) % int(b))
    if a == MIN_INT64 and b == -1:
        raise CelError("integer overflow")
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def negate(a: Any) -> Any:
    if type(a) is int:
        return as_int(-a)
    if type(a) is float:
        return -a
    raise no_such_overload()


def invert(a: Any) -> bool:
    if type(a) is not bool:
        raise no_such_overload()
    return not a


def _cost_of_both(a: Any, b: Any) -> int:
    return cost_of_reading(size_of(a) + size_of(b))


def _cost_of_shorter(a: Any, b: Any) -> int:
    return cost_of_reading(min(size_of(a), size_of(b)))


def _arithmetic() -> list[Overload]:
    overloads = []
    for name, kind, run, types in (
        ("_-_", "subtract", subtract, ("int", "uint", "double")),
        ("_*_", "multiply", multiply, ("int", "uint", "double")),
        ("_/_", "divide", divide, ("int", "uint", "double")),
        ("_%_", "modulo", modulo, ("int", "uint")),
    ):
        overloads += [overload(f"{kind}_{t}", f"{name}({t}, {t}) -> {t}", run) for t in types]
    return overloads


def _comparisons() -> list[Overload]:
    overloads = []
    pairs = [(t, t) for t in ("bool", "timestamp", "duration", "string", "bytes")]
    numbers = ("int", "uint", "double")
    pairs += [(a, b) for a in numbers for b in numbers]
    operators: tuple[tuple[str, str, Callable[..., Any]], ...] = (
        ("_<_", "less", lambda a, b: compare(a, b) < 0),
        ("_<=_", "less_equals", lambda a, b: compare(a, b) <= 0),
        ("_>_", "greater", lambda a, b: compare(a, b) > 0),
        ("_>=_", "greater_equals", lambda a, b: compare(a, b) >= 0),
    )
    for name, kind, run in operators:
        for a, b in pairs:
            cost = _cost_of_shorter if a in ("string", "bytes") else 1
            overloads.append(overload(f"{kind}_{a}_{b}", f"{name}({a}, {b}) -> bool", run, cost))
    return overloads


def value_of(value: Any) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


def _unwrap(budget: Budget, values: list[Any]) -> list[Any]:
    budget.makes_elements(len(values))
    for value in values:
        if type(value) is not Optional:
            raise no_such_overload()
    return [value.value for value in values if value.present]


OVERLOADS = [
    overload("conditional", "_?_:_(bool, A, A) -> A"),
    overload("logical_and", "_&&_(bool, bool) -> bool"),
    overload("logical_or", "_||_(bool, bool) -> bool"),
    overload("logical_not", "!_(bool) -> bool", invert),
    overload("not_strictly_false", "@not_strictly_false(bool) -> bool"),
    overload("equals", "_==_(A, A) -> bool"),
    overload("not_equals", "_!=_(A, A) -> bool"),
    budgeted("add_bytes", "_+_(bytes, bytes) -> bytes", add, _cost_of_both),
    budgeted("add_double", "_+_(double, double) -> double", add),
    budgeted("add_duration_duration", "_+_(duration, duration) -> duration", add),
    budgeted("add_duration_timestamp", "_+_(duration, timestamp) -> timestamp", add),
    budgeted("add_timestamp_duration", "_+_(timestamp, duration) -> timestamp", add),
    budgeted("add_int64", "_+_(int, int) -> int", add),
    budgeted("add_list", "_+_(list(A), list(A)) -> list(A)", add),
    budgeted("add_string", "_+_(string, string) -> string", add, _cost_of_both),
    budgeted("add_uint64", "_+_(uint, uint) -> uint", add),
    *_arithmetic(),
    overload("subtract_duration", "_-_(duration, duration) -> duration", subtract),
    overload("subtract_timestamp", "_-_(timestamp, timestamp) -> duration", subtract),
    overload("subtract_span", "_-_(timestamp, duration) -> timestamp", subtract),
    overload("negate_double", "-_(double) -> double", negate),
    overload("negate_int64", "-_(int) -> int", negate),
    *_comparisons(),
    overload("index_list", "_[_](list(A), int) -> A"),
    overload("index_map", "_[_](map(A, B), A) -> B"),
    overload("optional_list_index_int", "_[_](optional(list(V)), int) -> optional(V)"),
    overload("optional_map_index_value", "_[_](optional(map(K, V)), K) -> optional(V)"),
    overload("list_optindex", "_[?_](list(V), int) -> optional(V)"),
    overload("optional_list_optindex", "_[?_](optional(list(V)), int) -> optional(V)"),
    overload("map_optindex", "_[?_](map(K, V), K) -> optional(V)"),
    overload("optional_map_optindex", "_[?_](optional(map(K, V)), K) -> optional(V)"),
    overload("in_list", "@in(A, list(A)) -> bool"),
    overload("in_map", "@in(A, map(A, B)) -> bool"),
    # ------------------------------------------------------------------------------- optionals
    overload("optional_of", "optional.of(V) -> optional(V)", Optional),
    overload(
        "optional_of_non_zero",
        "optional.ofNonZeroValue(V) -> optional(V)",
        lambda v: NONE if is_zero(v) else Optional(v),
    ),
    overload("optional_none", "optional.none() -> optional(V)", lambda: NONE),
    overload("optional_value", "optional(V)::value() -> V", value_of),
    overload("optional_hasValue", "optional(V)::hasValue() -> bool", lambda v: v.present),
    overload("optional_or_optional", "optional(V)::or(optional(V)) -> optional(V)"),
    overload("optional_orValue_value", "optional(V)::orValue(V) -> V"),
    overload(
        "list_first", "list(V)::first() -> optional(V)", lambda v: Optional(v[0]) if v else NONE
    ),
    overload(
        "list_last", "list(V)::last() -> optional(V)", lambda v: Optional(v[-1]) if v else NONE
    ),
    budgeted("optional_unwrap", "optional.unwrap(list(optional(V))) -> list(V)", _unwrap),
    budgeted("optional_unwrapOpt", "list(optional(V))::unwrapOpt() -> list(V)", _unwrap),
]
