"""Binds claims and volumes to each other. Mirrors Kubernetes' persistent volume controller.

Each decision is one step: the volume is written first, then the claim, and the answer to one write
leads to the next. A volume is reserved for the claim it was chosen for until it changes, so that
claims decided at the same time choose different volumes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.annotations import (
    BETA_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
)

from ..claim import selects
from ..documents import (
    Document,
    annotations_of,
    deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from ..volumes import (
    claim_key,
    claim_reference,
    class_of,
    csi_driver,
    is_for,
    names_class,
    phase_in,
    provisions,
    requested,
    size_of,
    volume_of,
    waits_for_consumer,
)
from ..writes import Again, Write, patch, status_writes

# A volume is released only after its claim has been missing for this long, unless the claim is
# known to have been deleted: the watch of claims may be late.
QUARANTINE_SECONDS = 2.0
UNRECYCLABLE = "No recycler plugin found for the volume!"


class Surroundings(msgspec.Struct, frozen=True):
    """The objects that decide about a claim, beside itself.

    `named` is the volume of its volumeName, `reserved` are the volumes whose claimRef has its name,
    `free` those of its class without a claimRef.
    """

    storage_class: Document | None = None
    default_class: Document | None = None
    named: Document | None = None
    reserved: tuple[Document, ...] = ()
    free: tuple[Document, ...] = ()


class _Promise(msgspec.Struct, frozen=True):
    """A volume at the version at which a claim chose it."""

    volume: str
    version: str


class Binder:
    """Keeps which volume each claim has chosen, and since when volumes have missed their claims."""

    def __init__(self) -> None:
        self._promises: dict[str, _Promise] = {}
        self._holders: dict[str, str] = {}
        self._missing: dict[str, datetime] = {}

    # -- claims

    def reconcile_claim(self, claim: Document, around: Surroundings) -> list[Write]:
        if BIND_COMPLETED in annotations_of(claim):
            self.forget_claim(claim_key(claim))
            return _sync_bound(claim, around.named)
        if volume_of(claim):
            self.forget_claim(claim_key(claim))
            return _sync_named(claim, around.named)
        volume = self._choose(claim, around)
        if volume is not None:
            return _bind(volume, claim)
        if not names_class(claim) and around.default_class is not None:
            spec = {"storageClassName": name_of(around.default_class)}
            return [patch(claim, {"spec": spec}, guarded=True)]
        return _ask_provisioner(claim, around.storage_class) or _pending(claim)

    def forget_claim(self, key: str) -> None:
        """Frees the volume that the claim of this key (namespace/name) has chosen."""
        promise = self._promises.pop(key, None)
        if promise is not None:
            del self._holders[promise.volume]

    def _choose(self, claim: Document, around: Surroundings) -> Document | None:
        key = claim_key(claim)
        chosen = find_reserved(claim, around.reserved)
        self_chosen = chosen is None and not waits_for_consumer(around.storage_class)
        if self_chosen:
            free = [volume for volume in around.free if not self._is_promised(volume, key)]
            chosen = find_free(claim, free)
        self.forget_claim(key)
        if chosen is not None and self_chosen:
            name = name_of(chosen)
            if name in self._holders:  # the volume has changed since, so that claim chooses anew
                self.forget_claim(self._holders[name])
            self._promises[key] = _Promise(name, _version(chosen))
            self._holders[name] = key
        return chosen

    def _is_promised(self, volume: Document, key: str) -> bool:
        """True if another claim has chosen the volume as it is now."""
        holder = self._holders.get(name_of(volume), key)
        return holder != key and self._promises[holder].version == _version(volume)

    # -- volumes

    def reconcile_volume(
        self, volume: Document, claim: Document | None, is_gone: bool, now: datetime
    ) -> list[Write]:
        """`claim` is the object of the name in claimRef.

        `is_gone` is True if the claim of the uid there is known to have been deleted.
        """
        reference = claim_reference(volume)
        uid = reference.get("uid")
        if not uid:
            self._missing.pop(name_of(volume), None)
            return _phase(volume, "Available")
        if claim is None or uid_of(claim) != uid:
            since = self._missing.setdefault(name_of(volume), now)
            left = 0.0 if is_gone else QUARANTINE_SECONDS - (now - since).total_seconds()
            return [Again(left)] if left > 0 else _release(volume)
        self._missing.pop(name_of(volume), None)
        if volume_of(claim) == name_of(volume):
            return _phase(volume, "Bound")
        if not volume_of(claim):
            return []  # the claim's turn
        dynamic = PROVISIONED_BY in annotations_of(volume)
        if dynamic and spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete":
            return _release(volume)
        return _unbind(volume)

    def forget_volume(self, name: str) -> None:
        self._missing.pop(name, None)


def find_reserved(claim: Document, volumes: Iterable[Document]) -> Document | None:
    """The volume that somebody has reserved for the claim, if it is suitable."""
    found = [volume for volume in volumes if is_for(volume, claim) and _suits(volume, claim)]
    return min(found, key=name_of, default=None)


def find_free(claim: Document, volumes: Iterable[Document]) -> Document | None:
    """The volume to bind to the claim.

    It has as few access modes as possible, then it is as small as possible.
    """
    selector = spec_of(claim).get("selector")
    found = [
        volume
        for volume in volumes
        if phase_in(volume) == "Available"
        and class_of(volume) == class_of(claim)
        and (selector is None or selects(selector, labels_of(volume)))
        and _suits(volume, claim)
    ]
    return min(
        found,
        key=lambda volume: (len(_access_modes(volume)), size_of(volume), name_of(volume)),
        default=None,
    )


def _suits(volume: Document, claim: Document) -> bool:
    """True if the volume is as the claim needs it, whatever its class and labels."""
    return (
        not deleting(volume)
        and size_of(volume) >= requested(claim)
        and _volume_mode(volume) == _volume_mode(claim)
        and _attributes_class(volume) == _attributes_class(claim)
        and set(_access_modes(claim)) <= set(_access_modes(volume))
    )


def _volume_mode(document: Document) -> str:
    return spec_of(document).get("volumeMode") or "Filesystem"


def _attributes_class(document: Document) -> str:
    return spec_of(document).get("volumeAttributesClassName") or ""


def _access_modes(document: Document) -> list[str]:
    return spec_of(document).get("accessModes") or []


def _version(document: Document) -> str:
    return str(document["metadata"].get("resourceVersion"))


# -- the steps of a claim


def _sync_named(claim: Document, volume: Document | None) -> list[Write]:
    """A claim that asks for a volume by its name."""
    if volume is None:
        return _pending(claim)
    if is_for(volume, claim):
        return _bind(volume, claim)
    suits = _suits(volume, claim) and class_of(volume) == class_of(claim)
    if claim_reference(volume) or not suits:
        return _pending(claim)
    return _bind(volume, claim)


def _sync_bound(claim: Document, volume: Document | None) -> list[Write]:
    """A claim that has been bound: it is lost if its volume is gone or belongs to another claim."""
    if volume is None or (
        claim_reference(volume) and claim_reference(volume).get("uid") != uid_of(claim)
    ):
        return _claim_status(claim, "Lost", None)
    return _bind(volume, claim)


def _bind(volume: Document, claim: Document) -> list[Write]:
    """The next step: the volume's reference, then its phase and the claim's, then its status."""
    writes = _reference(volume, claim)
    if writes:
        return writes
    own = _own_reference(claim, name_of(volume))
    phase = _phase(volume, "Bound")
    return [*phase, *own] if own else [*phase, *_claim_status(claim, "Bound", volume)]


def _reference(volume: Document, claim: Document) -> list[Write]:
    body: Document = {}
    if claim_reference(volume).get("uid") != uid_of(claim) or not is_for(volume, claim):
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace_of(claim),
            "name": name_of(claim),
            "uid": uid_of(claim),
            "resourceVersion": claim["metadata"].get("resourceVersion", ""),
        }
        body["spec"] = {"claimRef": reference}
    if not is_for(volume, claim) and BOUND_BY_CONTROLLER not in annotations_of(volume):
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return [patch(volume, body, guarded=True)] if body else []


def _own_reference(claim: Document, volume: str) -> list[Write]:
    annotations = {}
    body: Document = {}
    if volume_of(claim) != volume:
        body["spec"] = {"volumeName": volume}
        annotations[BOUND_BY_CONTROLLER] = "yes"
    if BIND_COMPLETED not in annotations_of(claim):
        annotations[BIND_COMPLETED] = "yes"
    if annotations:
        body["metadata"] = {"annotations": annotations}
    return [patch(claim, body, guarded=True)] if body else []


def _pending(claim: Document) -> list[Write]:
    return _claim_status(claim, "Pending", None)


def _claim_status(claim: Document, phase: str, volume: Document | None) -> list[Write]:
    before = status_of(claim)
    status = {**before, "phase": phase}
    if volume is None:
        for field in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
            status.pop(field, None)
    else:
        status["accessModes"] = _access_modes(volume)
        if before.get("phase") != phase:
            status["capacity"] = spec_of(volume).get("capacity") or {}
            if _attributes_class(volume):
                status["currentVolumeAttributesClassName"] = _attributes_class(volume)
    return status_writes(claim, status)


def _ask_provisioner(claim: Document, storage_class: Document | None) -> list[Write]:
    """Names the provisioner that shall make a volume, once it is known where."""
    if storage_class is None or not provisions(storage_class):
        return []
    if waits_for_consumer(storage_class) and SELECTED_NODE not in annotations_of(claim):
        return []
    name = storage_class["provisioner"]
    if annotations_of(claim).get(PROVISIONER) == name:
        return []
    annotations = {PROVISIONER: name, BETA_PROVISIONER: name}
    return [patch(claim, {"metadata": {"annotations": annotations}}, guarded=True)]


# -- the steps of a volume


def _phase(volume: Document, phase: str, message: str = "") -> list[Write]:
    if status_of(volume).get("phase") == phase:
        return []
    kept = {field: value for field, value in status_of(volume).items() if field != "message"}
    return status_writes(
        volume, {**kept, "phase": phase, **({"message": message} if message else {})}
    )


def _release(volume: Document) -> list[Write]:
    """Releases a volume whose claim is gone, and says if nothing here can reclaim it."""
    if phase_in(volume) not in ("Released", "Failed"):
        return _phase(volume, "Released")
    match spec_of(volume).get("persistentVolumeReclaimPolicy"):
        case "Recycle":
            return _phase(volume, "Failed", UNRECYCLABLE)
        case "Delete" if PROVISIONED_BY not in annotations_of(volume) and not csi_driver(volume):
            why = (
                f'error getting deleter volume plugin for volume "{name_of(volume)}": '
                "no deletable volume plugin matched"
            )
            return _phase(volume, "Failed", why)
        case _:
            return []


def _unbind(volume: Document) -> list[Write]:
    """Takes back a binding to a claim that is bound to another volume."""
    if BOUND_BY_CONTROLLER in annotations_of(volume):
        body: Document = {
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
            "spec": {"claimRef": None},
        }
    else:
        body = {"spec": {"claimRef": {"uid": None}}}
    return [patch(volume, body, guarded=True)]
