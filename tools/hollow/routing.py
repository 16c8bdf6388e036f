"""Which controllers must look at which items after a change, and what each of them reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from . import (
    daemon_set,
    deployment,
    disruption,
    garbage,
    job,
    node_lifecycle,
    replica_set,
    stateful_set,
)
from .claim import selector_of, selects
from .cluster import Change, Cluster
from .devices import routing as devices
from .documents import (
    Document,
    controller_of,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    owners_of,
    taints_of,
    uid_of,
)
from .items import Item, item_of
from .storage import routing as storage
from .taint_eviction import TaintEviction
from .writes import Write

POD_OWNERS = ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job")
OWNERS = {"Pod": POD_OWNERS, "ReplicaSet": ("Deployment",)}
WORKLOADS = (*POD_OWNERS, "Deployment", "PodDisruptionBudget")
FOLLOWED = (*WORKLOADS, "Pod", "Node", *storage.FOLLOWED, *devices.FOLLOWED)


def touched(cluster: Cluster, change: Change) -> Iterator[Item]:
    """The items to look at after a change; an item may occur twice."""
    for document in (change.before, change.after):
        if document is not None:
            yield from _touched_by(cluster, change, document)
            yield from storage.touched(cluster, change, document)
            yield from devices.touched(cluster, change.kind, document)
    if change.after is None and change.before is not None:
        for dependent in cluster.dependents(uid_of(change.before)):
            yield item_of("garbage", dependent)
    elif change.after is not None and any(
        cluster.is_gone(owner["uid"]) for owner in owners_of(change.after)
    ):
        yield item_of("garbage", change.after)


def _touched_by(cluster: Cluster, change: Change, document: Document) -> Iterator[Item]:
    kind, namespace = change.kind, namespace_of(document)
    if kind in WORKLOADS:
        yield item_of(kind, document)
    yield from _owners(cluster, kind, document)
    if kind == "Pod" or kind in disruption.SCALED:
        for budget in cluster.within("PodDisruptionBudget", namespace):
            yield item_of("PodDisruptionBudget", budget)
    if kind == "Node":
        for controller in ("node", "eviction", "pod-garbage"):
            yield item_of(controller, document)
        for daemon in cluster.all("DaemonSet"):
            yield item_of("DaemonSet", daemon)
    elif kind == "Pod" and node_of(document):
        node = cluster.find("Node", "", node_of(document))
        if node is None:
            yield Item("pod-garbage", "Node", "", node_of(document))
        elif taints_of(node, ("NoExecute",)):
            yield item_of("eviction", node)


def _owners(cluster: Cluster, kind: str, document: Document) -> Iterator[Item]:
    """The workloads that control an object, could adopt it, or make claims of its name."""
    namespace = namespace_of(document)
    owner = controller_of(document)
    if owner is not None and owner["kind"] in WORKLOADS:
        yield Item(owner["kind"], owner["kind"], namespace, owner["name"])
    if owner is None:
        for owning in OWNERS.get(kind, ()):
            for candidate in cluster.within(owning, namespace):
                if selects(selector_of(candidate), labels_of(document)):
                    yield item_of(owning, candidate)
    if kind == "PersistentVolumeClaim":
        for candidate in cluster.within("StatefulSet", namespace):
            if stateful_set.makes_claim(candidate, name_of(document)):
                yield item_of("StatefulSet", candidate)


class Controllers:
    """All controllers. Some keep state: the time since when something has been the case."""

    def __init__(self) -> None:
        self._eviction = TaintEviction()
        self._pod_garbage = garbage.PodGarbage()
        self._storage = storage.StorageControllers()
        self._devices = devices.DeviceControllers()

    def reconcile(self, cluster: Cluster, item: Item, now: datetime) -> list[Write]:
        if item.controller in storage.CONTROLLERS:
            return self._storage.reconcile(cluster, item, now)
        if item.controller in devices.CONTROLLERS:
            return self._devices.reconcile(cluster, item, now)
        found = cluster.find(item.kind, item.namespace, item.name)
        match item.controller:
            case "eviction":
                return self._eviction.reconcile(item.name, found, cluster.pods_on(item.name), now)
            case "pod-garbage":
                return self._pod_garbage.reconcile(
                    item.name, found, cluster.pods_on(item.name), now
                )
            case _:
                return [] if found is None else _reconcile(cluster, item.controller, found, now)


def _reconcile(cluster: Cluster, controller: str, found: Document, now: datetime) -> list[Write]:
    namespace = namespace_of(found)
    match controller:
        case "garbage":
            return garbage.collect(found, cluster.is_gone)
        case "node":
            return node_lifecycle.reconcile(found, now)
        case "Deployment":
            return deployment.reconcile(found, cluster.candidates("ReplicaSet", found), now)
        case "PodDisruptionBudget":
            return disruption.reconcile(
                found,
                cluster.within("Pod", namespace),
                lambda owner: cluster.find(owner["kind"], owner["namespace"], owner["name"]),
                now,
            )
    pods = cluster.candidates("Pod", found)
    match controller:
        case "ReplicaSet" | "ReplicationController":
            return replica_set.reconcile(found, pods, now)
        case "StatefulSet":
            return stateful_set.reconcile(
                found, pods, cluster.within("PersistentVolumeClaim", namespace), now
            )
        case "DaemonSet":
            return daemon_set.reconcile(found, pods, cluster.all("Node"), now)
        case "Job":
            return job.reconcile(found, pods, now)
        case other:
            raise AssertionError(f"no controller {other}")
