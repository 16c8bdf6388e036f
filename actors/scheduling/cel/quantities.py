"""Quantities: values of `quantity(...)` and the capacities of devices."""

from __future__ import annotations

import re
from functools import lru_cache

from ..kube.quantity import BINARY, DECIMAL, MAX_INT64, QuantityError, nano_value
from .errors import CelError

GIGA = 10**9
_PARTS = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?(.*)")
_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class Quantity:
    """A quantity. `nano` is the amount in billionths; `whole` is Kubernetes' answer to `isInteger`.

    Kubernetes does not recognize every integer: for `1000m`, `isInteger` is false.
    """

    __slots__ = ("nano", "whole")

    def __init__(self, nano: int, *, whole: bool) -> None:
        self.nano = nano
        self.whole = whole

    def compare(self, other: Quantity) -> int:
        return (self.nano > other.nano) - (self.nano < other.nano)

    def add(self, other: Quantity) -> Quantity:
        nano = self.nano + other.nano
        whole = self.whole and other.whole and abs(nano) <= MAX_INT64 * GIGA
        return Quantity(nano, whole=whole)

    def sub(self, other: Quantity) -> Quantity:
        return self.add(Quantity(-other.nano, whole=other.whole))

    def as_int(self) -> int:
        if not self.whole:
            raise CelError("cannot convert value to integer")
        return self.nano // GIGA


def of_int(value: int) -> Quantity:
    return Quantity(value * GIGA, whole=True)


@lru_cache(maxsize=1 << 14)
def parse(text: str) -> Quantity:
    """Parses a quantity. Raises CelError."""
    try:
        nano = nano_value(text)
    except QuantityError:
        raise CelError(_WRONG) from None
    parts = _PARTS.fullmatch(text)
    suffix = parts[3] if parts else ""
    if suffix in BINARY:
        limit = MAX_INT64 * GIGA
        nano = max(-limit, min(limit, nano))
    return Quantity(nano, whole=_is_whole(text))


def _is_whole(text: str) -> bool:
    """True if Kubernetes stores the amount as an int64 with a scale of at least 0."""
    parts = _PARTS.fullmatch(text)
    if parts is None:
        return False
    number, fraction, suffix = parts[1] or "0", parts[2] or "", parts[3]
    if suffix in BINARY:
        power = BINARY[suffix]
        amount = int(number[:19]) << power
        return not fraction and 14 - len(number) - power * 3 // 10 >= 0 and amount <= MAX_INT64
    exponent = DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:])
    scale = exponent - len(fraction)
    if len(number) + len(fraction) > 18 or scale < 0:
        return False
    amount = int(number + fraction)
    return amount == 0 or (scale < 19 and amount * 10**scale <= MAX_INT64)
