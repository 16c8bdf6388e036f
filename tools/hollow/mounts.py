"""Volumes as a kubelet sees them: a pod runs once all its claims are bound and attached.

Mirrors the wait of the kubelet's volume manager. Volumes of other kinds need no waiting here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from berth.actors.scheduling.kube.core import Pod

from .documents import Document, controller_of, name_of, node_of, spec_of, status_of
from .volumes import (
    attach_required,
    claim_key,
    claimed_key,
    csi_driver,
    is_for,
    phase_in,
    volume_of,
)

FOLLOWED = ("PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment", "CSIDriver")


class Mounts:
    """Keeps the objects that decide whether volumes are ready, and the pods that wait for them."""

    def __init__(self) -> None:
        self._claims: dict[str, Document] = {}
        self._volumes: dict[str, Document] = {}
        self._drivers: dict[str, Document] = {}
        self._attached: set[tuple[str, str]] = set()  # volume and node
        self._waiting: dict[str, dict[str, Pod]] = defaultdict(dict)

    def replace(self, kind: str, documents: Iterable[Document]) -> list[Pod]:
        """Replaces all objects of a kind. Returns the waiting pods that may be ready."""
        match kind:
            case "PersistentVolumeClaim":
                self._claims.clear()
            case "PersistentVolume":
                self._volumes.clear()
            case "CSIDriver":
                self._drivers.clear()
            case _:
                self._attached.clear()
        for document in documents:
            self.put(kind, document)
        return self._all()

    def put(self, kind: str, document: Document) -> list[Pod]:
        """Stores an object. Returns the waiting pods that may be ready."""
        match kind:
            case "PersistentVolumeClaim":
                self._claims[claim_key(document)] = document
                return self._of_claim(claim_key(document))
            case "PersistentVolume":
                self._volumes[name_of(document)] = document
                return self._of_claim(claimed_key(document))
            case "CSIDriver":
                self._drivers[name_of(document)] = document
                return self._all()
            case _:
                return self._attach(document, attached=status_of(document).get("attached") is True)

    def remove(self, kind: str, document: Document) -> list[Pod]:
        """Removes an object. Returns the waiting pods that may be ready."""
        match kind:
            case "PersistentVolumeClaim":
                self._claims.pop(claim_key(document), None)
                return []
            case "PersistentVolume":
                self._volumes.pop(name_of(document), None)
                return []
            case "CSIDriver":
                self._drivers.pop(name_of(document), None)
                return []
            case _:
                return self._attach(document, attached=False)

    def wait(self, pod: Pod) -> bool:
        """True if the pod must wait, in which case it is returned when its volumes change."""
        keys = [f"{pod.metadata.namespace}/{name}" for name, _ in _claims_of(pod)]
        if all(self._is_ready(pod, name, of_pod) for name, of_pod in _claims_of(pod)):
            self.forget(pod)
            return False
        for key in keys:
            self._waiting[key][pod.metadata.uid] = pod
        return True

    def forget(self, pod: Pod) -> None:
        for name, _ in _claims_of(pod):
            key = f"{pod.metadata.namespace}/{name}"
            if key in self._waiting:
                self._waiting[key].pop(pod.metadata.uid, None)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _is_ready(self, pod: Pod, name: str, of_pod: bool) -> bool:
        claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
        if claim is None or phase_in(claim) != "Bound":
            return False
        if of_pod and (controller_of(claim) or {}).get("uid") != pod.metadata.uid:
            return False
        volume = self._volumes.get(volume_of(claim))
        if volume is None or not is_for(volume, claim):
            return False
        driver = csi_driver(volume)
        if not driver or not attach_required(self._drivers.get(driver)):
            return True
        return (name_of(volume), pod.spec.node_name) in self._attached

    def _attach(self, attachment: Document, *, attached: bool) -> list[Pod]:
        volume = (spec_of(attachment).get("source") or {}).get("persistentVolumeName") or ""
        place = (volume, node_of(attachment))
        if not attached:
            self._attached.discard(place)
            return []
        self._attached.add(place)
        return self._of_claim(claimed_key(self._volumes[volume])) if volume in self._volumes else []

    def _of_claim(self, key: str) -> list[Pod]:
        return list(self._waiting.get(key, {}).values())

    def _all(self) -> list[Pod]:
        found = {uid: pod for pods in self._waiting.values() for uid, pod in pods.items()}
        return list(found.values())


def _claims_of(pod: Pod) -> list[tuple[str, bool]]:
    """The claims that a pod names; True beside those that must be its own."""
    found: list[tuple[str, bool]] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append((volume.persistent_volume_claim.claim_name, False))
        elif volume.ephemeral is not None:
            found.append((f"{pod.metadata.name}-{volume.name}", True))
    return found
