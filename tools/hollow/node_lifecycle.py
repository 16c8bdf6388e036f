"""The node lifecycle controller: derives taints from a node's conditions and spec."""

from __future__ import annotations

from datetime import datetime

from berth.actors.scheduling.kube.core import Node

from .documents import documents_of, stamp
from .objects import condition_of, holds
from .writes import Write, patch

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OWNED = {
    *((key, effect) for key in (NOT_READY, UNREACHABLE) for effect in ("NoSchedule", "NoExecute")),
    *((key, "NoSchedule") for key in (UNSCHEDULABLE, *_PRESSURES.values())),
}


def reconcile(node: Node, now: datetime) -> list[Write]:
    """Adds the taints that the node's state requires, and removes those no longer required."""
    have = node.spec.taints
    required = required_taints(node)
    kept = [t for t in have if (t.key, t.effect) not in _OWNED or (t.key, t.effect) in required]
    present = {(taint.key, taint.effect) for taint in have}
    added = [
        {"key": key, "effect": effect, "timeAdded": stamp(now)}
        for key, effect in required
        if (key, effect) not in present
    ]
    if not added and len(kept) == len(have):
        return []
    return [patch(node, {"spec": {"taints": [*documents_of(kept), *added]}}, guarded=True)]


def required_taints(node: Node) -> list[tuple[str, str]]:
    """Returns key and effect of each taint that the node's state requires.

    A node without conditions counts as healthy.
    """
    required = [(UNSCHEDULABLE, "NoSchedule")] if node.spec.unschedulable else []
    ready = condition_of(node.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        key = NOT_READY if ready.status == "False" else UNREACHABLE
        required += [(key, "NoSchedule"), (key, "NoExecute")]
    for kind, key in _PRESSURES.items():
        if holds(node.status.conditions, kind):
            required.append((key, "NoSchedule"))
    return required
