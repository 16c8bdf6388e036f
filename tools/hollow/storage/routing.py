"""Which controllers of storage must look at which items after a change, and what each reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..cluster import Change, Cluster
from ..documents import Document, labels_of, name_of, namespace_of, node_of, phase_of
from ..items import Item, item_of
from ..volumes import (
    attach_required,
    claim_key,
    claim_reference,
    claimed_key,
    class_of,
    csi_driver,
    default_class,
    driver_of,
    is_default_class,
    is_for,
    is_of_pod,
    phase_in,
    pod_claims,
    provisions,
    volume_of,
)
from ..writes import Write
from . import attachment, capacity, csi_node, ephemeral, protection, provisioner
from .binder import Binder, Surroundings
from .provisioner import Place, Provisioner
from .topology import topology_keys

FOLLOWED = (
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
)
CONTROLLERS = (
    "claim",
    "claim-protection",
    "volume",
    "volume-protection",
    "discard",
    "provision",
    "capacity",
    "ephemeral",
    "attach",
    "csi-node",
)


def touched(cluster: Cluster, change: Change, document: Document) -> Iterator[Item]:
    """The items to look at after a change; `document` is the object before or after it."""
    match change.kind:
        case "PersistentVolumeClaim":
            yield from _by_claim(cluster, document)
        case "PersistentVolume":
            yield from _by_volume(cluster, document)
        case "StorageClass":
            yield item_of("provision", document)
            yield from _waiting(cluster, name_of(document))
            yield from _capacities(cluster, name_of(document))
            if is_default_class(document):
                yield from _waiting(cluster, "")
        case "Pod":
            yield from _by_pod(document)
        case "Node":
            yield item_of("csi-node", document)
            yield item_of("attach", document)
            if _moves(change):
                yield from _provisioning(cluster)
        case "CSINode":
            yield Item("csi-node", "Node", "", name_of(document))
            yield from _provisioning(cluster)
        case "CSIDriver":
            yield from _provisioning(cluster)
            yield from (item_of("capacity", one) for one in cluster.all("CSIStorageCapacity"))
            yield from (item_of("attach", node) for node in cluster.all("Node"))
        case "CSIStorageCapacity":
            yield item_of("capacity", document)
            yield Item("provision", "StorageClass", "", document.get("storageClassName") or "")
        case "VolumeAttachment":
            yield Item("attach", "Node", "", node_of(document))


def _by_claim(cluster: Cluster, claim: Document) -> Iterator[Item]:
    yield item_of("claim", claim)
    yield item_of("claim-protection", claim)
    if volume_of(claim):
        yield Item("volume", "PersistentVolume", "", volume_of(claim))
    for volume in cluster.by("PersistentVolume", "claim", claim_key(claim)):
        yield item_of("volume", volume)
    if class_of(claim):
        yield Item("provision", "StorageClass", "", class_of(claim))
    for pod in cluster.by("Pod", "claim", claim_key(claim)):
        yield from _by_pod(pod)


def _by_volume(cluster: Cluster, volume: Document) -> Iterator[Item]:
    yield item_of("volume", volume)
    yield item_of("volume-protection", volume)
    yield item_of("discard", volume)
    reference = claim_reference(volume)
    if reference:
        namespace, name = reference.get("namespace", ""), reference.get("name", "")
        yield Item("claim", "PersistentVolumeClaim", namespace, name)
        for pod in cluster.by("Pod", "claim", claimed_key(volume)):
            if node_of(pod):
                yield Item("attach", "Node", "", node_of(pod))
    elif phase_in(volume) == "Available":
        yield from _waiting(cluster, class_of(volume))
    for claim in cluster.by("PersistentVolumeClaim", "volume", name_of(volume)):
        yield item_of("claim", claim)
    if class_of(volume):
        yield Item("provision", "StorageClass", "", class_of(volume))
    yield from _capacities(cluster, class_of(volume))


def _capacities(cluster: Cluster, storage_class: str) -> Iterator[Item]:
    for found in cluster.all("CSIStorageCapacity"):
        if found.get("storageClassName") == storage_class:
            yield item_of("capacity", found)


def _by_pod(pod: Document) -> Iterator[Item]:
    claims = pod_claims(pod)
    for claim in claims:
        namespace = namespace_of(pod)
        yield Item("claim-protection", "PersistentVolumeClaim", namespace, claim.name)
    if any(claim.ephemeral for claim in claims):
        yield item_of("ephemeral", pod)
    if claims and node_of(pod):
        yield Item("attach", "Node", "", node_of(pod))


def _waiting(cluster: Cluster, storage_class: str) -> Iterator[Item]:
    for claim in cluster.by("PersistentVolumeClaim", "waiting", storage_class):
        yield item_of("claim", claim)


def _provisioning(cluster: Cluster) -> Iterator[Item]:
    return (item_of("provision", one) for one in cluster.all("StorageClass") if provisions(one))


def _moves(change: Change) -> bool:
    """True if a node came, went or changed its labels."""
    if change.before is None or change.after is None:
        return True
    return labels_of(change.before) != labels_of(change.after)


class StorageControllers:
    def __init__(self) -> None:
        self._binder = Binder()
        self._provisioner = Provisioner()

    def reconcile(self, cluster: Cluster, item: Item, now: datetime) -> list[Write]:
        found = cluster.find(item.kind, item.namespace, item.name)
        if item.controller == "attach":
            attachments = cluster.by("VolumeAttachment", "node", item.name)
            return attachment.reconcile(item.name, _attachable(cluster, item.name), attachments)
        if found is None:
            self._forget(item)
            return []
        match item.controller:
            case "claim":
                return self._binder.reconcile_claim(found, _surroundings(cluster, found))
            case "volume":
                return self._volume(cluster, found, now)
            case "provision":
                return self._provision(cluster, found, now)
            case "claim-protection":
                pods = cluster.by("Pod", "claim", claim_key(found))
                return protection.reconcile_claim(found, pods)
            case "volume-protection":
                return protection.reconcile_volume(found)
            case "discard":
                return provisioner.discard(found)
            case "capacity":
                return _capacity(cluster, found)
            case "ephemeral":
                claims = cluster.within("PersistentVolumeClaim", item.namespace)
                return ephemeral.reconcile(found, {name_of(claim) for claim in claims})
            case "csi-node":
                return csi_node.reconcile(found, cluster.find("CSINode", "", item.name))
            case other:
                raise AssertionError(f"no controller {other}")

    def _forget(self, item: Item) -> None:
        match item.controller:
            case "claim":
                self._binder.forget_claim(f"{item.namespace}/{item.name}")
            case "volume":
                self._binder.forget_volume(item.name)
            case "provision":
                self._provisioner.forget(item.name)

    def _volume(self, cluster: Cluster, volume: Document, now: datetime) -> list[Write]:
        reference = claim_reference(volume)
        namespace, name = reference.get("namespace", ""), reference.get("name", "")
        claim = cluster.find("PersistentVolumeClaim", namespace, name)
        is_gone = cluster.is_gone(reference.get("uid") or "")
        return self._binder.reconcile_volume(volume, claim, is_gone, now)

    def _provision(self, cluster: Cluster, storage_class: Document, now: datetime) -> list[Write]:
        if not provisions(storage_class):
            return []
        name, driver = name_of(storage_class), driver_of(storage_class)
        claims = cluster.by("PersistentVolumeClaim", "waiting", name)
        if not claims:
            self._provisioner.forget(name)
            return []
        places = {
            name_of(node): Place(
                node, tuple(topology_keys(cluster.find("CSINode", "", name_of(node)), driver))
            )
            for node in cluster.all("Node")
        }
        tracked = capacity.tracks_capacity(cluster.find("CSIDriver", "", driver))
        capacities = [
            found
            for found in cluster.all("CSIStorageCapacity")
            if found.get("storageClassName") == name
        ]
        return self._provisioner.reconcile(
            storage_class,
            claims,
            cluster.by("PersistentVolume", "class", name),
            places,
            capacities if tracked else None,
            now,
        )


def _surroundings(cluster: Cluster, claim: Document) -> Surroundings:
    named, key = volume_of(claim), class_of(claim)
    if named:
        return Surroundings(named=cluster.find("PersistentVolume", "", named))
    return Surroundings(
        storage_class=cluster.find("StorageClass", "", key),
        default_class=default_class(cluster.all("StorageClass")),
        reserved=tuple(cluster.by("PersistentVolume", "claim", claim_key(claim))),
        free=tuple(cluster.by("PersistentVolume", "free", key)),
    )


def _capacity(cluster: Cluster, found: Document) -> list[Write]:
    name = found.get("storageClassName") or ""
    storage_class = cluster.find("StorageClass", "", name)
    if storage_class is None:
        return []
    driver = cluster.find("CSIDriver", "", driver_of(storage_class))
    return capacity.reconcile(found, cluster.by("PersistentVolume", "class", name), driver)


def _attachable(cluster: Cluster, node: str) -> list[Document]:
    """The volumes that pods on a node use and that must be attached to it."""
    found: dict[str, Document] = {}
    for pod in cluster.pods_on(node):
        if phase_of(pod) in ("Succeeded", "Failed"):
            continue
        for named in pod_claims(pod):
            claim = cluster.find("PersistentVolumeClaim", namespace_of(pod), named.name)
            if claim is None or (named.ephemeral and not is_of_pod(claim, pod)):
                continue
            volume = cluster.find("PersistentVolume", "", volume_of(claim))
            if volume is None or not is_for(volume, claim) or not csi_driver(volume):
                continue
            if attach_required(cluster.find("CSIDriver", "", csi_driver(volume))):
                found[name_of(volume)] = volume
    return list(found.values())
