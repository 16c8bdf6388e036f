"""What an expression comes to for a device without attributes."""

from __future__ import annotations

from berth.actors.scheduling.cel import CelError, selector
from berth.actors.scheduling.kube.devices import Device


def outcome(expression: str) -> bool | str:
    """Returns the result, or the message of the error."""
    compiled = selector(expression)
    try:
        return compiled.error or compiled.matches("x", Device())
    except CelError as problem:
        return str(problem)
