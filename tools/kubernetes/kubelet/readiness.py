"""The volumes and devices for which a pod waits before its containers start."""

from __future__ import annotations

from berth.actors.scheduling.kube.core import Pod

from ..devices import preparation
from ..objects.structs import Document, read
from ..storage import volume_mounts


class Readiness:
    """The volumes and device claims of all pods that wait for them."""

    def __init__(self) -> None:
        self.mounts = volume_mounts.Mounts()
        self.preparation = preparation.Preparation()

    def lacks(self, document: Document) -> tuple[bool, str]:
        """Returns whether the pod waits for volumes, and the reason why it waits for devices, or
        "".

        While it waits, the changes of volumes and claims return the pod.
        """
        if not has_claims(document):
            return False, ""
        pod = read(document, Pod)
        return self.mounts.wait(pod), self.preparation.wait(pod)

    def forget(self, document: Document) -> None:
        if has_claims(document):
            pod = read(document, Pod)
            self.mounts.forget(pod)
            self.preparation.forget(pod)


def has_claims(document: Document) -> bool:
    spec = document["spec"]
    return bool(spec.get("resourceClaims")) or any(
        "persistentVolumeClaim" in volume or "ephemeral" in volume
        for volume in spec.get("volumes") or ()
    )
