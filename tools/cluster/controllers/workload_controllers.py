"""The controllers of workloads: what they watch, and their input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial

from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.storage import PersistentVolumeClaim

from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.properties import controller_of, deleting
from ...kubernetes.objects.structs import (
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Node,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from ...kubernetes.objects.writes import Write
from ...kubernetes.workloads import cron_job, daemon_set, replica_set, revisions, stateful_set
from ...kubernetes.workloads.daemon_failures import FailedPods
from ...kubernetes.workloads.deployment import rollout as deployment
from ...kubernetes.workloads.job import job_controller as job
from ...kubernetes.workloads.job.backoff import Failures
from .controller import (
    NO_WATCHES,
    Affected,
    Controller,
    T,
    Watches,
    all_of,
    controller,
    if_changed,
    objects_before_and_after,
    owned_by,
    state_changes,
)

POD_OWNERS = (ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job)


def workload_controllers() -> tuple[Controller, ...]:
    failures: dict[str, Failures] = {}  # of jobs, by uid
    failed: dict[str, FailedPods] = {}  # of daemon sets, by uid

    def reconcile_job(cluster: ObjectIndex, owner: Job, now: datetime) -> list[Write]:
        uid = owner.metadata.uid
        own = failures.setdefault(uid, Failures())
        if job.finished(owner) or deleting(owner):
            del failures[uid]
        pods = cluster.candidates(Pod, owner)
        return job.reconcile(owner, pods, now, own, cluster.refusal(owner))

    def reconcile_daemon_set(cluster: ObjectIndex, owner: DaemonSet, now: datetime) -> list[Write]:
        own = failed.setdefault(owner.metadata.uid, FailedPods())
        if deleting(owner):
            del failed[owner.metadata.uid]
            return []
        history, writes = _recorded(cluster, owner)
        pods, nodes = cluster.candidates(Pod, owner), cluster.all(Node)
        return writes + daemon_set.reconcile(owner, pods, nodes, now, history, own)

    claims: Watches = {PersistentVolumeClaim: objects_before_and_after(_makers_of_claim)}
    nodes: Watches = {Node: if_changed(state_changes(_labels_and_taints), all_of(DaemonSet))}
    return (
        _workload(ReplicaSet, _replica_set, [Pod]),
        _workload(ReplicationController, _replica_set, [Pod]),
        _workload(StatefulSet, _stateful_set, [Pod, ControllerRevision], claims),
        _workload(DaemonSet, reconcile_daemon_set, [Pod, ControllerRevision], nodes),
        _workload(Job, reconcile_job, [Pod]),
        _workload(Deployment, _deployment, [ReplicaSet]),
        _workload(CronJob, _cron_job, [Job]),
    )


def _workload(
    kind: type[T],
    decide: Callable[[ObjectIndex, T, datetime], list[Write]],
    owns: Iterable[type[HasMetadata]],
    watches: Watches = NO_WATCHES,
) -> Controller:
    owned = {owned: owned_by(kind) for owned in owns}
    return controller(kind.__name__, kind, {**owned, **watches}, decide)


def _makers_of_claim(cluster: ObjectIndex, claim: PersistentVolumeClaim) -> Iterator[Affected]:
    for stateful in cluster.within(StatefulSet, claim.metadata.namespace):
        if stateful_set.makes_claim(stateful, claim.metadata.name):
            yield stateful


def _labels_and_taints(node: Node | None) -> object:
    return node and (node.metadata.labels, node.spec.taints)


def _deployment(cluster: ObjectIndex, owner: Deployment, now: datetime) -> list[Write]:
    sets = cluster.candidates(ReplicaSet, owner)
    exists = partial(cluster.has, ReplicaSet, owner.metadata.namespace)
    return deployment.reconcile(owner, sets, now, exists, cluster.refusal(owner))


def _replica_set(
    cluster: ObjectIndex, owner: ReplicaSet | ReplicationController, now: datetime
) -> list[Write]:
    pods, why = cluster.candidates(Pod, owner), cluster.refusal(owner)
    return replica_set.reconcile(owner, pods, now, why, lambda: _pods_of_siblings(cluster, owner))


def _stateful_set(cluster: ObjectIndex, owner: StatefulSet, now: datetime) -> list[Write]:
    claims = cluster.within(PersistentVolumeClaim, owner.metadata.namespace)
    history, writes = _recorded(cluster, owner)
    pods = cluster.candidates(Pod, owner)
    return writes + stateful_set.reconcile(owner, pods, claims, now, history)


def _cron_job(cluster: ObjectIndex, owner: CronJob, now: datetime) -> list[Write]:
    exists = partial(cluster.has, Job, owner.metadata.namespace)
    return cron_job.reconcile(owner, cluster.candidates(Job, owner), now, exists)


def _recorded(
    cluster: ObjectIndex, owner: DaemonSet | StatefulSet
) -> tuple[revisions.History, list[Write]]:
    exists = partial(cluster.has, ControllerRevision, owner.metadata.namespace)
    return revisions.record(owner, cluster.candidates(ControllerRevision, owner), exists)


def _pods_of_siblings(cluster: ObjectIndex, owner: ReplicaSet | ReplicationController) -> list[Pod]:
    """Returns the pods of all ReplicaSets that the owner's controller controls, if it has one."""
    controller = controller_of(owner)
    if controller is None:
        return []
    sets = (each for each in cluster.dependents(controller.uid) if isinstance(each, ReplicaSet))
    pods = (pod for each in sets for pod in cluster.dependents(each.metadata.uid))
    return [pod for pod in pods if isinstance(pod, Pod)]
