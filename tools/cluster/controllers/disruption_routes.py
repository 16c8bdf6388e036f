"""Routes changes to the disruption controller: to budgets, and to pods that should be gone or
that several budgets select."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from berth.actors.scheduling.kube.meta import HasMetadata

from ...kubernetes.disruption import budgets as disruption
from ...kubernetes.disruption.budget_index import anything_in, budget_labels, pod_labels
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from ...kubernetes.objects.label_selection import selector_from
from ...kubernetes.objects.object_events import about
from ...kubernetes.objects.properties import controller_of, replicas_of
from ...kubernetes.objects.structs import Pod, PodDisruptionBudget, ReplicaSet, Replicated
from ...kubernetes.objects.writes import Create, Write
from ...kubernetes.work_items import Item, item_of

TARGET = "disruption-target"
SEVERAL = "several-budgets"  # over one pod, of which evictions know nothing to do


def touched(cluster: ObjectIndex, change: ObjectChange) -> Iterator[Item]:
    """Yields the budgets whose numbers a change may alter, and items for a pod of several budgets
    or with a stale condition DisruptionTarget.

    A workload matters if its scale or its own controller changes.
    """
    before, after = change.before, change.after
    match after or before:
        case PodDisruptionBudget() as budget:
            yield item_of("PodDisruptionBudget", budget)
        case Pod():
            for pod in _different(each for each in (before, after) if isinstance(each, Pod)):
                budgets = _covering(cluster, pod)
                yield from (item_of("PodDisruptionBudget", each) for each in budgets)
                if pod is after and len(budgets) > 1:
                    yield item_of(SEVERAL, pod)
            if isinstance(after, Pod) and disruption.may_be_stale(after):
                yield item_of(TARGET, after)
        case workload if isinstance(workload, Replicated) and _scale(before) != _scale(after):
            for pod in _different(_pods_under(cluster, workload)):
                for budget in _covering(cluster, pod):
                    yield item_of("PodDisruptionBudget", budget)


def candidates(cluster: ObjectIndex, budget: PodDisruptionBudget) -> list[Pod]:
    """Returns all pods that a budget selects, and some others of its namespace."""
    namespace, labels = budget.metadata.namespace, budget_labels(budget)
    if anything_in(namespace) in labels:
        return cluster.within(Pod, namespace)
    return [pod for label in labels for pod in cluster.by(Pod, "label", label)]


def _different(pods: Iterable[Pod]) -> Iterable[Pod]:
    """Returns the last pod of each set of labels: pods with equal ones have the same budgets."""
    return {tuple(pod.metadata.labels.items()): pod for pod in pods}.values()


def _covering(cluster: ObjectIndex, pod: Pod) -> list[PodDisruptionBudget]:
    """Returns the budgets that select a pod."""
    return [
        budget
        for label in (anything_in(pod.metadata.namespace), *pod_labels(pod))
        for budget in cluster.by(PodDisruptionBudget, "label", label)
        if selector_from(budget.spec.selector).matches(pod.metadata.labels)
    ]


def report_several(cluster: ObjectIndex, pod: Pod, now: datetime) -> list[Write]:
    """Reports that several budgets select a pod, which the API therefore does not evict."""
    budgets = sorted(budget.metadata.name for budget in _covering(cluster, pod))
    if len(budgets) < 2:
        return []
    message = (
        f'Pod "{pod.metadata.namespace}"/"{pod.metadata.name}" matches multiple '
        f'PodDisruptionBudgets.  Chose "{budgets[0]}" arbitrarily.'
    )
    why = "Warning", "MultiplePodDisruptionBudgets", message
    return [Create("Event", about(pod, *why, disruption.REPORTER, now))]


def _pods_under(cluster: ObjectIndex, workload: HasMetadata) -> Iterator[Pod]:
    """Yields the pods that a workload controls, also through ReplicaSets."""
    for dependent in cluster.dependents(workload.metadata.uid):
        match dependent:
            case Pod():
                yield dependent
            case ReplicaSet():
                yield from _pods_under(cluster, dependent)


def _scale(workload: HasMetadata | None) -> tuple[int, str, str] | None:
    """Returns the replicas of a workload, its uid and that of its controller."""
    if not isinstance(workload, Replicated):
        return None
    owner = controller_of(workload)
    return replicas_of(workload), workload.metadata.uid, owner.uid if owner is not None else ""
