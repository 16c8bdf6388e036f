"""Why a pod had to leave its node: who evicted or rejected it, and where its replacement is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from berth.actors.scheduling.kube.core import Node, Pod, Taint
from berth.actors.scheduling.kube.labels import selector_or_nothing
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.taints import tolerates

from ...kubernetes.api.types.api_documents import controller_in
from ...kubernetes.api.writes.evictions import EVICTION
from .words import listed

Document = dict[str, Any]
REJECTED = "Pod was rejected: "
_API, _TAINT = "EvictionByEvictionAPI", "DeletionByTaintManager"
_POD, _NODE, _BUDGET = Reader(Pod), Reader(Node), Reader(PodDisruptionBudget)
# Who sets the condition DisruptionTarget, by its reason. NODE stands for the pod's node.
_BY = {
    _API: "was evicted from NODE through the API, as by kubectl drain,",
    _TAINT: "was evicted from NODE by the taint eviction controller",
    "DeletionByDeviceTaintManager": "was evicted from NODE by the device taint eviction controller",
    "PreemptionByScheduler": "was preempted on NODE by the scheduler",
    "TerminationByKubelet": "was ended by the kubelet of NODE",
    "DeletionByPodGC": "was deleted by the pod garbage collector",
}


def eviction(pod: Document, documents: Iterable[Document]) -> list[str]:
    """Returns sentences without their subject: who made the pod leave its node, when and why, and
    where its replacement is; none if the pod did not have to leave.
    """
    documents = list(documents)
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    node = spec.get("nodeName") or "no node"
    reason, why = status.get("reason") or "", str(status.get("message") or "")
    target = _disruption(status)
    if target:
        who = _BY.get(str(target.get("reason")), f"was disrupted ({target.get('reason')})")
        why = (
            why
            or _budget_or_taints(pod, target, node, documents)
            or str(target.get("message") or "")
        )
        when = target.get("lastTransitionTime")
    elif status.get("phase") == "Failed" and why.startswith(REJECTED):
        who, why = "was rejected by the kubelet of NODE", why.removeprefix(REJECTED)
        when = status.get("startTime")
    elif status.get("phase") == "Failed" and reason == "Evicted":
        who, when = _BY["TerminationByKubelet"], _end_of_readiness(status)
    else:
        return []
    who += f" ({reason})" if reason else ""
    at = f" at {when}" if when else ""
    departure = f"{who.replace('NODE', node)}{at}" + (f": {why.strip(' .')}" if why else "")
    return [departure, _replacement(pod, node, str(when or ""), documents)]


def _disruption(status: Document) -> Document:
    """Returns the condition that says why the pod is disrupted, or an empty one."""
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("DisruptionTarget", "True"):
            return dict(condition)
    return {}


def _budget_or_taints(pod: Document, target: Document, node: str, documents: list[Document]) -> str:
    """Returns the numbers that allowed or caused the eviction: those of the budgets, or of the
    taints; "" if unknown.
    """
    if target.get("reason") == _API:
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        return str(annotations.get(EVICTION) or "; ".join(_present_budgets(pod, documents)))
    if target.get("reason") == _TAINT:
        return "; ".join(_untolerated_taints(pod, node, documents))
    return ""


def _present_budgets(pod: Document, documents: Iterable[Document]) -> Iterator[str]:
    """Yields the present numbers of the budgets over a pod, for want of those at the eviction."""
    mine = _POD.convert(pod).metadata
    for document in documents:
        if document["kind"] != "PodDisruptionBudget":
            continue
        budget, status = _BUDGET.convert(document), document.get("status") or {}
        selects = selector_or_nothing(budget.spec.selector).matches(mine.labels)
        if selects and budget.metadata.namespace == mine.namespace:
            yield (
                f"the budget {budget.metadata.name} now has {status.get('currentHealthy', 0)} "
                f"healthy pods, needs {status.get('desiredHealthy', 0)} and allows "
                f"{budget.status.disruptions_allowed} disruptions"
            )


def _untolerated_taints(pod: Document, name: str, documents: Iterable[Document]) -> Iterator[str]:
    """Yields the NoExecute taints of the pod's node that it does not tolerate for ever."""
    tolerations = _POD.convert(pod).spec.tolerations
    nodes = (d for d in documents if d["kind"] == "Node" and d["metadata"].get("name") == name)
    for taint in (taint for node in nodes for taint in _NODE.convert(node).spec.taints):
        if taint.effect != "NoExecute":
            continue
        used = [each.toleration_seconds for each in tolerations if tolerates(each, taint)]
        limits = [max(seconds, 0) for seconds in used if seconds is not None]
        if limits:
            yield f"{_words(taint)}, tolerated for {min(limits)} seconds"
        elif not used:
            yield f"{_words(taint)}, not tolerated"


def _words(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    since = f" since {taint.time_added}" if taint.time_added else ""
    return f"the taint {taint.key}{value}:NoExecute{since}"


def _end_of_readiness(status: Document) -> str:
    """Returns when the pod stopped being ready, or ""."""
    times = (
        str(condition.get("lastTransitionTime") or "")
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Ready"
    )
    return next(times, "")


def _replacement(pod: Document, node: str, when: str, documents: Iterable[Document]) -> str:
    """Returns the places of the pods that its controller has created since."""
    owner = controller_in(pod)
    if owner is None:
        return "has no replacement, because no controller owns it"
    named = f"{owner['kind']} {owner['name']}"
    since = when or (pod.get("metadata") or {}).get("creationTimestamp") or ""
    later = [
        other
        for other in documents
        if other["kind"] == "Pod"
        and (controller_in(other) or {}).get("uid") == owner["uid"]
        and other["metadata"].get("uid") != pod["metadata"].get("uid")
        and (other["metadata"].get("creationTimestamp") or "") >= since
    ]
    if not later:
        return f"has no replacement yet: {named} has created no pod since"
    later.sort(key=lambda other: str(other["metadata"]["name"]))
    places = [f"{other['metadata']['name']} {_place_in_words(other, node)}" for other in later]
    if len(places) == 1:
        return f"was replaced by {places[0]}"
    return f"was replaced by one of the pods that {named} has created since: {listed(places)}"


def _place_in_words(pod: Document, before: str) -> str:
    """Returns the place of a pod, compared with the node of the pod that it replaces."""
    node = (pod.get("spec") or {}).get("nodeName")
    if not node:
        return "(without a node yet)"
    return f"(back on {node})" if node == before else f"(elsewhere, on {node})"
