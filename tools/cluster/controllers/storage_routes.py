"""Routes changes to the controllers of storage and their items, and collects their input."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from berth.actors.scheduling.kube.claims import class_of
from berth.actors.scheduling.kube.meta import HasMetadata, key
from berth.actors.scheduling.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from berth.actors.scheduling.kube.volumes import can_provision, is_for

from ...kubernetes.nodes.condition_taints import OUT_OF_SERVICE, has_taint, ready_status
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from ...kubernetes.objects.properties import is_finished, phase_of
from ...kubernetes.objects.structs import TYPES, Node, Pod
from ...kubernetes.objects.writes import Again, Write
from ...kubernetes.storage import capacity, csi_node, ephemeral, protection, provisioner
from ...kubernetes.storage.attachment import Attachments
from ...kubernetes.storage.pod_volumes import (
    attach_required,
    claim_reference,
    claimed_key,
    default_class,
    driver_in,
    driver_of,
    is_default_class,
    is_of_pod,
    pod_claims,
)
from ...kubernetes.storage.provisioner import Place, Provisioner
from ...kubernetes.storage.topology import topology_keys
from ...kubernetes.storage.volume_binder import Binder, Surroundings
from ...kubernetes.work_items import Item, item_of

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

# A node looks again after this time at a volume that is about to be attached to another node.
WAIT_SECONDS = 1.0


def touched(cluster: ObjectIndex, change: ObjectChange, obj: HasMetadata) -> Iterator[Item]:
    """Yields the items that a change may affect; `obj` is the object before or after it."""
    match obj:
        case PersistentVolumeClaim():
            yield from _by_claim(cluster, obj)
        case PersistentVolume():
            yield from _by_volume(cluster, obj)
        case StorageClass(metadata=metadata):
            yield item_of("provision", obj)
            yield from _waiting(cluster, metadata.name)
            yield from _capacities(cluster, metadata.name)
            if is_default_class(obj):
                yield from _waiting(cluster, "")
        case Pod():
            yield from _by_pod(obj)
        case Node():
            if change.before is None or change.after is None:
                yield item_of("csi-node", obj)
            if _moves(change) or _stalls(change.before) != _stalls(change.after):
                yield item_of("attach", obj)
            if _moves(change):
                yield from _provisioning(cluster)
        case CSINode(metadata=metadata):
            yield Item("csi-node", "Node", "", metadata.name)
            yield from _provisioning(cluster)
        case CSIDriver():
            yield from _provisioning(cluster)
            yield from (item_of("capacity", each) for each in cluster.all(CSIStorageCapacity))
            yield from (item_of("attach", node) for node in cluster.all(Node))
        case CSIStorageCapacity():
            yield item_of("capacity", obj)
            yield Item("provision", "StorageClass", "", obj.storage_class_name)
        case VolumeAttachment():
            yield _attach(obj.spec.node_name)
            if change.after is None:
                yield from _by_attached(cluster, obj)


def _attach(node: str) -> Item:
    return Item("attach", "Node", "", node)


def _by_claim(cluster: ObjectIndex, claim: PersistentVolumeClaim) -> Iterator[Item]:
    yield item_of("claim", claim)
    yield item_of("claim-protection", claim)
    if claim.spec.volume_name:
        yield Item("volume", "PersistentVolume", "", claim.spec.volume_name)
    for volume in cluster.by(PersistentVolume, "claim", key(claim)):
        yield item_of("volume", volume)
    if class_of(claim):
        yield Item("provision", "StorageClass", "", class_of(claim))
    for pod in cluster.by(Pod, "claim", key(claim)):
        yield from _by_pod(pod)


def _by_volume(cluster: ObjectIndex, volume: PersistentVolume) -> Iterator[Item]:
    yield item_of("volume", volume)
    yield item_of("volume-protection", volume)
    yield item_of("discard", volume)
    reference = volume.spec.claim_ref
    if reference:
        yield Item("claim", "PersistentVolumeClaim", reference.namespace, reference.name)
        for pod in cluster.by(Pod, "claim", claimed_key(volume)):
            if pod.spec.node_name:
                yield _attach(pod.spec.node_name)
    elif phase_of(volume) == "Available":
        yield from _waiting(cluster, class_of(volume))
    for claim in cluster.by(PersistentVolumeClaim, "volume", volume.metadata.name):
        yield item_of("claim", claim)
    if class_of(volume):
        yield Item("provision", "StorageClass", "", class_of(volume))
    yield from _capacities(cluster, class_of(volume))


def _by_attached(cluster: ObjectIndex, attachment: VolumeAttachment) -> Iterator[Item]:
    """Yields the nodes whose pods use the volume of an attachment."""
    name = attachment.spec.source.persistent_volume_name
    volume = cluster.find(PersistentVolume, "", name) if name else None
    for pod in cluster.by(Pod, "claim", claimed_key(volume)) if volume else ():
        if pod.spec.node_name:
            yield _attach(pod.spec.node_name)


def _capacities(cluster: ObjectIndex, storage_class: str) -> Iterator[Item]:
    return (item_of("capacity", each) for each in _of_class(cluster, storage_class))


def _of_class(cluster: ObjectIndex, storage_class: str) -> list[CSIStorageCapacity]:
    capacities = cluster.all(CSIStorageCapacity)
    return [each for each in capacities if each.storage_class_name == storage_class]


def _by_pod(pod: Pod) -> Iterator[Item]:
    claims = pod_claims(pod)
    for claim in claims:
        namespace = pod.metadata.namespace
        yield Item("claim-protection", "PersistentVolumeClaim", namespace, claim.name)
    if any(claim.ephemeral for claim in claims):
        yield item_of("ephemeral", pod)
    if claims and pod.spec.node_name:
        yield _attach(pod.spec.node_name)


def _waiting(cluster: ObjectIndex, storage_class: str) -> Iterator[Item]:
    for claim in cluster.by(PersistentVolumeClaim, "waiting", storage_class):
        yield item_of("claim", claim)


def _provisioning(cluster: ObjectIndex) -> Iterator[Item]:
    classes = cluster.all(StorageClass)
    return (item_of("provision", each) for each in classes if can_provision(each))


def _moves(change: ObjectChange) -> bool:
    """True if a node came, went or changed its labels."""
    if change.before is None or change.after is None:
        return True
    return change.before.metadata.labels != change.after.metadata.labels


def _stalls(node: HasMetadata | None) -> bool:
    """True if the kubelet of a node is silent, and no user has declared that it is shut down."""
    return (
        isinstance(node, Node)
        and ready_status(node) == "Unknown"
        and not has_taint(node, OUT_OF_SERVICE)
    )


class StorageControllers:
    def __init__(self) -> None:
        self._attachments = Attachments()
        self._binder = Binder()
        self._provisioner = Provisioner()

    def reconcile(self, cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        if item.controller == "attach":
            return self._attach(cluster, item.name, now)
        obj = cluster.find(TYPES[item.kind], item.namespace, item.name)
        match item.controller, obj:
            case _, None:
                self._forget(item)
                return []
            case "claim", PersistentVolumeClaim() as claim:
                return self._binder.reconcile_claim(claim, _surroundings(cluster, claim))
            case "volume", PersistentVolume() as volume:
                return self._volume(cluster, volume, now)
            case "provision", StorageClass() as storage_class:
                return self._provision(cluster, storage_class, now)
            case "claim-protection", PersistentVolumeClaim() as claim:
                return protection.reconcile_claim(claim, cluster.by(Pod, "claim", key(claim)))
            case "volume-protection", PersistentVolume() as volume:
                return protection.reconcile_volume(volume)
            case "discard", PersistentVolume() as volume:
                return provisioner.discard(volume)
            case "capacity", CSIStorageCapacity() as room:
                return _capacity(cluster, room)
            case "ephemeral", Pod() as pod:
                claims = cluster.within(PersistentVolumeClaim, item.namespace)
                return ephemeral.reconcile(pod, {claim.metadata.name for claim in claims})
            case "csi-node", Node() as node:
                return csi_node.reconcile(node, cluster.find(CSINode, "", item.name))
            case other:
                raise AssertionError(f"no controller {other}")

    def _attach(self, cluster: ObjectIndex, node: str, now: datetime) -> list[Write]:
        volumes: list[PersistentVolume] = []
        refused: dict[str, tuple[list[str], list[Pod]]] = {}
        again: list[Write] = []
        for volume in _attachable(cluster, node):
            attachments = cluster.by(VolumeAttachment, "volume", volume.metadata.name)
            nodes = {attachment.spec.node_name for attachment in attachments}
            if self._attachments.admits(volume, node, nodes):
                volumes.append(volume)
            elif nodes:
                pods = [
                    pod
                    for pod in cluster.by(Pod, "claim", claimed_key(volume))
                    if not is_finished(pod)
                ]
                refused[volume.metadata.name] = (
                    [pod.metadata.name for pod in pods if pod.spec.node_name in nodes],
                    [pod for pod in pods if pod.spec.node_name == node],
                )
            else:
                again = [Again(WAIT_SECONDS)]
        stalls = _stalls(cluster.find(Node, "", node))
        attached = cluster.by(VolumeAttachment, "node", node)
        return [
            *self._attachments.reconcile(node, volumes, attached, now, mounted=stalls),
            *self._attachments.refuse(node, refused, now),
            *again,
        ]

    def _forget(self, item: Item) -> None:
        match item.controller:
            case "claim":
                self._binder.forget_claim(f"{item.namespace}/{item.name}")
            case "volume":
                self._binder.forget_volume(item.name)
            case "provision":
                self._provisioner.forget(item.name)

    def _volume(self, cluster: ObjectIndex, volume: PersistentVolume, now: datetime) -> list[Write]:
        reference = claim_reference(volume)
        claim = cluster.find(PersistentVolumeClaim, reference.namespace, reference.name)
        is_gone = cluster.is_gone(reference.uid)
        return self._binder.reconcile_volume(volume, claim, is_gone, now)

    def _provision(
        self, cluster: ObjectIndex, storage_class: StorageClass, now: datetime
    ) -> list[Write]:
        if not can_provision(storage_class):
            return []
        name, driver = storage_class.metadata.name, driver_of(storage_class)
        claims = cluster.by(PersistentVolumeClaim, "waiting", name)
        if not claims:
            self._provisioner.forget(name)
            return []
        places = {
            node.metadata.name: Place(
                node, topology_keys(cluster.find(CSINode, "", node.metadata.name), driver)
            )
            for node in cluster.all(Node)
        }
        tracked = capacity.tracks_capacity(cluster.find(CSIDriver, "", driver))
        return self._provisioner.reconcile(
            storage_class,
            claims,
            cluster.by(PersistentVolume, "class", name),
            places,
            _of_class(cluster, name) if tracked else None,
            now,
        )


def _surroundings(cluster: ObjectIndex, claim: PersistentVolumeClaim) -> Surroundings:
    named, storage_class = claim.spec.volume_name, class_of(claim)
    if named:
        return Surroundings(named=cluster.find(PersistentVolume, "", named))
    return Surroundings(
        storage_class=cluster.find(StorageClass, "", storage_class),
        default_class=default_class(cluster.all(StorageClass)),
        reserved=tuple(cluster.by(PersistentVolume, "claim", key(claim))),
        free=tuple(cluster.by(PersistentVolume, "free", storage_class)),
    )


def _capacity(cluster: ObjectIndex, room: CSIStorageCapacity) -> list[Write]:
    name = room.storage_class_name
    storage_class = cluster.find(StorageClass, "", name)
    if storage_class is None:
        return []
    driver = cluster.find(CSIDriver, "", driver_of(storage_class))
    return capacity.reconcile(room, cluster.by(PersistentVolume, "class", name), driver)


def _attachable(cluster: ObjectIndex, node: str) -> list[PersistentVolume]:
    """Returns the volumes that pods on a node use and that must be attached to it."""
    volumes: dict[str, PersistentVolume] = {}
    for pod in cluster.pods_on(node):
        if is_finished(pod):
            continue
        for named in pod_claims(pod):
            claim = cluster.find(PersistentVolumeClaim, pod.metadata.namespace, named.name)
            if claim is None or (named.ephemeral and not is_of_pod(claim, pod)):
                continue
            volume = cluster.find(PersistentVolume, "", claim.spec.volume_name)
            if volume is None or not is_for(volume, claim) or not driver_in(volume):
                continue
            driver = cluster.find(CSIDriver, "", driver_in(volume))
            if attach_required(driver):
                volumes[volume.metadata.name] = volume
    return list(volumes.values())
