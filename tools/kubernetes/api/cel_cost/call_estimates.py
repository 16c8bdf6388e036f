"""Estimates the costs of calls, by the sizes of their operands.

Sizes and costs are ranges; they end at the largest uint64. The functions mirror cel-go's
checker/cost.go and ext/lists.go, and the cost.go of Kubernetes' functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from berth.actors.scheduling.cel.declarations import Overload
from berth.actors.scheduling.cel.tree import Literal, TreeNode
from berth.actors.scheduling.cel.types import CIDR, FORMAT, IP, QUANTITY, SEMVER, URL, Type
from berth.actors.scheduling.cel.values import MAX_INT64, MAX_UINT64

# Limits of the API for a device.
MOST_NAMES = 32
LONGEST_DOMAIN = 63
LONGEST_ID = 32
LONGEST_DRIVER = 63
LONGEST_VALUE = 64
LONGEST_FORMAT = 64
_FORMAT_PATTERN = 128 * 0.25

Path = tuple[str, ...]


class Range(NamedTuple):
    low: int
    high: int

    def plus(self, other: Range) -> Range:
        return Range(_at_most_uint64(self.low + other.low), _at_most_uint64(self.high + other.high))

    def times(self, other: Range) -> Range:
        return Range(_at_most_uint64(self.low * other.low), _at_most_uint64(self.high * other.high))

    def scaled(self, factor: float) -> Range:
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _at_most_uint64(value: int) -> int:
    return min(value, MAX_UINT64)


def _scaled(value: int, factor: float) -> int:
    return _at_most_uint64(math.ceil(float(value) * factor))


def fixed(value: int) -> Range:
    return Range(value, value)


ZERO, ONE = fixed(0), fixed(1)
UNKNOWN = Range(0, MAX_UINT64)
NOTHING = Range(MAX_UINT64, 0)


class Operand(NamedTuple):
    """An operand with its size, the input of estimates."""

    node: TreeNode | None
    type: Type
    path: Path
    size: Range | None


class Estimate(NamedTuple):
    """The cost of a call, and the size of its result; the size is None if it is unknown."""

    cost: Range
    size: Range | None = None


def device_size(path: Path) -> Range | None:
    """Returns the size of a part of the device; None for an unknown path."""
    match path:
        case ("device",):
            return Range(0, MAX_INT64)
        case ("device", "driver"):
            return Range(0, LONGEST_DRIVER)
        case ("device", "allowMultipleAllocations"):
            return Range(0, 1)
        case ("device", "attributes" | "capacity"):
            return Range(0, MOST_NAMES)
        case ("device", "attributes" | "capacity", "@keys"):
            return Range(0, LONGEST_DOMAIN)
        case ("device", "attributes" | "capacity", "@values"):
            return Range(0, MOST_NAMES)
        case ("device", "attributes" | "capacity", "@values", "@keys"):
            return Range(0, LONGEST_ID)
        case ("device", "capacity", "@values", "@values"):
            return ZERO  # upstream declares no size for quantities
        case ("device", "attributes", "@values", name) if name != "@items":
            return Range(0, LONGEST_VALUE)
        case _:
            return None


def size_of(operand: Operand) -> Range:
    if operand.size is not None:
        return operand.size
    return device_size(operand.path) or UNKNOWN


def or_unknown(size: Range | None) -> Range:
    return UNKNOWN if size is None else size


# --------------------------------------------------------------------------------------- functions


def call_estimate(
    overload: Overload, target: Operand | None, args: list[Operand]
) -> Estimate | None:
    """Returns the estimate of a call; None for a cost of 1 and a result of unknown size."""
    estimate = _BY_OVERLOAD.get(overload.id) or _BY_FUNCTION.get(overload.function)
    if estimate is None:
        return None
    operands = args if target is None else [target, *args]
    return estimate(*operands)


def _cost_of_reading(text: Operand, *_: Operand) -> Estimate:
    return Estimate(size_of(text).scaled(0.1))


def _cost_of_reading_twice(text: Operand, *_: Operand) -> Estimate:
    return Estimate(size_of(text).scaled(0.2))


def _same_size(text: Operand, *_: Operand) -> Estimate:
    """Returns the estimate of a function that reads a text and returns a text of the same size."""
    return Estimate(size_of(text).scaled(0.1), size_of(text))


def _to_bytes(text: Operand) -> Estimate:
    size = or_unknown(text.size)
    return Estimate(size.scaled(0.1), Range(size.low, size.high * 4 & MAX_UINT64))


def _to_string(data: Operand) -> Estimate:
    size = or_unknown(data.size)
    return Estimate(size.scaled(0.1), Range(size.low // 4, size.high))


def _quoted(text: Operand) -> Estimate:
    size = or_unknown(text.size)
    return Estimate(size.scaled(0.1), Range(size.low + 2, size.high * 2 + 2 & MAX_UINT64))


def _formatted(text: Operand, *_: Operand) -> Estimate:
    return Estimate(or_unknown(text.size).scaled(0.1))


def _part_read(_text: Operand, part: Operand) -> Estimate:
    return Estimate(or_unknown(part.size).scaled(0.1))


def _in_list(_value: Operand, values: Operand) -> Estimate:
    return Estimate(or_unknown(values.size))


def _matched(text: Operand, pattern: Operand) -> Estimate:
    cost = or_unknown(text.size).plus(ONE).scaled(0.1)
    return Estimate(cost.times(or_unknown(pattern.size).scaled(0.25)))


def _searched(text: Operand, pattern: Operand, *_: Operand) -> Estimate:
    size = size_of(text)
    cost = size.plus(ONE).scaled(0.1).times(size_of(pattern).scaled(0.25))
    return Estimate(cost, Range(0, size.high))


def _contained(text: Operand, part: Operand) -> Estimate:
    cost = or_unknown(text.size).scaled(0.1).times(or_unknown(part.size).scaled(0.1))
    return Estimate(cost)


def _compared(a: Operand, b: Operand) -> Estimate:
    shortest = min(or_unknown(a.size).high, or_unknown(b.size).high)
    return Estimate(Range(min(1, shortest), shortest).scaled(0.1))


def _equal(a: Operand, b: Operand) -> Estimate:
    if a.type == b.type:
        if a.type in (QUANTITY, SEMVER, IP, CIDR):
            return Estimate(ONE)
        if a.type == FORMAT:
            return Estimate(Range(1, LONGEST_FORMAT).scaled(0.1))
        if a.type == URL:
            return Estimate(Range(1, b.size.high if b.size else 1).scaled(0.1))
    return _compared(a, b)


def _element(values: Operand) -> Operand | None:
    if not values.type.of:
        return None
    path = (*values.path, "@items") if values.path else ()
    return Operand(None, values.type.of[0], path, None)


def _traversed(values: Operand, *_: Operand) -> Estimate:
    element = _element(values)
    if element is None:
        return Estimate(size_of(values).scaled(0.1))
    cost = ONE
    if element.type.kind in ("string", "bytes"):
        cost = cost.plus(size_of(element).scaled(0.1))
    return Estimate(size_of(values).times(cost))


def _replaced(text: Operand, old: Operand, new: Operand, *_: Operand) -> Estimate:
    size, before, after = size_of(text), size_of(old), size_of(new)
    most = least = kept_most = kept_least = 0
    if before.low == 0:
        most, kept_most = _at_most_uint64(size.high + 1), size.high
    elif after.high <= before.low:
        kept_most = size.high
    else:
        most = _at_most_uint64(math.ceil(size.high / before.low))
    if before.high == 0:
        least, kept_least = _at_most_uint64(size.low + 1), size.low
    elif before.high <= after.low:
        kept_least = size.low
    else:
        least = _at_most_uint64(math.ceil(size.low / before.high))
    result = Range(least, most).times(after).plus(Range(kept_least, kept_most))
    return Estimate(size.scaled(0.2), result)


def _split(text: Operand, *more: Operand) -> Estimate:
    size = size_of(text)
    most = size.high
    if len(more) > 1:
        limit = more[1].node
        if isinstance(limit, Literal) and type(limit.value) is int:
            most = limit.value & MAX_UINT64
    return Estimate(size.scaled(0.2), Range(0, most))


def _joined(values: Operand, *separator: Operand) -> Estimate:
    count, size = size_of(values), ZERO
    element = _element(values)
    if element is not None:
        size = count.times(size_of(element))
    for part in separator:
        between = Range(max(0, count.low - 1), max(0, count.high - 1))
        size = size.plus(size_of(part).times(between))
    return Estimate(size.scaled(0.1), size)


def _contains_ip(_cidr: Operand, other: Operand) -> Estimate:
    cost = Range(8, 32).scaled(0.1)
    return Estimate(cost.plus(size_of(other).scaled(0.1)) if other.type.kind == "string" else cost)


def _contains_cidr(cidr: Operand, other: Operand) -> Estimate:
    more = Range(4, 16).scaled(0.1).plus(ONE)
    return Estimate(_contains_ip(cidr, other).cost.plus(more))


def _validated(_format: Operand, text: Operand) -> Estimate:
    return Estimate(size_of(text).scaled(0.1).scaled(_FORMAT_PATTERN))


def _sets(factor: float) -> Callable[[Operand, Operand], Estimate]:
    def estimate(a: Operand, b: Operand) -> Estimate:
        return Estimate(size_of(a).times(size_of(b)).scaled(factor).plus(ONE))

    return estimate


def _list_call(factor: float, size: Range) -> Estimate:
    return Estimate(size.scaled(factor).plus(fixed(11)), size)


def _int_of(operand: Operand, otherwise: int) -> int:
    node = operand.node
    if isinstance(node, Literal) and type(node.value) is int:
        return max(0, node.value)
    return otherwise


def _sliced(values: Operand, start: Operand, end: Operand) -> Estimate:
    size = _int_of(end, size_of(values).high) - _int_of(start, 0)
    return _list_call(1, fixed(size & MAX_UINT64))


def _ranged(count: Operand) -> Estimate:
    return _list_call(1, fixed(_int_of(count, MAX_UINT64)))


def _reversed(values: Operand) -> Estimate:
    return _list_call(1, size_of(values))


def _flattened(values: Operand, *depth: Operand) -> Estimate:
    factor = _int_of(depth[0], MAX_UINT64) if depth else 1
    return _list_call(float(factor), size_of(values))


def _distinct(values: Operand) -> Estimate:
    size = size_of(values)
    return _list_call(2, size.times(size))


def _sorted(kind: str, position: int) -> Callable[..., Estimate]:
    factor = 2.1 if kind in ("string", "bytes") else 2.0

    def estimate(*operands: Operand) -> Estimate:
        size = size_of(operands[position])
        return _list_call(factor, size.times(size))

    return estimate


_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_BY_OVERLOAD: dict[str, Callable[..., Estimate]] = {
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "in_list": _in_list,
    "matches_string": _matched,
    "list_slice": _sliced,
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
    "lists_range": _ranged,
    "list_reverse": _reversed,
    "list_distinct": _distinct,
    "cidr_ip": lambda *_: Estimate(ONE),
    **{f"list_{t}_sort": _sorted(t, 0) for t in _COMPARABLE},
    **{f"list_{t}_sortByAssociatedKeys": _sorted(t, 1) for t in _COMPARABLE},
    **{
        f"{operator}_{t}_{t}": _compared
        for operator in ("less", "less_equals", "greater", "greater_equals")
        for t in ("string", "bytes")
    },
}
_BY_FUNCTION: dict[str, Callable[..., Estimate]] = {
    "_==_": _equal,
    "_!=_": _compared,
    "contains": _contained,
    "startsWith": _part_read,
    "endsWith": _part_read,
    "strings.quote": _quoted,
    "format": _formatted,
    "find": _searched,
    "findAll": _searched,
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validated,
    "ip.isCanonical": _cost_of_reading_twice,
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _same_size),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversed),
    **dict.fromkeys(
        (
            "cidr",
            "isIP",
            "isCIDR",
            "ip",
            "quantity",
            "isQuantity",
            "semver",
            "isSemver",
        ),
        _cost_of_reading,
    ),
}
