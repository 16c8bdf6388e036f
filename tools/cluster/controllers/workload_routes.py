"""Routes each change to the controllers and items that it concerns, and collects their input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.storage import PersistentVolumeClaim

from ...kubernetes import (
    garbage_collector,
)
from ...kubernetes.disruption import (
    budgets,
)
from ...kubernetes.kubelet.usage_models import NO_SCENARIO, Scenario
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from ...kubernetes.objects.properties import controller_of, deleting
from ...kubernetes.objects.structs import (
    TYPES,
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Node,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    Replicated,
    ReplicationController,
    StatefulSet,
    Workload,
)
from ...kubernetes.objects.writes import Write
from ...kubernetes.work_items import Item, item_of
from ...kubernetes.workloads import (
    cron_job,
    daemon_set,
    replica_set,
    revisions,
    stateful_set,
)
from ...kubernetes.workloads.adoption import selector_of
from ...kubernetes.workloads.daemon_failures import FailedPods
from ...kubernetes.workloads.deployment import rollout as deployment
from ...kubernetes.workloads.job import job_controller as job
from ...kubernetes.workloads.job.backoff import Failures
from . import device_routes as devices
from . import (
    disruption_routes,
)
from . import node_routes as nodes
from . import storage_routes as storage
from .autoscaler_routes import CONTROLLER as AUTOSCALER
from .autoscaler_routes import Autoscalers

POD_OWNERS = (ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job)
OWNERS: dict[type[HasMetadata], tuple[type[Workload], ...]] = {
    Pod: POD_OWNERS,
    ReplicaSet: (Deployment,),
    ControllerRevision: (StatefulSet, DaemonSet),
}
WORKLOADS = tuple(kind.__name__ for kind in (*POD_OWNERS, Deployment, CronJob))
FOLLOWED = tuple(TYPES)


def touched(cluster: ObjectIndex, change: ObjectChange) -> Iterator[Item]:
    """Yields the items that a change may affect; an item may occur twice."""
    if isinstance(change.before, Lease) and isinstance(change.after, Lease):
        return  # renewed
    yield from disruption_routes.touched(cluster, change)
    if isinstance(change.after or change.before, Node) and nodes.moved(change):
        for daemon in cluster.all(DaemonSet):
            yield item_of("DaemonSet", daemon)
    for obj in (change.before, change.after):
        if obj is not None and not isinstance(obj, Lease):
            yield from _touched_by(cluster, obj)
            yield from storage.touched(cluster, change, obj)
            yield from devices.touched(cluster, obj)
    yield from garbage_collector.touched(cluster, change)
    if change.after is not None and _is_freed(cluster, change.after):
        yield item_of("garbage", change.after)


def _touched_by(cluster: ObjectIndex, obj: HasMetadata) -> Iterator[Item]:
    kind = type(obj).__name__
    if kind in WORKLOADS or kind == AUTOSCALER:
        yield item_of(kind, obj)
    yield from _owners(cluster, obj)


def _owners(cluster: ObjectIndex, obj: HasMetadata) -> Iterator[Item]:
    """Yields workloads that control an object, could adopt it, or create claims of its name."""
    namespace, labels = obj.metadata.namespace, obj.metadata.labels
    owner = controller_of(obj)
    if owner is not None and owner.kind in WORKLOADS:
        yield Item(owner.kind, owner.kind, namespace, owner.name)
    if owner is None:
        for kind in OWNERS.get(type(obj), ()):
            for candidate in cluster.within(kind, namespace):
                if selector_of(candidate).matches(labels):
                    yield item_of(kind.__name__, candidate)
    if isinstance(obj, PersistentVolumeClaim):
        for stateful in cluster.within(StatefulSet, namespace):
            if stateful_set.makes_claim(stateful, obj.metadata.name):
                yield item_of("StatefulSet", stateful)


def _is_freed(cluster: ObjectIndex, obj: HasMetadata) -> bool:
    """True for a pod that waits to be counted by a job that is gone."""
    if job.FINALIZER not in obj.metadata.finalizers:
        return False
    owner = controller_of(obj)
    return owner is None or cluster.is_gone(owner.uid)


class Controllers:
    """All controllers. Some have state: the time since when a condition has held."""

    def __init__(self, scenario: Scenario = NO_SCENARIO) -> None:
        self._autoscalers = Autoscalers(scenario)
        self._nodes = nodes.NodeControllers()
        self._storage = storage.StorageControllers()
        self._devices = devices.DeviceControllers()
        self._failures: dict[str, Failures] = {}  # of jobs, by uid
        self._failed: dict[str, FailedPods] = {}  # of daemon sets, by uid

    def shift(self, step: timedelta) -> None:
        """Keeps the waits of nodes and evictions as long as they are, although the time of day was
        set.
        """
        self._nodes.shift(step)

    def touched(self, cluster: ObjectIndex, change: ObjectChange, now: datetime) -> Iterator[Item]:
        """Takes note of a change. Yields the items that it may affect; an item may occur twice."""
        yield from self._nodes.observe(cluster, change, now)
        yield from touched(cluster, change)

    def renewed(self, leases: Iterable[tuple[str, str]], now: datetime) -> list[Item]:
        """Takes note of renewed leases, by namespace and name. Returns the affected items."""
        return self._nodes.renewed(leases, now)

    def beaten(self, change: ObjectChange, now: datetime) -> list[Item]:
        """Takes note of the heartbeat of a node. Returns the affected items."""
        return self._nodes.beaten(change, now)

    def postponed(self, item: Item, now: datetime) -> float:
        """Returns the seconds by which the due decision on an item is postponed; 0 to
        decide now.
        """
        return self._nodes.postponed(item, now)

    def reconcile(self, cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        if item.controller in nodes.CONTROLLERS:
            return self._nodes.reconcile(cluster, item, now)
        if item.controller in storage.CONTROLLERS:
            return self._storage.reconcile(cluster, item, now)
        if item.controller in devices.CONTROLLERS:
            return self._devices.reconcile(cluster, item, now)
        if item.controller == AUTOSCALER:
            return self._autoscalers.reconcile(cluster, item, now)
        obj = cluster.find(TYPES[item.kind], item.namespace, item.name)
        if obj is None:
            return []
        if item.controller == "garbage":
            frees = job.freed(obj) if isinstance(obj, Pod) and _is_freed(cluster, obj) else []
            return [*frees, *garbage_collector.reconcile(cluster, obj)]
        if item.controller == disruption_routes.TARGET:
            assert isinstance(obj, Pod)
            return budgets.clear_stale_target(obj, now)
        if item.controller == disruption_routes.SEVERAL:
            assert isinstance(obj, Pod)
            return disruption_routes.report_several(cluster, obj, now)
        if isinstance(obj, Job):
            return self._job(cluster, obj, now)
        if isinstance(obj, DaemonSet):
            return self._daemon_set(cluster, obj, now)
        return _reconcile(cluster, obj, now)

    def _job(self, cluster: ObjectIndex, owner: Job, now: datetime) -> list[Write]:
        namespace, name = owner.metadata.namespace, owner.metadata.name
        refusal = cluster.refusals.get(("Job", namespace, name), "")
        failures = self._failures.setdefault(owner.metadata.uid, Failures())
        if job.finished(owner) or deleting(owner):
            del self._failures[owner.metadata.uid]
        return job.reconcile(owner, cluster.candidates(Pod, owner), now, failures, refusal)

    def _daemon_set(self, cluster: ObjectIndex, owner: DaemonSet, now: datetime) -> list[Write]:
        failed = self._failed.setdefault(owner.metadata.uid, FailedPods())
        if deleting(owner):
            del self._failed[owner.metadata.uid]
            return []
        history, writes = _recorded(cluster, owner)
        pods, nodes_ = cluster.candidates(Pod, owner), cluster.all(Node)
        return writes + daemon_set.reconcile(owner, pods, nodes_, now, history, failed)


def _reconcile(cluster: ObjectIndex, obj: HasMetadata, now: datetime) -> list[Write]:
    namespace = obj.metadata.namespace
    match obj:
        case Deployment():
            refusal = cluster.refusals.get(("Deployment", namespace, obj.metadata.name), "")
            return deployment.reconcile(
                obj,
                cluster.candidates(ReplicaSet, obj),
                now,
                lambda name: cluster.find(ReplicaSet, namespace, name) is not None,
                refusal,
            )
        case PodDisruptionBudget():
            pods = disruption_routes.candidates(cluster, obj)
            return budgets.reconcile(obj, pods, lambda *at: _scaled(cluster, *at), now)
        case ReplicaSet() | ReplicationController():
            refusal = cluster.refusals.get((type(obj).__name__, namespace, obj.metadata.name), "")
            pods = cluster.candidates(Pod, obj)
            return replica_set.reconcile(obj, pods, now, refusal, lambda: _related(cluster, obj))
        case StatefulSet():
            claims = cluster.within(PersistentVolumeClaim, namespace)
            history, writes = _recorded(cluster, obj)
            pods = cluster.candidates(Pod, obj)
            return writes + stateful_set.reconcile(obj, pods, claims, now, history)
        case CronJob():
            return cron_job.reconcile(
                obj,
                cluster.candidates(Job, obj),
                now,
                lambda name: cluster.find(Job, namespace, name) is not None,
            )
        case _:
            raise AssertionError(f"no controller of {type(obj).__name__}")


def _recorded(
    cluster: ObjectIndex, owner: DaemonSet | StatefulSet
) -> tuple[revisions.History, list[Write]]:
    namespace = owner.metadata.namespace
    return revisions.record(
        owner,
        cluster.candidates(ControllerRevision, owner),
        lambda name: cluster.find(ControllerRevision, namespace, name) is not None,
    )


def _related(cluster: ObjectIndex, owner: ReplicaSet | ReplicationController) -> list[Pod]:
    """Returns the pods of all ReplicaSets that the owner's controller controls, if it has one."""
    controller = controller_of(owner)
    if controller is None:
        return []
    sets = (each for each in cluster.dependents(controller.uid) if isinstance(each, ReplicaSet))
    pods = (pod for each in sets for pod in cluster.dependents(each.metadata.uid))
    return [pod for pod in pods if isinstance(pod, Pod)]


def _scaled(cluster: ObjectIndex, kind: str, namespace: str, name: str) -> Replicated | None:
    owner = cluster.find(TYPES[kind], namespace, name)
    assert owner is None or isinstance(owner, Replicated)
    return owner
