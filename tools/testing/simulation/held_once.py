"""Devices and volumes: each is held once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...kubernetes.api.store import StoreEvent
from ...kubernetes.api.types.resources import BY_KIND, Kind

Document = dict[str, Any]
Report = Callable[[str, str], None]
DEVICE_CLAIMS = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
VOLUME_CLAIMS, PODS = BY_KIND["v1", "PersistentVolumeClaim"], BY_KIND["v1", "Pod"]
FINISHED = ("Succeeded", "Failed")


class HeldOnce:
    """Watches the writes of claims and pods: who holds which device and which volume."""

    def __init__(self, report: Report, vouches: Callable[[str], bool] = lambda _: True) -> None:
        """`vouches` tells whether a scheduler can know which pods are on a node."""
        self._report = report
        self._vouches = vouches
        self._devices: dict[tuple[str, str, str], str] = {}
        self._volumes: dict[str, str] = {}
        self._single: set[str] = set()  # claims that one pod at a time may use
        self._users: dict[str, dict[str, str]] = {}  # of these claims: bound pods, with their nodes

    def note(self, kind: Kind, event: StoreEvent) -> None:
        """Takes a write into account."""
        metadata = event.after.document["metadata"]
        place = f"{metadata.get('namespace', '')}/{metadata['name']}"
        if kind is DEVICE_CLAIMS:
            self._note_device_claim(place, event)
        elif kind is VOLUME_CLAIMS:
            self._note_volume_claim(place, event)
        elif kind is PODS:
            self._note_pod(place, event)

    def _note_device_claim(self, name: str, event: StoreEvent) -> None:
        _drop(self._devices, name)
        if event.type == "DELETED":
            return
        allocation = (event.after.document.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            if result.get("adminAccess") or result.get("shareID"):
                continue
            device = result["driver"], result["pool"], result["device"]
            other = self._devices.setdefault(device, name)
            if other != name:
                self._report("device twice", f"{'/'.join(device)} to {other} and to {name}")

    def _note_volume_claim(self, name: str, event: StoreEvent) -> None:
        _drop(self._volumes, name)
        self._single.discard(name)
        spec = event.after.document["spec"]
        if event.type == "DELETED":
            self._users.pop(name, None)
            return
        if "ReadWriteOncePod" in (spec.get("accessModes") or ()):
            self._single.add(name)
        bound = (event.after.document.get("status") or {}).get("phase") == "Bound"
        if bound and (volume := spec.get("volumeName")):
            other = self._volumes.setdefault(volume, name)
            if other != name:
                self._report("volume twice", f"{volume} to {other} and to {name}")

    def _note_pod(self, name: str, event: StoreEvent) -> None:
        pod = event.after.document
        phase = (pod.get("status") or {}).get("phase")
        node = pod["spec"].get("nodeName")
        if event.type == "DELETED" or phase in FINISHED:
            for users in self._users.values():
                users.pop(name, None)
        elif node and self._single:
            for claim in sorted(self._single & set(_claims(pod))):
                self._note_user(claim, name, node)

    def _note_user(self, claim: str, pod: str, node: str) -> None:
        users = self._users.setdefault(claim, {})
        if pod in users:
            return
        others = [other for other, place in users.items() if self._vouches(place)]
        users[pod] = node
        if others and self._vouches(node):
            self._report("volume twice", f"{claim} is used by {others[0]} and by {pod}")


def _drop(held: dict[Any, str], holder: str) -> None:
    for what in [what for what, who in held.items() if who == holder]:
        del held[what]


def _claims(pod: Document) -> list[str]:
    namespace = pod["metadata"].get("namespace", "")
    sources = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    return [f"{namespace}/{source['claimName']}" for source in sources if source]
