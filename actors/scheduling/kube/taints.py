"""Matches tolerations against taints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from .core import Taint, Toleration

HARD_EFFECTS = ("NoSchedule", "NoExecute")
COMPARISONS = ("Lt", "Gt")  # operators of tolerations
_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def without_times(taints: Sequence[Taint]) -> Sequence[Taint]:
    """Returns the taints without their times, which no toleration reads."""
    if all(taint.time_added is None for taint in taints):
        return taints
    return tuple([msgspec.structs.replace(taint, time_added=None) for taint in taints])


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True if the toleration tolerates the taint.

    An empty effect tolerates every effect; an empty key with Exists tolerates every key. A
    toleration without an operator means Equal. Lt and Gt tolerate taints whose value is an integer
    below or above the toleration's.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" as operator:
            bound, number = _integer(toleration.value), _integer(taint.value)
            if bound is None or number is None:
                return False
            return number < bound if operator == "Lt" else number > bound
        case _:
            return False


def _integer(text: str) -> int | None:
    """Returns the 64-bit integer; None for other text, leading zeros and plus signs."""
    number = int(text) if _DECIMAL.fullmatch(text) else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def tolerates_any(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """True if at least one of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


class Tolerations:
    """An index of tolerations, whose look-ups take no longer for many tolerations."""

    __slots__ = ("_comparisons", "_equal", "_exists")

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        # By key and effect; "" stands for any.
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        self._comparisons: list[Toleration] = []
        for toleration in tolerations:
            if toleration.operator == "Exists":
                self._exists.add((toleration.key, toleration.effect))
            elif toleration.operator in ("", "Equal"):
                self._equal.add((toleration.key, toleration.effect, toleration.value))
            elif toleration.operator in COMPARISONS:
                self._comparisons.append(toleration)

    def tolerate(self, taint: Taint) -> bool:
        """True if at least one toleration tolerates the taint, as in `tolerates_any`."""
        exists, equal, value = self._exists, self._equal, taint.value
        return any(
            (key, effect) in exists or (key, effect, value) in equal
            for key in (taint.key, "")
            for effect in (taint.effect, "")
        ) or tolerates_any(self._comparisons, taint)

    def let_in(self, taints: Iterable[Taint]) -> bool:
        """True if every taint that keeps pods off a node is tolerated, as in `lets_in`."""
        return all(taint.effect not in HARD_EFFECTS or self.tolerate(taint) for taint in taints)


def lets_in(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> bool:
    """True if every taint that keeps pods off a node is tolerated."""
    return all(
        taint.effect not in HARD_EFFECTS or tolerates_any(tolerations, taint) for taint in taints
    )
