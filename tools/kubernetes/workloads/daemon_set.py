"""The DaemonSet controller: one pod on every node that it fits; the scheduler binds it there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from datetime import datetime

from berth.actors.scheduling.kube.core import Node, NodeSelectorTerm, Pod, PodSpec
from berth.actors.scheduling.kube.node_selector import node_selector_matches
from berth.actors.scheduling.kube.taints import tolerates_any

from ..api.writes.template_generation import ANNOTATION
from ..objects.documents import labels_in, pod_from, status_of
from ..objects.properties import (
    deleting,
    int_or_percent,
    is_active,
    is_finished,
    is_ready,
    seconds_to_available,
)
from ..objects.structs import DaemonSet, Document, read
from ..objects.writes import (
    POD_CREATED,
    Again,
    Create,
    Notice,
    Write,
    count_available,
    delete_pod,
    status_writes,
)
from .adoption import claim, would_keep
from .daemon_failures import FailedPods
from .revisions import HASH, History, delete_old_revisions, empty_history

_NUMBER = "pod-template-generation"
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
    owner: DaemonSet,
    candidates: Iterable[Pod],
    nodes: Iterable[Node],
    now: datetime,
    history: History | None = None,
    failed: FailedPods | None = None,
) -> list[Write]:
    """Creates missing pods, deletes unwanted ones, and updates a few at a time.

    Without a history, the owner is treated as if it had no revisions. `failed` has the nodes where
    pods have failed before. A set that is being deleted is left as it is.
    """
    if deleting(owner) or not would_keep(owner, labels_in(owner.spec.template)):
        return []
    history, failed = history or empty_history(owner), failed or FailedPods()
    failed.forget(now)
    pods, writes = claim(owner, candidates)
    on: dict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(pods, key=_rank_on_node):
        if not (deleting(pod) and is_finished(pod)):  # nothing is left to do for such a pod
            on[target_node(pod)].append(pod)
    should: dict[str, bool] = {}
    again: list[Write] = []
    spec = daemon_spec(owner)
    for node in nodes:
        name = node.metadata.name
        should[name], stays = fits(spec, node)
        ended, late = _finished_pods(owner, name, on[name], failed, now) if stays else ([], [])
        again += late
        writes += (delete_pod(pod, _finish_notice(pod, name)) for pod in ended)
        writes += _on_node(owner, name, on[name], should[name], stays, history.hash, now)
    eligible = {name for name, runs in should.items() if runs}
    writes += _delete_from_missing_nodes(on, should)
    if not writes:
        writes += _update(owner, on, eligible, history.hash, now)
        writes += delete_old_revisions(owner, history, pods)
    return writes + _status(owner, on, should, now, history) + again


def _rank_on_node(pod: Pod) -> tuple[bool, str, str]:
    """Returns the sort key of the pods on a node, of which the first stays: bound ones first, then
    the oldest.

    Of several, all but the first go.
    """
    metadata = pod.metadata
    return not pod.spec.node_name, metadata.creation_timestamp or "", metadata.name


def tolerations(spec: Document) -> list[Document]:
    """Returns the pod's tolerations, and the tolerations that every daemon pod gets."""
    daemon = (*_TOLERATED, _HOST_NETWORK) if spec.get("hostNetwork") else _TOLERATED
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in daemon]
    own = spec.get("tolerations") or []
    return [*own, *(toleration for toleration in added if toleration not in own)]


def daemon_spec(owner: DaemonSet) -> PodSpec:
    """Returns the spec of a daemon pod before it gets a target node."""
    spec = owner.spec.template["spec"]
    return read({**spec, "tolerations": tolerations(spec)}, PodSpec)


def fits(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Returns whether the node should run a daemon pod, and whether it may keep one."""
    if spec.node_name not in ("", node.metadata.name):
        return False, False
    if not spec.node_selector.items() <= node.metadata.labels.items():
        return False, False
    terms = _required_terms(spec)
    if terms is not None and not node_selector_matches(terms, node):
        return False, False
    effects = {t.effect for t in node.spec.taints if not tolerates_any(spec.tolerations, t)}
    return not effects & {"NoSchedule", "NoExecute"}, "NoExecute" not in effects


def _required_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...] | None:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required else None


def target_node(pod: Pod) -> str:
    """Returns the node of a daemon pod: its node if it is bound, otherwise its target."""
    if pod.spec.node_name:
        return pod.spec.node_name
    for term in _required_terms(pod.spec) or ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                return field.values[0]
    return ""


def _finished_pods(
    owner: DaemonSet, node: str, here: list[Pod], failed: FailedPods, now: datetime
) -> tuple[list[Pod], list[Write]]:
    """Returns the finished pods of a node to delete now, and reminders about failed ones that stay
    for a while.
    """
    ended, again = list[Pod](), list[Write]()
    for pod in here:
        if is_active(pod) or deleting(pod):
            continue
        generation = owner.status.observed_generation
        wait = failed.wait(node, generation, now) if pod.status.phase == "Failed" else 0.0
        if wait:
            again.append(Again(wait))
        else:
            ended.append(pod)
    return ended, again


def _finish_notice(pod: Pod, node: str) -> Notice:
    """Returns the notice of a finished pod."""
    where = f"daemon pod {pod.metadata.namespace}/{pod.metadata.name} on node {node}"
    if pod.status.phase == "Failed":
        return Notice("FailedDaemonPod", f"Found failed {where}, will try to kill it", "Warning")
    return Notice("SucceededDaemonPod", f"Found succeeded {where}, will try to delete it")


def _delete_from_missing_nodes(on: dict[str, list[Pod]], nodes: Container[str]) -> list[Write]:
    """Deletes pods whose target node is gone and that are not bound yet."""
    return [
        delete_pod(pod)
        for node, here in on.items()
        if node and node not in nodes
        for pod in here
        if not pod.spec.node_name and not deleting(pod)
    ]


def _on_node(
    owner: DaemonSet,
    node: str,
    here: list[Pod],
    should: bool,
    stays: bool,
    revision: str,
    now: datetime,
) -> list[Write]:
    """Returns the writes for a node with a missing, superfluous or disallowed pod."""
    if not stays:
        return [delete_pod(pod) for pod in here if not deleting(pod)]
    active, away = [pod for pod in here if is_active(pod)], list[Pod]()
    surges = _update_limits(owner, 100)[0] > 0
    if surges:
        new, old = _by_revision(active, revision)
        away += [*new[1:], *old[1:]]
        if new and old and (not is_ready(old[0]) or _is_available(owner, new[0], now)):
            away.append(old[0])
    else:
        away += active[1:]
    writes: list[Write] = [delete_pod(pod) for pod in away]
    if should and (not here or (surges and not active)):
        writes.append(Create("Pod", _pod(owner, node, revision), (POD_CREATED,)))
    return writes


def _pod(owner: DaemonSet, node: str, revision: str) -> Document:
    labels = {HASH: revision}
    if number := owner.metadata.annotations.get(ANNOTATION):
        labels[_NUMBER] = number
    pod = pod_from(owner, labels=labels)
    spec = spec_for_node(owner.spec.template["spec"], node)
    pod["spec"] = {**spec, "tolerations": tolerations(spec)}
    return pod


def spec_for_node(spec: Document, node: str) -> Document:
    """Returns the spec of a pod that can run on this node only.

    The node is known to meet the other requirements, so its name alone is required.
    """
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        _REQUIRED: {"nodeSelectorTerms": [term]},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def _by_revision(pods: list[Pod], revision: str) -> tuple[list[Pod], list[Pod]]:
    """Returns the pods of the revision and the others."""
    new = [pod for pod in pods if pod.metadata.labels.get(HASH) == revision]
    return new, [pod for pod in pods if pod not in new]


def _is_available(owner: DaemonSet, pod: Pod, now: datetime) -> bool:
    seconds = seconds_to_available(pod, owner.spec.min_ready_seconds, now)
    return seconds is not None and seconds <= 0


def _update_limits(owner: DaemonSet, desired: int) -> tuple[int, int]:
    """Returns how many pods an update may add, and how many may be unavailable meanwhile."""
    strategy = owner.spec.update_strategy
    if strategy.type == "OnDelete":
        return 0, 0
    rolling = strategy.rolling_update
    surge = int_or_percent(rolling.max_surge or 0, desired, round_up=True)
    most = 1 if rolling.max_unavailable is None else rolling.max_unavailable
    unavailable = int_or_percent(most, desired, round_up=True)
    return surge, unavailable if surge or unavailable else 1


def _update(
    owner: DaemonSet, on: dict[str, list[Pod]], eligible: set[str], revision: str, now: datetime
) -> list[Write]:
    """Replaces pods of an old template: deletes them within maxUnavailable, or with maxSurge
    creates the new one first. Pods that are not available are replaced at once.
    """
    if owner.spec.update_strategy.type == "OnDelete":
        return []
    surge, unavailable = _update_limits(owner, len(eligible))
    by_node = {
        node: _by_revision([pod for pod in on[node] if not deleting(pod)], revision)
        for node in sorted(eligible | {node for node, pods in on.items() if node and pods})
    }
    if surge:
        return _create_beside_old(owner, by_node, eligible, surge, revision, now)
    replaced, candidates = [], []
    for new, old in by_node.values():
        if len(new) + len(old) != 1:  # The pod is missing, or comes later.
            unavailable -= 1
        elif new:
            unavailable -= not _is_available(owner, new[0], now)
        elif _is_available(owner, old[0], now):
            candidates += old
        else:
            replaced += old
            unavailable -= 1
    return [delete_pod(pod) for pod in [*replaced, *candidates[: max(unavailable, 0)]]]


def _create_beside_old(
    owner: DaemonSet,
    by_node: dict[str, tuple[list[Pod], list[Pod]]],
    eligible: set[str],
    surge: int,
    revision: str,
    now: datetime,
) -> list[Write]:
    """Creates new pods beside the old ones, at most `surge` beside old ones that are available. An
    available pod on a node that no longer takes it goes once enough others are available.
    """
    available = 0
    surplus: list[Pod] = []
    deletions: list[Pod] = []
    at_once: list[str] = []
    candidates: list[str] = []
    for node, (new, old) in by_node.items():
        if len(new) > 1 or len(old) > 1:
            surge -= 1
            continue
        is_available = any(_is_available(owner, pod, now) for pod in old or new)
        available += is_available
        if not old:
            continue
        if new and _is_available(owner, new[0], now):
            deletions += old
        elif new:
            surge -= 1
        elif node in eligible:
            (candidates if is_available else at_once).append(node)
        else:
            (surplus if is_available else deletions).extend(old)
    deletions += surplus[: max(available - len(eligible), 0)]
    nodes = [*at_once, *candidates[: max(surge, 0)]]
    creations = [Create("Pod", _pod(owner, node, revision), (POD_CREATED,)) for node in nodes]
    return [*map(delete_pod, deletions), *creations]


def _status(
    owner: DaemonSet,
    on: dict[str, list[Pod]],
    should: dict[str, bool],
    now: datetime,
    history: History,
) -> list[Write]:
    """Returns the write of the status. It counts the oldest pod of each node, even one that is
    being deleted.
    """
    pods = [on[name][0] for name in sorted(should) if should[name] and on[name]]
    available, again = count_available(pods, owner.spec.min_ready_seconds, now)
    eligible = sum(should.values())
    status = {
        **status_of(owner),
        "desiredNumberScheduled": eligible,
        "currentNumberScheduled": len(pods),
        "numberMisscheduled": sum(bool(on[name]) for name in should if not should[name]),
        "numberReady": sum(map(is_ready, pods)),
        "updatedNumberScheduled": sum(
            pod.metadata.labels.get(HASH) == history.hash for pod in pods
        ),
        "numberAvailable": available,
        "numberUnavailable": eligible - available,
        "observedGeneration": owner.metadata.generation,
    }
    if history.collisions:
        status["collisionCount"] = history.collisions
    return status_writes(owner, status) + again
