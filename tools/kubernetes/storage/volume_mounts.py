"""The kubelet's view of volumes: a pod runs once all its claims are bound and attached.

Mirrors the wait of the kubelet's volume manager. Volumes of other kinds need no waiting here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import HasMetadata, key
from berth.actors.scheduling.kube.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from berth.actors.scheduling.kube.volumes import is_for

from .pod_volumes import claimed_key, driver_in, is_of_pod, needs_attachment, pod_claims

FOLLOWED: tuple[type[HasMetadata], ...] = (
    PersistentVolumeClaim,
    PersistentVolume,
    VolumeAttachment,
    CSIDriver,
)


class Mounts:
    """The objects that volumes depend on, and the pods that wait for their volumes."""

    def __init__(self) -> None:
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._drivers: dict[str, CSIDriver] = {}
        self._attached: set[tuple[str, str]] = set()  # volume and node
        self._waiting: dict[str, dict[str, Pod]] = defaultdict(dict)

    def replace(self, kind: type[HasMetadata], objects: Iterable[HasMetadata]) -> list[Pod]:
        """Replaces all objects of a kind. Returns the waiting pods that may be ready."""
        kept: dict[type[HasMetadata], dict[str, Any] | set[tuple[str, str]]] = {
            PersistentVolumeClaim: self._claims,
            PersistentVolume: self._volumes,
            CSIDriver: self._drivers,
            VolumeAttachment: self._attached,
        }
        kept[kind].clear()
        for obj in objects:
            self.put(obj)
        return self._all()

    def put(self, obj: HasMetadata) -> list[Pod]:
        """Stores an object. Returns the waiting pods that may be ready."""
        match obj:
            case PersistentVolumeClaim():
                self._claims[key(obj)] = obj
                return self._pods_of_claim(key(obj))
            case PersistentVolume(metadata=metadata):
                self._volumes[metadata.name] = obj
                return self._pods_of_claim(claimed_key(obj))
            case CSIDriver(metadata=metadata):
                self._drivers[metadata.name] = obj
                return self._all()
            case VolumeAttachment(status=status):
                return self._attach(obj, attached=status.attached)
            case _:
                raise AssertionError(f"{type(obj).__name__} is not followed")

    def remove(self, obj: HasMetadata) -> list[Pod]:
        """Removes an object. Returns the waiting pods that may be ready."""
        match obj:
            case PersistentVolumeClaim():
                self._claims.pop(key(obj), None)
            case PersistentVolume(metadata=metadata):
                self._volumes.pop(metadata.name, None)
            case CSIDriver(metadata=metadata):
                self._drivers.pop(metadata.name, None)
                return self._all()
            case VolumeAttachment():
                self._attach(obj, attached=False)
        return []

    def wait(self, pod: Pod) -> bool:
        """True if the pod must wait. A later change of its volumes then returns it."""
        claims = pod_claims(pod)
        if all(self._is_ready(pod, claim.name, claim.ephemeral) for claim in claims):
            self.forget(pod)
            return False
        for claim in claims:
            self._waiting[f"{pod.metadata.namespace}/{claim.name}"][pod.metadata.uid] = pod
        return True

    def forget(self, pod: Pod) -> None:
        for claim in pod_claims(pod):
            place = f"{pod.metadata.namespace}/{claim.name}"
            if place in self._waiting:
                self._waiting[place].pop(pod.metadata.uid, None)
                if not self._waiting[place]:
                    del self._waiting[place]

    def _is_ready(self, pod: Pod, name: str, of_pod: bool) -> bool:
        claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
        if claim is None or claim.status.phase != "Bound":
            return False
        if of_pod and not is_of_pod(claim, pod):
            return False
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None or not is_for(volume, claim):
            return False
        driver = driver_in(volume)
        if not driver or not needs_attachment(self._drivers.get(driver)):
            return True
        return (volume.metadata.name, pod.spec.node_name) in self._attached

    def _attach(self, attachment: VolumeAttachment, *, attached: bool) -> list[Pod]:
        volume = attachment.spec.source.persistent_volume_name or ""
        place = (volume, attachment.spec.node_name)
        if not attached:
            self._attached.discard(place)
            return []
        self._attached.add(place)
        return (
            self._pods_of_claim(claimed_key(self._volumes[volume]))
            if volume in self._volumes
            else []
        )

    def _pods_of_claim(self, place: str) -> list[Pod]:
        return list(self._waiting.get(place, {}).values())

    def _all(self) -> list[Pod]:
        waiting = {uid: pod for pods in self._waiting.values() for uid, pod in pods.items()}
        return list(waiting.values())
