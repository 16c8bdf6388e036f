"""The DaemonSet controller: one pod on every node that it fits, bound there by the scheduler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import (
    Node,
    NodeSelectorTerm,
    Taint,
    Toleration,
)
from berth.actors.scheduling.kube.node_selector import node_selector_matches
from berth.actors.scheduling.kube.taints import tolerates_any

from .claim import claim
from .documents import (
    Document,
    deleting,
    int_or_percent,
    is_active,
    is_ready,
    labels_of,
    name_of,
    node_of,
    pod_from,
    status_of,
    template_hash,
    tolerations_of,
)
from .writes import Create, Write, count_available, delete, status_writes

REVISION = "controller-revision-hash"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def reconcile(
    owner: Document, candidates: Iterable[Document], nodes: Iterable[Document], now: datetime
) -> list[Write]:
    """Creates missing pods, deletes those that must not be there, and updates a few at a time."""
    pods, writes = claim(owner, candidates)
    on: dict[str, list[Document]] = defaultdict(list)
    for pod in sorted(
        pods, key=lambda pod: (not node_of(pod), pod["metadata"].get("creationTimestamp") or "")
    ):
        on[target_node(pod)].append(pod)
    should: dict[str, bool] = {}
    for node in nodes:
        should[name_of(node)], stays = fits(owner, node)
        here = on[name_of(node)]
        if not deleting(owner):
            writes += _on_node(owner, name_of(node), here, should[name_of(node)], stays)
    wanted = {name for name, runs in should.items() if runs}
    if not deleting(owner) and not writes:
        writes += _update(
            owner,
            [pod for name in sorted(wanted) for pod in on[name] if is_active(pod)],
            len(wanted),
        )
    return writes + _status(owner, on, wanted, now)


def tolerations(spec: Document) -> list[Document]:
    """The tolerations of the pod and those that every daemon gets."""
    daemon = (*_TOLERATED, _HOST_NETWORK) if spec.get("hostNetwork") else _TOLERATED
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in daemon]
    given = spec.get("tolerations") or []
    return [*given, *(toleration for toleration in added if toleration not in given)]


def fits(owner: Document, node: Document) -> tuple[bool, bool]:
    """Two answers: True if a pod should run on the node; True if a pod that runs there may stay."""
    spec = owner["spec"]["template"]["spec"]
    if spec.get("nodeName") and spec["nodeName"] != name_of(node):
        return False, False
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False, False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if required is not None:
        terms = msgspec.convert(
            required.get("nodeSelectorTerms") or (), tuple[NodeSelectorTerm, ...]
        )
        if not node_selector_matches(terms, msgspec.convert({"metadata": _named(node)}, Node)):
            return False, False
    tolerated: tuple[Toleration, ...] = tolerations_of({"tolerations": tolerations(spec)})
    taints = msgspec.convert((node.get("spec") or {}).get("taints") or (), tuple[Taint, ...])
    effects = {taint.effect for taint in taints if not tolerates_any(tolerated, taint)}
    return not effects & {"NoSchedule", "NoExecute"}, "NoExecute" not in effects


def _named(node: Document) -> dict[str, Any]:
    return {"name": name_of(node), "labels": labels_of(node)}


def target_node(pod: Document) -> str:
    """The node that a daemon pod is bound to or meant for."""
    if node_of(pod):
        return node_of(pod)
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field["operator"] == "In":
                return str(field["values"][0])
    return ""


def _on_node(
    owner: Document, node: str, here: list[Document], should: bool, stays: bool
) -> list[Write]:
    """Writes for one node: its pod is missing, finished, superfluous or not allowed there."""
    if not should:
        return [] if stays else [delete(pod) for pod in here if not deleting(pod)]
    finished = [pod for pod in here if not is_active(pod) and not deleting(pod)]
    active = [pod for pod in here if is_active(pod)]
    if not here:
        return [Create("Pod", _pod(owner, node))]
    return [delete(pod) for pod in [*finished, *active[1:]]]


def _pod(owner: Document, node: str) -> Document:
    template = owner["spec"]["template"]
    pod = pod_from(owner, template, labels={REVISION: template_hash(template)})
    spec = template["spec"]
    affinity = spec.get("affinity") or {}
    # the node is known to meet the template's requirements, so its name alone is required
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        _REQUIRED: {"nodeSelectorTerms": [term]},
    }
    affinity = {**affinity, "nodeAffinity": node_affinity}
    pod["spec"] = {**spec, "affinity": affinity, "tolerations": tolerations(spec)}
    return pod


def _update(owner: Document, pods: list[Document], wanted: int) -> list[Write]:
    """Deletes pods of an old template, unready ones first, within the limit of maxUnavailable."""
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    given = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
    allowed = max(int_or_percent(given, wanted, round_up=True), 1)
    revision = template_hash(owner["spec"]["template"])
    old = [pod for pod in pods if labels_of(pod).get(REVISION) != revision]
    away = wanted - sum(map(is_ready, pods))
    unready = [pod for pod in old if not is_ready(pod)]
    ready = [pod for pod in old if is_ready(pod)]
    return [delete(pod) for pod in [*unready, *ready[: max(allowed - away, 0)]]]


def _status(
    owner: Document, on: dict[str, list[Document]], wanted: set[str], now: datetime
) -> list[Write]:
    revision = template_hash(owner["spec"]["template"])
    placed = [next((pod for pod in on[name] if is_active(pod)), None) for name in sorted(wanted)]
    pods = [pod for pod in placed if pod is not None]
    available, again = count_available(pods, owner["spec"].get("minReadySeconds") or 0, now)
    misplaced = [
        name for name, here in on.items() if name not in wanted and any(map(is_active, here))
    ]
    status = {
        **status_of(owner),
        "desiredNumberScheduled": len(wanted),
        "currentNumberScheduled": len(pods),
        "numberMisscheduled": len(misplaced),
        "numberReady": sum(map(is_ready, pods)),
        "updatedNumberScheduled": sum(labels_of(pod).get(REVISION) == revision for pod in pods),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
        "observedGeneration": owner["metadata"].get("generation", 0),
    }
    return status_writes(owner, status) + again
