"""The taints and labels of one node that follow from its conditions and its spec.

Mirrors the part of Kubernetes' node lifecycle controller that looks at one node. The NoExecute
taint of a node that fails is not added here, because zones limit how often this happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from berth.actors.scheduling.kube.core import Node, Taint
from berth.actors.scheduling.kube.times import rfc3339

from ..objects.documents import documents_of
from ..objects.properties import condition_of, holds
from ..objects.structs import Document
from ..objects.writes import Write, patch

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# The taint of a node whose condition Ready has this status.
OF_READY = {"False": NOT_READY, "Unknown": UNREACHABLE}
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OWNED = {NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values()}
# Older labels, and the labels whose values they repeat.
_REPEATED = {
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
}


def ready_status(node: Node) -> str:
    """Returns the status of the condition Ready; "" if the node has none."""
    ready = condition_of(node.status.conditions, "Ready")
    return "" if ready is None else ready.status


def has_taint(node: Node, *keys: str, effect: str = "") -> bool:
    """True if the node has a taint with one of these keys and this effect; "" stands for any
    effect.
    """
    return any(taint.key in keys and effect in ("", taint.effect) for taint in node.spec.taints)


def no_execute_taints(node: Node | None) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE] if node else []


def is_out_of_service(node: Node) -> bool:
    """True if a user has declared the node shut down, and it is not ready."""
    return ready_status(node) != "True" and has_taint(node, OUT_OF_SERVICE)


def reconcile(node: Node, now: datetime) -> list[Write]:
    """Adds the taints and labels that the node's state requires, and removes outdated taints."""
    taints = required_taints(node)
    have = {(taint.key, taint.effect) for taint in node.spec.taints}
    kept = [t for t in node.spec.taints if not _is_owned(t) or (t.key, t.effect) in taints]
    added = [new_taint(key, effect, now) for key, effect in taints if (key, effect) not in have]
    body: Document = {}
    if added or len(kept) < len(node.spec.taints):
        body["spec"] = {"taints": [*documents_of(kept), *added]}
    labels = missing_labels(node.metadata.labels)
    if labels:
        body["metadata"] = {"labels": labels}
    return [patch(node, body, guarded=True)] if body else []


def required_taints(node: Node) -> list[tuple[str, str]]:
    """Returns key and effect of each taint that the node's state requires.

    A node without conditions counts as healthy. A node that has been tainted because it fails keeps
    its NoExecute taint, with the key for its present state.
    """
    required = [(UNSCHEDULABLE, NO_SCHEDULE)] if node.spec.unschedulable else []
    key = OF_READY.get(ready_status(node))
    if key is not None:
        required.append((key, NO_SCHEDULE))
        if has_taint(node, NOT_READY, UNREACHABLE, effect=NO_EXECUTE):
            required.append((key, NO_EXECUTE))
    for kind, pressure in _PRESSURES.items():
        if holds(node.status.conditions, kind):
            required.append((pressure, NO_SCHEDULE))
    return required


def missing_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Returns the old (beta) labels that are absent, or differ from the labels that replaced
    them.
    """
    return {
        older: labels[label]
        for older, label in _REPEATED.items()
        if label in labels and labels.get(older) != labels[label]
    }


def new_taint(key: str, effect: str, now: datetime) -> Document:
    return {"key": key, "effect": effect, "timeAdded": rfc3339(now)}


def without_failure(node: Node) -> list[Document]:
    """Returns the node's taints without the NoExecute taints of a node that fails."""
    return documents_of(
        taint
        for taint in node.spec.taints
        if taint.effect != NO_EXECUTE or taint.key not in (NOT_READY, UNREACHABLE)
    )


def _is_owned(taint: Taint) -> bool:
    if taint.effect == NO_EXECUTE:
        return taint.key in (NOT_READY, UNREACHABLE)
    return taint.effect == NO_SCHEDULE and taint.key in _OWNED
