"""Quantities as Kubernetes prints them, in the largest unit that needs no fraction."""

from __future__ import annotations

from berth.actors.scheduling.kube.quantity import BINARY, binary_text, decimal_text, nano_value

_NANOS = 10**9


def canonical(text: str | float) -> str:
    """Returns the text of a quantity as Kubernetes prints it after reading it."""
    return printed_as(text, nano_value(text))


def printed_as(example: str | float, nanos: int) -> str:
    """Returns the text of an amount in billionths, in the units of another quantity."""
    if str(example).endswith(tuple(BINARY)):
        return binary_text(-(-nanos // _NANOS))
    return decimal_text(nanos)
