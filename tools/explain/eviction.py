"""Why a pod had to leave its node: who evicted or rejected it, and where its replacement is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .words import listed

Document = dict[str, Any]
REJECTED = "Pod was rejected: "
# Who sets the condition DisruptionTarget, by its reason. NODE stands for the pod's node.
_BY = {
    "EvictionByEvictionAPI": "was evicted from NODE through the API, as by kubectl drain,",
    "DeletionByTaintManager": "was evicted from NODE by the taint eviction controller",
    "DeletionByDeviceTaintManager": "was evicted from NODE by the device taint eviction controller",
    "PreemptionByScheduler": "was preempted on NODE by the scheduler",
    "TerminationByKubelet": "was ended by the kubelet of NODE",
    "DeletionByPodGC": "was deleted by the pod garbage collector",
}


def eviction(pod: Document, documents: Iterable[Document]) -> list[str]:
    """Returns who made the pod leave its node, when and why, and where its replacement is:
    sentences without their subject; none if the pod did not have to leave.
    """
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    node = spec.get("nodeName") or "no node"
    reason, why = status.get("reason") or "", str(status.get("message") or "")
    target = _disruption(status)
    if target:
        who = _BY.get(str(target.get("reason")), f"was disrupted ({target.get('reason')})")
        why = why or str(target.get("message") or "")
        when = target.get("lastTransitionTime")
    elif status.get("phase") == "Failed" and why.startswith(REJECTED):
        who, why = "was rejected by the kubelet of NODE", why.removeprefix(REJECTED)
        when = status.get("startTime")
    elif status.get("phase") == "Failed" and reason == "Evicted":
        who, when = _BY["TerminationByKubelet"], _ended(status)
    else:
        return []
    who += f" ({reason})" if reason else ""
    at = f" at {when}" if when else ""
    told = f"{who.replace('NODE', node)}{at}" + (f": {why.strip(' .')}" if why else "")
    return [told, _replacement(pod, node, str(when or ""), documents)]


def _disruption(status: Document) -> Document:
    """Returns the condition that says why the pod is disrupted, or an empty one."""
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("DisruptionTarget", "True"):
            return dict(condition)
    return {}


def _ended(status: Document) -> str:
    """Returns when the pod stopped being ready, or ""."""
    times = (
        str(condition.get("lastTransitionTime") or "")
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Ready"
    )
    return next(times, "")


def _replacement(pod: Document, node: str, when: str, documents: Iterable[Document]) -> str:
    """Returns where the pods are that its controller has created since."""
    owner = _controller(pod)
    if owner is None:
        return "has no replacement, because no controller owns it"
    named = f"{owner['kind']} {owner['name']}"
    since = when or (pod.get("metadata") or {}).get("creationTimestamp") or ""
    later = [
        other
        for other in documents
        if other["kind"] == "Pod"
        and (_controller(other) or {}).get("uid") == owner["uid"]
        and other["metadata"].get("uid") != pod["metadata"].get("uid")
        and (other["metadata"].get("creationTimestamp") or "") >= since
    ]
    if not later:
        return f"has no replacement yet: {named} has created no pod since"
    later.sort(key=lambda other: str(other["metadata"]["name"]))
    places = [f"{other['metadata']['name']} {_place(other, node)}" for other in later]
    if len(places) == 1:
        return f"was replaced by {places[0]}"
    return f"was replaced by one of the pods that {named} has created since: {listed(places)}"


def _place(pod: Document, before: str) -> str:
    """Returns where a pod is, compared with the node of the pod that it replaces."""
    node = (pod.get("spec") or {}).get("nodeName")
    if not node:
        return "(without a node yet)"
    return f"(back on {node})" if node == before else f"(elsewhere, on {node})"


def _controller(pod: Document) -> Document | None:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)
