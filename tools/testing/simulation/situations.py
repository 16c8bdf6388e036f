"""What a story went through, counted: how often a property had something to hold in."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...kubernetes.api.store import StoreEvent
from ...kubernetes.api.types.resources import BY_KIND, Kind

Document = dict[str, Any]
PODS, BUDGETS = BY_KIND["v1", "Pod"], BY_KIND["policy/v1", "PodDisruptionBudget"]
DEVICE_CLAIMS = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
VOLUME_CLAIMS = BY_KIND["v1", "PersistentVolumeClaim"]
LEASES = BY_KIND["coordination.k8s.io/v1", "Lease"]
DISRUPTIONS = {
    "a pod preempted": "PreemptionByScheduler",
    "a pod evicted": "EvictionByEvictionAPI",
}


class Situations:
    """Watches the writes of a cluster, and counts what they tell of in `seen`."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def note(self, kind: Kind, event: StoreEvent) -> None:
        """Takes a write into account."""
        if event.type == "DELETED" or event.is_heartbeat:
            return
        after = event.after.document
        before = event.before.document if event.before is not None else {}
        if kind is PODS:
            self._note_pod(before, after)
        elif kind is DEVICE_CLAIMS:
            self._began("devices allocated", _allocation(before), _allocation(after))
        elif kind is VOLUME_CLAIMS:
            self._began("a volume bound", _is_bound(before), _is_bound(after))
        elif kind is BUDGETS:
            self._began("an eviction permitted", *map(_disrupted, (before, after)))
        elif kind is LEASES and after["metadata"]["name"] == "kube-scheduler":
            self._note_leader(before, after)

    def _note_pod(self, before: Document, after: Document) -> None:
        if before:
            self._began("a pod bound", _node(before), _node(after))
        self._began("a pod nominated", _nominated(before), _nominated(after))
        if before and not _node(before) and _node(after) and _nominated(before):
            self.seen["a nominated pod bound"] += 1
        for what, reason in DISRUPTIONS.items():
            self._began(what, _is_disrupted(before, reason), _is_disrupted(after, reason))

    def _note_leader(self, before: Document, after: Document) -> None:
        old, new = _holder(before), _holder(after)
        if new and old != new:
            self.seen["a scheduler began to lead"] += 1

    def _began(self, what: str, before: object, after: object) -> None:
        if after and not before:
            self.seen[what] += 1


def _node(pod: Document) -> object:
    return (pod.get("spec") or {}).get("nodeName")


def _nominated(pod: Document) -> object:
    return (pod.get("status") or {}).get("nominatedNodeName")


def _is_disrupted(pod: Document, reason: str) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("reason") == reason for each in conditions)


def _allocation(claim: Document) -> object:
    return (claim.get("status") or {}).get("allocation")


def _is_bound(claim: Document) -> bool:
    return (claim.get("status") or {}).get("phase") == "Bound"


def _disrupted(budget: Document) -> object:
    return (budget.get("status") or {}).get("disruptedPods")


def _holder(lease: Document) -> object:
    return (lease.get("spec") or {}).get("holderIdentity")
