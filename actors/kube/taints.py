"""Which tolerations tolerate which taints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.kube.core import Taint, Toleration

HARD_EFFECTS = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect tolerates every effect, an empty key with Exists every key; no operator means Equal."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def tolerates_any(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """True if at least one of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def lets_in(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> bool:
    """True if every taint that keeps pods off a node is tolerated."""
    return all(taint.effect not in HARD_EFFECTS or tolerates_any(tolerations, taint) for taint in taints)
