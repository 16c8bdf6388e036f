"""The disruption controller: budgets, pods under several of them, and pods that should be gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import get_args

from berth.actors.scheduling.kube.labels import selector_or_nothing
from berth.actors.scheduling.kube.meta import HasMetadata

from ...kubernetes.disruption import budgets as disruption
from ...kubernetes.disruption.budget_index import anything_in, budget_labels, pod_labels
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.object_events import event_about
from ...kubernetes.objects.properties import controller_of, replicas_of
from ...kubernetes.objects.structs import TYPES, Pod, PodDisruptionBudget, ReplicaSet, Replicated
from ...kubernetes.objects.writes import Create, Write
from .controller import Affected, controller, if_changed, itself

TARGET = "disruption-target"
SEVERAL = "several-budgets"  # over one pod, of which evictions know nothing to do


def _scaled(cluster: ObjectIndex, kind: str, namespace: str, name: str) -> Replicated | None:
    owner = cluster.find(TYPES[kind], namespace, name)
    assert owner is None or isinstance(owner, Replicated)
    return owner


def _count(cluster: ObjectIndex, budget: PodDisruptionBudget, now: datetime) -> list[Write]:
    find = partial(_scaled, cluster)
    return disruption.reconcile(budget, candidates(cluster, budget), find, now)


def _budgets_over_pod(
    cluster: ObjectIndex, before: Pod | None, after: Pod | None
) -> Iterator[Affected]:
    if cluster.has_indexed(PodDisruptionBudget, "label"):
        for pod in _one_for_each_labels(pod for pod in (before, after) if pod is not None):
            yield from _budgets_of(cluster, pod)


def _budgets_over_workload(cluster: ObjectIndex, workload: HasMetadata) -> Iterator[Affected]:
    for pod in _one_for_each_labels(_pods_under(cluster, workload)):
        yield from _budgets_of(cluster, pod)


def _pods_of_several_budgets(
    cluster: ObjectIndex, _before: Pod | None, pod: Pod | None
) -> Iterator[Affected]:
    if pod is not None and len(_budgets_of(cluster, pod)) > 1:
        yield pod


def candidates(cluster: ObjectIndex, budget: PodDisruptionBudget) -> list[Pod]:
    """Returns the pods that a budget may select: all that it does, and some others of its
    namespace.
    """
    namespace, labels = budget.metadata.namespace, budget_labels(budget)
    if anything_in(namespace) in labels:
        return cluster.within(Pod, namespace)
    return [pod for label in labels for pod in cluster.by(Pod, "label", label)]


def _one_for_each_labels(pods: Iterable[Pod]) -> Iterable[Pod]:
    """Returns one pod for each set of labels, the last one: pods with equal labels have the same
    budgets.
    """
    return {tuple(pod.metadata.labels.items()): pod for pod in pods}.values()


def _budgets_of(cluster: ObjectIndex, pod: Pod) -> list[PodDisruptionBudget]:
    """Returns the budgets that select a pod."""
    if not cluster.has_indexed(PodDisruptionBudget, "label"):
        return []
    return [
        budget
        for label in (anything_in(pod.metadata.namespace), *pod_labels(pod))
        for budget in cluster.by(PodDisruptionBudget, "label", label)
        if selector_or_nothing(budget.spec.selector).matches(pod.metadata.labels)
    ]


def report_several(cluster: ObjectIndex, pod: Pod, now: datetime) -> list[Write]:
    """Reports that several budgets select a pod, so that the API cannot evict it."""
    budgets = sorted(budget.metadata.name for budget in _budgets_of(cluster, pod))
    if len(budgets) < 2:
        return []
    message = (
        f'Pod "{pod.metadata.namespace}"/"{pod.metadata.name}" matches multiple '
        f'PodDisruptionBudgets.  Chose "{budgets[0]}" arbitrarily.'
    )
    why = "Warning", "MultiplePodDisruptionBudgets", message
    return [Create("Event", event_about(pod, *why, disruption.REPORTER, now))]


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


DISRUPTION = (
    controller(
        "PodDisruptionBudget",
        PodDisruptionBudget,
        {
            Pod: _budgets_over_pod,
            **{
                kind: if_changed(
                    lambda before, after: _scale(before) != _scale(after), _budgets_over_workload
                )
                for kind in get_args(Replicated)
            },
        },
        _count,
    ),
    controller(SEVERAL, Pod, {Pod: _pods_of_several_budgets}, report_several),
    controller(
        TARGET,
        Pod,
        {Pod: if_changed(lambda _, pod: pod is not None and disruption.may_be_stale(pod), itself)},
        lambda _, pod, now: disruption.clear_stale_target(pod, now),
    ),
)
