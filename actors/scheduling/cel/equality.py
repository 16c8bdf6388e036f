"""Equality of values. Comparisons of lists and maps count as work, as cel-go does not charge them
in full.
"""

from __future__ import annotations

from typing import Any

from .declarations import Budget
from .errors import CelError, LimitError, no_such_overload
from .network import CIDR, IP, Url
from .quantities import Quantity
from .semver import Semver
from .times import Duration, Timestamp
from .values import MISSING, NUMBERS, Format, Optional, TypeValue, order_numbers

_PLAIN = frozenset((str, bytes, bool, type(None), Duration, TypeValue))
_STRICT = frozenset((Quantity, Semver, IP, CIDR, Url, Format))


def equal(budget: Budget, a: Any, b: Any) -> bool:
    """True if two values are equal. Values of different types differ. Raises CelError.

    A value of Kubernetes' own types on the left can only be compared with a value of the same type.
    """
    kind, other = type(a), type(b)
    if kind in NUMBERS:
        return other in NUMBERS and _equal_numbers(a, b)
    if kind is other:
        if kind not in _PLAIN:
            return _equal_of_same_type(budget, a, b)
        if kind is str or kind is bytes:
            budget.strain(len(a) >> 8)
        return bool(a == b)
    if kind in _STRICT and b is not None:
        raise no_such_overload()
    if isinstance(a, dict) and isinstance(b, dict):
        return _equal_maps(budget, a, b)
    return False


def equal_within(budget: Budget, a: Any, b: Any) -> bool:
    """True if two elements of lists are equal. Values that cannot be compared are not."""
    try:
        return equal(budget, a, b)
    except LimitError:
        raise
    except CelError:
        return False


def contains(budget: Budget, elements: list[Any], value: Any) -> bool:
    """True if an element of the list equals the value."""
    return any(equal_within(budget, element, value) for element in elements)


def _equal_numbers(a: Any, b: Any) -> bool:
    if (type(a) is float) is not (type(b) is float):
        return order_numbers(a, b) == 0
    return bool(a == b)


def _equal_of_same_type(budget: Budget, a: Any, b: Any) -> bool:
    """True if two values of the same compound type are equal."""
    kind = type(a)
    if kind is list:
        if len(a) != len(b):
            return False
        budget.strain(len(a) + 4)
        for x, y in zip(a, b, strict=True):  # noqa: SIM110 (all() is slow when it nests)
            if not equal(budget, x, y):
                return False
        return True
    if kind is Quantity:
        return bool(a.nano == b.nano)
    if kind is Timestamp:
        return bool(a.nanos == b.nanos)
    if kind is Optional:
        if a.present and b.present:
            return equal(budget, a.value, b.value)
        return bool(a.present == b.present)
    if isinstance(a, dict):
        return _equal_maps(budget, a, b)
    return bool(a == b)


def _equal_maps(budget: Budget, a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    if len(a) != len(b):
        return False
    budget.strain(len(a) + 4)
    for key, value in a.items():
        other = b.get(key, MISSING)
        if other is MISSING or not equal(budget, value, other):
            return False
    return True
