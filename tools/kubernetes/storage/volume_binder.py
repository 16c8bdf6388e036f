"""Binds claims and volumes to each other. Mirrors Kubernetes' persistent volume controller.

Each decision is one step: the volume is written first, then the claim, and the answer to one write
leads to the next. A volume is reserved for the claim that chose it until it changes, so that claims
decided at the same time choose different volumes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.annotations import (
    BETA_CLASS,
    BETA_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
)
from berth.actors.scheduling.kube.claims import class_of
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.kube.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.actors.scheduling.kube.volumes import VolumeRequest, can_provision, is_for, size_of

from ..objects.documents import status_of
from ..objects.properties import phase_of
from ..objects.structs import Document
from ..objects.writes import Again, Write, patch, status_writes
from .pod_volumes import claim_reference, driver_in, waits_for_consumer

# A volume is released only after its claim has been missing for this long, unless the claim is
# known to have been deleted, because the watch of claims may be late.
QUARANTINE_SECONDS = 2.0
UNRECYCLABLE = "No recycler plugin found for the volume!"


class Surroundings(msgspec.Struct, frozen=True):
    """The classes and volumes that decide about a claim.

    `named` is the volume of its volumeName, `reserved` are the volumes whose claimRef has its name,
    `free` the volumes of its class without a claimRef.
    """

    storage_class: StorageClass | None = None
    default_class: StorageClass | None = None
    named: PersistentVolume | None = None
    reserved: tuple[PersistentVolume, ...] = ()
    free: tuple[PersistentVolume, ...] = ()


class _ChosenVolume(msgspec.Struct, frozen=True):
    """A volume that a claim chose, at the version at which it did."""

    volume: str
    version: str


class Binder:
    """The controller that binds claims and volumes.

    It keeps the volume that it chose for each claim until the claim is bound, and the time since
    when each bound volume misses its claim.
    """

    def __init__(self) -> None:
        self._promises: dict[str, _ChosenVolume] = {}
        self._holders: dict[str, str] = {}
        self._missing: dict[str, datetime] = {}

    # -- claims

    def reconcile_claim(self, claim: PersistentVolumeClaim, around: Surroundings) -> list[Write]:
        if BIND_COMPLETED in claim.metadata.annotations:
            self.forget_claim(key(claim))
            return _sync_bound(claim, around.named)
        if claim.spec.volume_name:
            self.forget_claim(key(claim))
            return _sync_named(claim, around.named)
        volume = self._choose(claim, around)
        if volume is not None:
            return _bind(volume, claim)
        if not _names_class(claim) and around.default_class is not None:
            spec = {"storageClassName": around.default_class.metadata.name}
            return [patch(claim, {"spec": spec}, guarded=True)]
        return _ask_provisioner(claim, around.storage_class) or _pending(claim)

    def forget_claim(self, place: str) -> None:
        """Frees the volume that the claim of this namespace/name has chosen."""
        promise = self._promises.pop(place, None)
        if promise is not None:
            del self._holders[promise.volume]

    def _choose(
        self, claim: PersistentVolumeClaim, around: Surroundings
    ) -> PersistentVolume | None:
        place = key(claim)
        chosen = find_reserved(claim, around.reserved)
        self_chosen = chosen is None and not waits_for_consumer(around.storage_class)
        if self_chosen:
            free = [volume for volume in around.free if not self._is_chosen(volume, place)]
            chosen = find_free(claim, free)
        self.forget_claim(place)
        if chosen is not None and self_chosen:
            name = chosen.metadata.name
            if name in self._holders:  # the volume has changed since, so that claim chooses anew
                self.forget_claim(self._holders[name])
            self._promises[place] = _ChosenVolume(name, chosen.metadata.resource_version)
            self._holders[name] = place
        return chosen

    def _is_chosen(self, volume: PersistentVolume, place: str) -> bool:
        """True if another claim has chosen the volume in its current version."""
        holder, version = self._holders.get(volume.metadata.name), volume.metadata.resource_version
        return holder not in (None, place) and self._promises[holder].version == version

    # -- volumes

    def reconcile_volume(
        self,
        volume: PersistentVolume,
        claim: PersistentVolumeClaim | None,
        is_gone: bool,
        now: datetime,
    ) -> list[Write]:
        """Decides on a volume. `claim` is the object of the name in claimRef.

        `is_gone` is True if the claim with the uid in claimRef is known to have been deleted.
        """
        name, uid = volume.metadata.name, claim_reference(volume).uid
        if not uid:
            self._missing.pop(name, None)
            return _phase(volume, "Available")
        if claim is None or claim.metadata.uid != uid:
            since = self._missing.setdefault(name, now)
            left = 0.0 if is_gone else QUARANTINE_SECONDS - (now - since).total_seconds()
            return [Again(left)] if left > 0 else _release(volume)
        self._missing.pop(name, None)
        if claim.spec.volume_name == name:
            return _phase(volume, "Bound")
        if not claim.spec.volume_name:
            return []  # the claim's turn
        dynamic = PROVISIONED_BY in volume.metadata.annotations
        if dynamic and volume.spec.persistent_volume_reclaim_policy == "Delete":
            return _release(volume)
        return _unbind(volume)

    def forget_volume(self, name: str) -> None:
        self._missing.pop(name, None)


def find_reserved(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> PersistentVolume | None:
    """Returns the volume that is reserved for the claim, if it is suitable."""
    request = VolumeRequest.of(claim)
    suitable = [
        volume
        for volume in volumes
        if is_for(volume, claim) and _has_size_and_modes(volume, request)
    ]
    return min(suitable, key=lambda volume: volume.metadata.name, default=None)


def find_free(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> PersistentVolume | None:
    """Returns the volume to bind to the claim: with the fewest access modes, and among these the
    smallest.
    """
    request = VolumeRequest.of(claim)
    return min(
        (
            volume
            for volume in volumes
            if volume.status.phase == "Available"
            and class_of(volume) == request.storage_class
            and request.matches(volume)
        ),
        key=lambda volume: (len(volume.spec.access_modes), size_of(volume), volume.metadata.name),
        default=None,
    )


def _has_size_and_modes(volume: PersistentVolume, request: VolumeRequest) -> bool:
    """True if a volume has the size and the modes of a claim, whatever its class and labels."""
    return request.admits(volume) and request.has_modes(volume)


def _names_class(claim: PersistentVolumeClaim) -> bool:
    """True if the claim names a class, or asks for none by an empty name."""
    return BETA_CLASS in claim.metadata.annotations or claim.spec.storage_class_name is not None


# -- the steps of a claim


def _sync_named(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> list[Write]:
    """Decides on a claim that names its volume."""
    if volume is None:
        return _pending(claim)
    if is_for(volume, claim):
        return _bind(volume, claim)
    request = VolumeRequest.of(claim)
    suits = _has_size_and_modes(volume, request) and class_of(volume) == request.storage_class
    if volume.spec.claim_ref or not suits:
        return _pending(claim)
    return _bind(volume, claim)


def _sync_bound(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> list[Write]:
    """Decides on a bound claim: it is lost if its volume is gone or belongs to another claim."""
    if volume is None or (
        volume.spec.claim_ref and volume.spec.claim_ref.uid != claim.metadata.uid
    ):
        return _claim_status(claim, "Lost", None)
    return _bind(volume, claim)


def _bind(volume: PersistentVolume, claim: PersistentVolumeClaim) -> list[Write]:
    """Returns the next writes: first the volume's reference, then its phase and the claim."""
    writes = _reference(volume, claim)
    if writes:
        return writes
    own = _own_reference(claim, volume.metadata.name)
    phase = _phase(volume, "Bound")
    return [*phase, *own] if own else [*phase, *_claim_status(claim, "Bound", volume)]


def _reference(volume: PersistentVolume, claim: PersistentVolumeClaim) -> list[Write]:
    body: Document = {}
    metadata = claim.metadata
    if claim_reference(volume).uid != metadata.uid or not is_for(volume, claim):
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        }
        body["spec"] = {"claimRef": reference}
    if not is_for(volume, claim) and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return [patch(volume, body, guarded=True)] if body else []


def _own_reference(claim: PersistentVolumeClaim, volume: str) -> list[Write]:
    annotations = {}
    body: Document = {}
    if claim.spec.volume_name != volume:
        body["spec"] = {"volumeName": volume}
        annotations[BOUND_BY_CONTROLLER] = "yes"
    if BIND_COMPLETED not in claim.metadata.annotations:
        annotations[BIND_COMPLETED] = "yes"
    if annotations:
        body["metadata"] = {"annotations": annotations}
    return [patch(claim, body, guarded=True)] if body else []


def _pending(claim: PersistentVolumeClaim) -> list[Write]:
    return _claim_status(claim, "Pending", None)


def _claim_status(
    claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None
) -> list[Write]:
    status = {**status_of(claim), "phase": phase}
    if volume is None:
        for field in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
            status.pop(field, None)
    else:
        status["accessModes"] = list(volume.spec.access_modes)
        if claim.status.phase != phase:
            status["capacity"] = dict(volume.spec.capacity)
            if volume.spec.volume_attributes_class_name:
                attributes_class = volume.spec.volume_attributes_class_name
                status["currentVolumeAttributesClassName"] = attributes_class
    return status_writes(claim, status)


def _ask_provisioner(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None
) -> list[Write]:
    """Names the provisioner in the claim's annotations, once its node is selected."""
    if storage_class is None or not can_provision(storage_class):
        return []
    if waits_for_consumer(storage_class) and SELECTED_NODE not in claim.metadata.annotations:
        return []
    name = storage_class.provisioner
    if claim.metadata.annotations.get(PROVISIONER) == name:
        return []
    annotations = {PROVISIONER: name, BETA_PROVISIONER: name}
    return [patch(claim, {"metadata": {"annotations": annotations}}, guarded=True)]


# -- the steps of a volume


def _phase(volume: PersistentVolume, phase: str, message: str = "") -> list[Write]:
    if volume.status.phase == phase:
        return []
    return status_writes(volume, {"phase": phase, **({"message": message} if message else {})})


def _release(volume: PersistentVolume) -> list[Write]:
    """Releases a volume whose claim is gone. Reports it if no provisioner here reclaims it."""
    if phase_of(volume) not in ("Released", "Failed"):
        return _phase(volume, "Released")
    dynamic = PROVISIONED_BY in volume.metadata.annotations
    match volume.spec.persistent_volume_reclaim_policy:
        case "Recycle":
            return _phase(volume, "Failed", UNRECYCLABLE)
        case "Delete" if not dynamic and not driver_in(volume):
            why = (
                f'error getting deleter volume plugin for volume "{volume.metadata.name}": '
                "no deletable volume plugin matched"
            )
            return _phase(volume, "Failed", why)
        case _:
            return []


def _unbind(volume: PersistentVolume) -> list[Write]:
    """Removes the reference to a claim that is bound to another volume."""
    if BOUND_BY_CONTROLLER in volume.metadata.annotations:
        body: Document = {
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
            "spec": {"claimRef": None},
        }
    else:
        body = {"spec": {"claimRef": {"uid": None}}}
    return [patch(volume, body, guarded=True)]
