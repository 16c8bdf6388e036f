"""Quantities: parses Kubernetes' resource amounts exactly, rounds them up and prints them as
Kubernetes does.

Every suffix (n u m k M G T P E, Ki to Ei) and the exponent form are computed with integers only.
Results are capped to int64, as resource.Quantity caps them.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_INT64 = (1 << 63) - 1
MAX_DIGITS = 1000
Text = str | int | float

_FORM = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]{1,3})?"
)
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_UNITS = {power: unit for unit, power in DECIMAL.items()}
_BINARY_UNITS = ("", *BINARY)


class QuantityError(ValueError):
    """A text that is not a quantity."""


@lru_cache(maxsize=1 << 16)
def _scaled(text: Text, power: int) -> int:
    """Returns the quantity times 10**power, rounded away from zero."""
    numerator, denominator = _ratio(str(text))
    magnitude: int = -(-abs(numerator) * 10**power // denominator)
    return magnitude if numerator >= 0 else -magnitude


def _ratio(text: str) -> tuple[int, int]:
    """Returns the numerator and the positive denominator of the quantity."""
    match = _FORM.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise QuantityError(f"expected a quantity such as 100m, 1.5, 2Gi or 1e3, got {text[:80]!r}")
    sign, whole, fraction, suffix = match.groups("")
    if len(whole) + len(fraction) > MAX_DIGITS:
        raise QuantityError(
            f"expected a quantity of at most {MAX_DIGITS} digits, got {len(text)} characters"
        )
    digits = int(whole + fraction)
    if sign == "-":
        digits = -digits
    if suffix in BINARY:
        return digits << BINARY[suffix], 10 ** len(fraction)
    exponent = DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:])
    exponent -= len(fraction)
    return (digits * 10**exponent, 1) if exponent >= 0 else (digits, 10**-exponent)


def value(text: Text) -> int:
    """Returns the quantity in whole units, rounded up. Raises QuantityError."""
    return cap_int64(_scaled(text, 0))


def milli_value(text: Text) -> int:
    """Returns the quantity in thousandths, rounded up. Raises QuantityError."""
    return cap_int64(_scaled(text, 3))


def nano_value(text: Text) -> int:
    """Returns the quantity in billionths, the smallest unit; not capped, so that sums are exact.

    Raises QuantityError.
    """
    return _scaled(text, 9)


def cap_int64(amount: int) -> int:
    """Returns the amount, limited to the range from -MAX_INT64 to MAX_INT64."""
    return max(-MAX_INT64, min(MAX_INT64, amount))


def clamp_amount(amount: int) -> int:
    """Returns the amount, limited to the range from 0 to the largest int64."""
    return max(0, min(MAX_INT64, amount))


def binary_text(whole: int) -> str:
    """Returns the text of a whole number in the largest binary unit that leaves no fraction, such
    as 1536Mi; below 1024 in a decimal one.
    """
    if -1024 < whole < 1024:
        return decimal_text(whole * 10**9)
    unit = 0
    while whole % 1024 == 0 and unit < len(_BINARY_UNITS) - 1:
        whole, unit = whole // 1024, unit + 1
    return f"{whole}{_BINARY_UNITS[unit]}"


def decimal_text(nano: int) -> str:
    """Returns the text of an amount in billionths, in the largest decimal unit that leaves no
    fraction, such as 1500M or 250m.
    """
    if not nano:
        return "0"
    power = -9
    while nano % 1000 == 0 and power < 18:
        nano, power = nano // 1000, power + 3
    return f"{nano}{_DECIMAL_UNITS[power]}"


def exponent_text(nano: int) -> str:
    """Returns the text of an amount in billionths with the largest exponent that is a multiple of
    three and leaves no fraction, such as 15e3.
    """
    power = -9
    while nano and nano % 1000 == 0:
        nano, power = nano // 1000, power + 3
    return f"{nano}e{power}" if nano and power else str(nano)
