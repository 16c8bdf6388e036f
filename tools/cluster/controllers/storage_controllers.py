"""The controllers of storage: what they watch, and their input."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from berth.actors.scheduling.kube.claims import class_of
from berth.actors.scheduling.kube.meta import key
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
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.properties import is_finished, phase_of
from ...kubernetes.objects.structs import Node, Pod
from ...kubernetes.objects.writes import Again, Write
from ...kubernetes.storage import capacity, csi_node, ephemeral, protection, provisioner
from ...kubernetes.storage.attachment import Attachments
from ...kubernetes.storage.pod_volumes import (
    claim_reference,
    claimed_key,
    default_class,
    driver_in,
    driver_of,
    is_default_class,
    is_of_pod,
    needs_attachment,
    pod_claims,
)
from ...kubernetes.storage.provisioner import Place, Provisioner
from ...kubernetes.storage.topology import topology_keys
from ...kubernetes.storage.volume_binder import Binder, Surroundings
from .controller import (
    Affected,
    Controller,
    all_of,
    by_way_of,
    comes_or_goes,
    controller,
    if_changed,
    itself,
    objects_before_and_after,
)

# A node looks again after this time at a volume that is about to be attached to another node.
WAIT_SECONDS = 1.0


class StorageControllers:
    def __init__(self) -> None:
        self._attachments = Attachments()
        self._binder = Binder()
        self._provisioner = Provisioner()
        self.rows = (
            controller(
                "claim",
                PersistentVolumeClaim,
                {
                    PersistentVolume: objects_before_and_after(_claims_of_volume),
                    StorageClass: objects_before_and_after(_claims_of_class),
                },
                lambda cluster, claim, _: self._binder.reconcile_claim(
                    claim, _surroundings(cluster, claim)
                ),
                lambda item: self._binder.forget_claim(item.key),
            ),
            controller(
                "claim-protection",
                PersistentVolumeClaim,
                {
                    PersistentVolumeClaim: objects_before_and_after(_claims_beside),
                    Pod: objects_before_and_after(_claims_of_pod),
                },
                lambda cluster, claim, _: protection.reconcile_claim(claim, _users(cluster, claim)),
            ),
            controller(
                "volume",
                PersistentVolume,
                {PersistentVolumeClaim: objects_before_and_after(_volumes_of_claim)},
                self._volume,
                lambda item: self._binder.forget_volume(item.name),
            ),
            controller(
                "volume-protection",
                PersistentVolume,
                {},
                lambda _, volume, __: protection.reconcile_volume(volume),
            ),
            controller(
                "discard",
                PersistentVolume,
                {},
                lambda _, volume, __: provisioner.discard(volume),
            ),
            controller(
                "provision",
                StorageClass,
                {
                    PersistentVolumeClaim: objects_before_and_after(_class),
                    PersistentVolume: objects_before_and_after(_class),
                    CSIStorageCapacity: objects_before_and_after(
                        lambda _, room: [("", room.storage_class_name)]
                    ),
                    CSINode: objects_before_and_after(_provisioning),
                    CSIDriver: objects_before_and_after(_provisioning),
                    Node: if_changed(_node_moves, _provisioning),
                },
                self._provision,
                lambda item: self._provisioner.forget(item.name),
            ),
            controller(
                "capacity",
                CSIStorageCapacity,
                {
                    StorageClass: objects_before_and_after(
                        lambda cluster, c: _of_class(cluster, c.metadata.name)
                    ),
                    PersistentVolume: objects_before_and_after(
                        lambda cluster, v: _of_class(cluster, class_of(v))
                    ),
                    CSIDriver: objects_before_and_after(all_of(CSIStorageCapacity)),
                },
                lambda cluster, room, _: _capacity(cluster, room),
            ),
            controller(
                "ephemeral",
                Pod,
                {
                    Pod: objects_before_and_after(_ephemeral),
                    PersistentVolumeClaim: by_way_of(_users, _ephemeral),
                },
                _make_claims,
            ),
            Controller(
                "attach",
                Node,
                {
                    Node: if_changed(_moves_or_is_silent, itself),
                    Pod: objects_before_and_after(_node_with_volumes),
                    PersistentVolumeClaim: by_way_of(_users, _node_with_volumes),
                    PersistentVolume: by_way_of(_users_of_volume, _node_with_volumes),
                    CSIDriver: objects_before_and_after(all_of(Node)),
                    VolumeAttachment: _attachment_nodes,
                },
                lambda cluster, item, now: self._attach(cluster, item.name, now),
            ),
            controller(
                "csi-node",
                Node,
                {
                    Node: if_changed(comes_or_goes, itself),
                    CSINode: objects_before_and_after(lambda _, csi: [("", csi.metadata.name)]),
                },
                lambda cluster, node, _: csi_node.reconcile(
                    node, cluster.find(CSINode, "", node.metadata.name)
                ),
            ),
        )

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
        stalls = _kubelet_is_silent(cluster.find(Node, "", node))
        attached = cluster.by(VolumeAttachment, "node", node)
        return [
            *self._attachments.reconcile(node, volumes, attached, now, mounted=stalls),
            *self._attachments.refuse(node, refused, now),
            *again,
        ]

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


def _users(cluster: ObjectIndex, claim: PersistentVolumeClaim) -> list[Pod]:
    return cluster.by(Pod, "claim", key(claim))


def _users_of_volume(cluster: ObjectIndex, volume: PersistentVolume) -> list[Pod]:
    return cluster.by(Pod, "claim", claimed_key(volume)) if volume.spec.claim_ref else []


def _claims_of_volume(cluster: ObjectIndex, volume: PersistentVolume) -> Iterator[Affected]:
    reference = volume.spec.claim_ref
    if reference:
        yield reference.namespace, reference.name
    elif phase_of(volume) == "Available":
        yield from cluster.by(PersistentVolumeClaim, "waiting", class_of(volume))
    yield from cluster.by(PersistentVolumeClaim, "volume", volume.metadata.name)


def _claims_of_class(cluster: ObjectIndex, storage_class: StorageClass) -> Iterator[Affected]:
    for name in (storage_class.metadata.name, *([""] if is_default_class(storage_class) else ())):
        yield from cluster.by(PersistentVolumeClaim, "waiting", name)


def _claims_beside(cluster: ObjectIndex, claim: PersistentVolumeClaim) -> Iterator[Affected]:
    yield claim
    for pod in _users(cluster, claim):
        yield from _claims_of_pod(cluster, pod)


def _claims_of_pod(_: ObjectIndex, pod: Pod) -> Iterator[Affected]:
    return ((pod.metadata.namespace, claim.name) for claim in pod_claims(pod))


def _volumes_of_claim(cluster: ObjectIndex, claim: PersistentVolumeClaim) -> Iterator[Affected]:
    if claim.spec.volume_name:
        yield "", claim.spec.volume_name
    yield from cluster.by(PersistentVolume, "claim", key(claim))


def _class(_: ObjectIndex, obj: PersistentVolumeClaim | PersistentVolume) -> Iterator[Affected]:
    if class_of(obj):
        yield "", class_of(obj)


def _of_class(cluster: ObjectIndex, storage_class: str) -> list[CSIStorageCapacity]:
    capacities = cluster.all(CSIStorageCapacity)
    return [each for each in capacities if each.storage_class_name == storage_class]


def _provisioning(cluster: ObjectIndex, _: object) -> Iterator[Affected]:
    return (each for each in cluster.all(StorageClass) if can_provision(each))


def _ephemeral(_: ObjectIndex, pod: Pod) -> Iterator[Affected]:
    if any(claim.ephemeral for claim in pod_claims(pod)):
        yield pod


def _node_with_volumes(_: ObjectIndex, pod: Pod) -> Iterator[Affected]:
    if pod.spec.node_name and pod_claims(pod):
        yield "", pod.spec.node_name


def _attachment_nodes(
    cluster: ObjectIndex, before: VolumeAttachment | None, after: VolumeAttachment | None
) -> Iterator[Affected]:
    """Yields the node of an attachment and, once it is gone, the nodes that wait for the volume."""
    for attachment in (before, after):
        if attachment is not None:
            yield "", attachment.spec.node_name
    if before is not None and after is None:
        name = before.spec.source.persistent_volume_name
        volume = cluster.find(PersistentVolume, "", name) if name else None
        for pod in cluster.by(Pod, "claim", claimed_key(volume)) if volume else ():
            yield from _node_with_volumes(cluster, pod)


def _node_moves(before: Node | None, after: Node | None) -> bool:
    """True if a node was created or deleted, or its labels changed."""
    return not (before and after) or before.metadata.labels != after.metadata.labels


def _moves_or_is_silent(before: Node | None, after: Node | None) -> bool:
    return _node_moves(before, after) or _kubelet_is_silent(before) != _kubelet_is_silent(after)


def _kubelet_is_silent(node: Node | None) -> bool:
    """True if the kubelet of a node is silent, and no user has declared the node shut down."""
    return (
        node is not None and ready_status(node) == "Unknown" and not has_taint(node, OUT_OF_SERVICE)
    )


def _make_claims(cluster: ObjectIndex, pod: Pod, _now: datetime) -> list[Write]:
    claims = cluster.within(PersistentVolumeClaim, pod.metadata.namespace)
    return ephemeral.reconcile(pod, {claim.metadata.name for claim in claims})


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
            if needs_attachment(driver):
                volumes[volume.metadata.name] = volume
    return list(volumes.values())
