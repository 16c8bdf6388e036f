"""Routes changes to the disruption controller: to budgets, and to pods that should be gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.actors.scheduling.kube.meta import HasMetadata

from . import disruption
from .budget_index import anything_in, budget_labels, pod_labels
from .claim import selector_from
from .cluster import Change, Cluster
from .items import Item, item_of
from .objects import Pod, PodDisruptionBudget, ReplicaSet, Replicated, controller_of, replicas_of

TARGET = "disruption-target"


def touched(cluster: Cluster, change: Change) -> Iterator[Item]:
    """Yields the budgets whose numbers a change may alter, and a pod that should be gone.

    A workload matters if its scale or its own controller changes.
    """
    before, after = change.before, change.after
    match after or before:
        case PodDisruptionBudget() as budget:
            yield item_of("PodDisruptionBudget", budget)
        case Pod():
            pods = [pod for pod in (before, after) if isinstance(pod, Pod)]
            yield from _budgets_of(cluster, pods)
            if isinstance(after, Pod) and disruption.may_be_stale(after):
                yield item_of(TARGET, after)
        case workload if isinstance(workload, Replicated) and _scale(before) != _scale(after):
            yield from _budgets_of(cluster, _pods_under(cluster, workload))


def candidates(cluster: Cluster, budget: PodDisruptionBudget) -> list[Pod]:
    """Returns all pods that a budget selects, and some others of its namespace."""
    namespace, labels = budget.metadata.namespace, budget_labels(budget)
    if anything_in(namespace) in labels:
        return cluster.within(Pod, namespace)
    return [pod for label in labels for pod in cluster.by(Pod, "label", label)]


def _budgets_of(cluster: Cluster, pods: Iterable[Pod]) -> Iterator[Item]:
    """Yields the budgets over these pods. Pods with the same labels have the same budgets."""
    different = {tuple(pod.metadata.labels.items()): pod for pod in pods}
    for pod in different.values():
        for label in (anything_in(pod.metadata.namespace), *pod_labels(pod)):
            for budget in cluster.by(PodDisruptionBudget, "label", label):
                if selector_from(budget.spec.selector).matches(pod.metadata.labels):
                    yield item_of("PodDisruptionBudget", budget)


def _pods_under(cluster: Cluster, workload: HasMetadata) -> Iterator[Pod]:
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
