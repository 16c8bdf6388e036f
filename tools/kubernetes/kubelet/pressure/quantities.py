"""Quantities as Kubernetes prints them, in the largest unit that needs no fraction."""

from __future__ import annotations

from berth.actors.scheduling.kube.quantity import BINARY, DECIMAL, nano_value

_BINARY_UNITS = ("", *BINARY)
_DECIMAL_UNITS = {power: unit for unit, power in DECIMAL.items()}
_NANOS = 10**9


def binary_text(amount: int) -> str:
    """Returns the text of a number of bytes, such as 1536Mi."""
    if -1024 < amount < 1024:
        return decimal_text(amount * _NANOS)
    unit = 0
    while amount % 1024 == 0 and unit < len(_BINARY_UNITS) - 1:
        amount, unit = amount // 1024, unit + 1
    return f"{amount}{_BINARY_UNITS[unit]}"


def decimal_text(nanos: int) -> str:
    """Returns the text of an amount in billionths, such as 1500M or 250m."""
    if nanos == 0:
        return "0"
    power = -9
    while nanos % 1000 == 0 and power < 18:
        nanos, power = nanos // 1000, power + 3
    return f"{nanos}{_DECIMAL_UNITS[power]}"


def canonical(text: str | float) -> str:
    """Returns the text of a quantity as Kubernetes prints it after reading it."""
    return printed_as(text, nano_value(text))


def printed_as(example: str | float, nanos: int) -> str:
    """Returns the text of an amount in billionths, in the units of another quantity."""
    if str(example).endswith(tuple(BINARY)):
        return binary_text(-(-nanos // _NANOS))
    return decimal_text(nanos)
