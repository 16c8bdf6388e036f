"""The hollow provisioner: makes volumes for claims, and deletes them when they are released.

It answers for every provisioner, as the external provisioner of each CSI driver does. The claims of
a storage class are decided together, one decision after another, so that they never take more than
the capacity that is left.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.annotations import (
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
)

from ..documents import (
    Document,
    annotations_of,
    deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
)
from ..volumes import (
    driver_of,
    phase_in,
    requested,
    volume_of,
    waits_for_consumer,
)
from ..writes import Again, Create, Write, delete, patch
from .capacity import covers, is_tracked, largest_in, left_in
from .topology import Segment, affinity_to, segment_of

PROVISION_SECONDS = "berth.dev/provision-seconds"
NEVER = "never"


class Place(msgspec.Struct, frozen=True):
    """A node as the provisioner sees it: its labels, and the driver's topology keys there."""

    node: Document
    keys: tuple[str, ...] = ()


class Provisioner:
    """Keeps since when each claim has asked for a volume, for each class."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[tuple[str, str], datetime]] = {}

    def reconcile(
        self,
        storage_class: Document,
        claims: Sequence[Document],
        volumes: Sequence[Document],
        places: Mapping[str, Place],
        capacities: Sequence[Document] | None,
        now: datetime,
    ) -> list[Write]:
        """Decides on the claims of a class that have no volume.

        `volumes` and `capacities` are those of the class, `places` are all nodes by name.
        `capacities` is None if the driver does not track capacity.
        """
        name = name_of(storage_class)
        seconds = provision_seconds(storage_class)
        known = {name_of(volume) for volume in volumes}
        asking = [
            claim
            for claim in claims
            if asks(claim, storage_class) and volume_name(claim) not in known
        ]
        before = self._asked.get(name, {})
        self._asked[name] = {_request(claim): before.get(_request(claim), now) for claim in asking}
        if math.isinf(seconds):
            return []
        writes: list[Write] = []
        waits: list[float] = []
        room = _Room(capacities, volumes)
        for claim in asking:
            left = seconds - (now - self._asked[name][_request(claim)]).total_seconds()
            if left > 0:
                waits.append(left)
            else:
                writes += _provision(claim, storage_class, places, room)
        return [*writes, *([Again(min(waits))] if waits else [])]

    def forget(self, storage_class: str) -> None:
        self._asked.pop(storage_class, None)


def provision_seconds(storage_class: Document) -> float:
    """How long a volume takes, by a parameter of the class. Infinite for `never`.

    Raises ValueError.
    """
    given = (storage_class.get("parameters") or {}).get(PROVISION_SECONDS) or "0"
    if given == NEVER:
        return math.inf
    try:
        return max(float(given), 0.0)
    except ValueError:
        raise ValueError(
            f"parameter {PROVISION_SECONDS}: expected a number or {NEVER}, got {given!r}"
        ) from None


def asks(claim: Document, storage_class: Document) -> bool:
    """True if the claim waits for this provisioner and says where, if it has to."""
    annotations = annotations_of(claim)
    return (
        not volume_of(claim)
        and not deleting(claim)
        and spec_of(claim).get("selector") is None  # upstream provisioners refuse selectors
        and annotations.get(PROVISIONER) == storage_class.get("provisioner")
        and (not waits_for_consumer(storage_class) or bool(annotations.get(SELECTED_NODE)))
    )


def volume_name(claim: Document) -> str:
    return f"pvc-{uid_of(claim)}"


def discard(volume: Document) -> list[Write]:
    """Deletes a volume of the hollow provisioner once it is released, if its policy says so."""
    policy = spec_of(volume).get("persistentVolumeReclaimPolicy")
    if (
        PROVISIONED_BY in annotations_of(volume)
        and phase_in(volume) == "Released"
        and policy == "Delete"
        and not deleting(volume)
    ):
        return [delete(volume)]
    return []


def _request(claim: Document) -> tuple[str, str]:
    """A claim for a node; another node makes it another request."""
    return uid_of(claim), annotations_of(claim).get(SELECTED_NODE) or ""


class _Room:
    """The room that is left during one decision."""

    def __init__(self, capacities: Sequence[Document] | None, volumes: Iterable[Document]) -> None:
        self._capacities = capacities
        volumes = list(volumes)
        self._left = {uid_of(capacity): left_in(capacity, volumes) for capacity in capacities or ()}

    def take(self, size: int, labels: Mapping[str, str]) -> bool:
        """Takes the size from a capacity of nodes with these labels; False if none has as much."""
        if self._capacities is None:
            return True
        for capacity in self._capacities:
            largest = largest_in(capacity)
            if (
                is_tracked(capacity)
                and covers(capacity, labels)
                and size <= self._left[uid_of(capacity)]
                and (largest is None or size <= largest)
            ):
                self._left[uid_of(capacity)] -= size
                return True
        return False

    @property
    def is_known(self) -> bool:
        """True once every capacity says which volumes it has subtracted."""
        return all(is_tracked(capacity) for capacity in self._capacities or ())


def _provision(
    claim: Document, storage_class: Document, places: Mapping[str, Place], room: _Room
) -> list[Write]:
    """Makes the volume or, if it cannot be made for the selected node, asks for another node."""
    if not room.is_known:
        return []
    if not waits_for_consumer(storage_class):
        for segment, place in _choices(claim, storage_class, places):
            if room.take(requested(claim), labels_of(place.node)):
                return [Create("PersistentVolume", new_volume(claim, storage_class, segment))]
        return []
    selected = places.get(annotations_of(claim)[SELECTED_NODE])
    if selected is not None:
        labels = labels_of(selected.node)
        allowed = segment_of(storage_class, labels, selected.keys)
        if allowed is not None and room.take(requested(claim), labels):
            return [Create("PersistentVolume", new_volume(claim, storage_class, allowed))]
    return [patch(claim, {"metadata": {"annotations": {SELECTED_NODE: None}}}, guarded=True)]


def _choices(
    claim: Document, storage_class: Document, places: Mapping[str, Place]
) -> list[tuple[Segment, Place]]:
    """The segments in which a volume can be made at once, each with one of its nodes.

    Claims begin at different ones. With neither topology nor nodes, a volume can be made anyway.
    """
    found: dict[tuple[tuple[str, str], ...], tuple[Segment, Place]] = {}
    for name in sorted(places):
        place = places[name]
        segment = segment_of(storage_class, labels_of(place.node), place.keys)
        if segment is not None:
            found.setdefault(tuple(sorted(segment.items())), (segment, place))
    # a volume that can be reached from some part only is preferred, as the driver would make it
    choices = [found[key] for key in sorted(found) if key] or [found[key] for key in sorted(found)]
    if not choices:
        return [] if storage_class.get("allowedTopologies") else [({}, Place({"metadata": {}}))]
    start = hashlib.sha256(uid_of(claim).encode()).digest()[0] % len(choices)
    return [*choices[start:], *choices[:start]]


def new_volume(claim: Document, storage_class: Document, segment: Segment) -> Document:
    name, asked = volume_name(claim), spec_of(claim)
    spec: Document = {
        "accessModes": asked.get("accessModes") or [],
        "capacity": {"storage": asked["resources"]["requests"]["storage"]},
        "volumeMode": asked.get("volumeMode") or "Filesystem",
        "storageClassName": name_of(storage_class),
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace_of(claim),
            "name": name_of(claim),
            "uid": uid_of(claim),
        },
        "csi": {"driver": driver_of(storage_class), "volumeHandle": f"hollow-{uid_of(claim)}"},
    }
    if segment:
        spec["nodeAffinity"] = affinity_to(segment)
    if asked.get("volumeAttributesClassName"):
        spec["volumeAttributesClassName"] = asked["volumeAttributesClassName"]
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = storage_class["mountOptions"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: storage_class["provisioner"]}},
        "spec": spec,
    }
