"""The hollow provisioner: creates volumes for claims, and deletes them when they are released.

It stands for every provisioner, in place of the external provisioner of each CSI driver. The claims
of a storage class are decided together, one after another, so that they never take more than the
capacity that is left.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.annotations import (
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
)
from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.actors.scheduling.kube.volumes import FILESYSTEM, requested_size

from ..objects.properties import deleting
from ..objects.structs import Document
from ..objects.writes import Again, Create, Write, delete, patch
from .capacity import applies_to, is_tracked, largest_in, room_left
from .pod_volumes import driver_of, waits_for_consumer
from .topology import Segment, affinity_to, segment_of

PROVISION_SECONDS = "berth.dev/provision-seconds"
NEVER = "never"


class Place(msgspec.Struct, frozen=True):
    """A node as a place for volumes: its labels, and the driver's topology keys there."""

    node: Node
    keys: tuple[str, ...] = ()


class Provisioner:
    """The provisioner. It keeps the times since when claims of each class have asked for a
    volume.
    """

    def __init__(self) -> None:
        self._since: dict[str, dict[tuple[str, str], datetime]] = {}

    def reconcile(
        self,
        storage_class: StorageClass,
        claims: Sequence[PersistentVolumeClaim],
        volumes: Sequence[PersistentVolume],
        places: Mapping[str, Place],
        capacities: Sequence[CSIStorageCapacity] | None,
        now: datetime,
    ) -> list[Write]:
        """Decides on the claims of a class that have no volume.

        `volumes` and `capacities` are those of the class, `places` are all nodes by name.
        `capacities` is None if the driver does not track capacity.
        """
        name = storage_class.metadata.name
        seconds = provision_seconds(storage_class)
        names = {volume.metadata.name for volume in volumes}
        asking = [
            claim
            for claim in claims
            if waits_for_provisioner(claim, storage_class) and volume_name(claim) not in names
        ]
        before = self._since.get(name, {})
        self._since[name] = {_request(claim): before.get(_request(claim), now) for claim in asking}
        if math.isinf(seconds):
            return []
        writes: list[Write] = []
        waits: list[float] = []
        room = _Room(capacities, volumes)
        for claim in asking:
            left = seconds - (now - self._since[name][_request(claim)]).total_seconds()
            if left > 0:
                waits.append(left)
            else:
                writes += _provision(claim, storage_class, places, room)
        return [*writes, *([Again(min(waits))] if waits else [])]

    def forget(self, storage_class: str) -> None:
        self._since.pop(storage_class, None)


def provision_seconds(storage_class: StorageClass) -> float:
    """Returns the seconds that the creation of a volume takes, by a parameter of the class;
    infinity for `never`.

    Raises ValueError.
    """
    text = storage_class.parameters.get(PROVISION_SECONDS) or "0"
    if text == NEVER:
        return math.inf
    try:
        return max(float(text), 0.0)
    except ValueError:
        raise ValueError(
            f"parameter {PROVISION_SECONDS}: expected a number or {NEVER}, got {text!r}"
        ) from None


def waits_for_provisioner(claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
    """True if the claim waits for this provisioner to act, and not for its node to be selected."""
    annotations = claim.metadata.annotations
    return (
        not claim.spec.volume_name
        and not deleting(claim)
        and claim.spec.selector is None  # upstream provisioners refuse selectors
        and annotations.get(PROVISIONER) == storage_class.provisioner
        and (not waits_for_consumer(storage_class) or bool(annotations.get(SELECTED_NODE)))
    )


def volume_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


def discard(volume: PersistentVolume) -> list[Write]:
    """Deletes a released volume of the hollow provisioner, if the reclaim policy says so."""
    if (
        PROVISIONED_BY in volume.metadata.annotations
        and volume.status.phase == "Released"
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
        and not deleting(volume)
    ):
        return [delete(volume)]
    return []


def _request(claim: PersistentVolumeClaim) -> tuple[str, str]:
    """Returns the key of a request for a volume. A claim with another node is another request."""
    return claim.metadata.uid, claim.metadata.annotations.get(SELECTED_NODE, "")


class _Room:
    """The room that is left during one decision."""

    def __init__(
        self,
        capacities: Sequence[CSIStorageCapacity] | None,
        volumes: Sequence[PersistentVolume],
    ) -> None:
        self._capacities = capacities
        self._left = {each.metadata.uid: room_left(each, volumes) for each in capacities or ()}

    def take(self, size: int, labels: Mapping[str, str]) -> bool:
        """Takes the size from a capacity for these labels; False if none has enough room."""
        if self._capacities is None:
            return True
        for capacity in self._capacities:
            largest, uid = largest_in(capacity), capacity.metadata.uid
            if (
                is_tracked(capacity)
                and applies_to(capacity, labels)
                and size <= self._left[uid]
                and (largest is None or size <= largest)
            ):
                self._left[uid] -= size
                return True
        return False

    @property
    def is_known(self) -> bool:
        """True once every capacity names the volumes that were subtracted from it."""
        return all(is_tracked(capacity) for capacity in self._capacities or ())


def _provision(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass,
    places: Mapping[str, Place],
    room: _Room,
) -> list[Write]:
    """Creates the volume, or asks for another node if the selected one does not allow it."""
    if not room.is_known:
        return []
    size = requested_size(claim)
    if not waits_for_consumer(storage_class):
        for segment, labels in _possible_segments(claim, storage_class, places):
            if room.take(size, labels):
                return [Create("PersistentVolume", new_volume(claim, storage_class, segment))]
        return []
    selected = places.get(claim.metadata.annotations[SELECTED_NODE])
    if selected is not None:
        labels = selected.node.metadata.labels
        allowed = segment_of(storage_class, labels, selected.keys)
        if allowed is not None and room.take(size, labels):
            return [Create("PersistentVolume", new_volume(claim, storage_class, allowed))]
    return [patch(claim, {"metadata": {"annotations": {SELECTED_NODE: None}}}, guarded=True)]


def _possible_segments(
    claim: PersistentVolumeClaim, storage_class: StorageClass, places: Mapping[str, Place]
) -> list[tuple[Segment, Mapping[str, str]]]:
    """Returns the segments in which the volume can be created now, each with the labels of one of
    its nodes.

    Claims begin at different segments. Without topology and nodes, there is one segment, without
    labels.
    """
    segments: dict[tuple[tuple[str, str], ...], tuple[Segment, Mapping[str, str]]] = {}
    for name in sorted(places):
        labels = places[name].node.metadata.labels
        segment = segment_of(storage_class, labels, places[name].keys)
        if segment is not None:
            segments.setdefault(tuple(sorted(segment.items())), (segment, labels))
    # prefers a volume that only a part of the cluster can reach, as the driver does
    order = sorted(filter(None, segments)) or sorted(segments)
    if not order:
        return [] if storage_class.allowed_topologies else [({}, {})]
    start = hashlib.sha256(claim.metadata.uid.encode()).digest()[0] % len(order)
    return [segments[key] for key in (*order[start:], *order[:start])]


def new_volume(
    claim: PersistentVolumeClaim, storage_class: StorageClass, segment: Segment
) -> Document:
    metadata, request = claim.metadata, claim.spec
    spec: Document = {
        "accessModes": list(request.access_modes),
        "capacity": {"storage": request.resources.requests["storage"]},
        "volumeMode": request.volume_mode or FILESYSTEM,
        "storageClassName": storage_class.metadata.name,
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or "Delete",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
        },
        "csi": {"driver": driver_of(storage_class), "volumeHandle": f"hollow-{metadata.uid}"},
    }
    if segment:
        spec["nodeAffinity"] = affinity_to(segment)
    if request.volume_attributes_class_name:
        spec["volumeAttributesClassName"] = request.volume_attributes_class_name
    if storage_class.mount_options:
        spec["mountOptions"] = list(storage_class.mount_options)
    annotations = {PROVISIONED_BY: storage_class.provisioner}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim), "annotations": annotations},
        "spec": spec,
    }
