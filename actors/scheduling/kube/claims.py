"""The claims of a pod's volumes: their names, owners and classes.

A generic ephemeral volume has a claim too, which is created for its pod and named after it. Mirrors
Kubernetes' component helpers for storage.
"""

from __future__ import annotations

from berth.actors.scheduling.kube.core import Pod, Volume
from berth.actors.scheduling.kube.meta import HasMetadata, OwnerReference
from berth.actors.scheduling.kube.storage import PersistentVolume, PersistentVolumeClaim

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The name of a volume's claim, which may be empty; None if the volume has no claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def class_of(item: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class of a claim or a volume; "" if it has none."""
    return item.metadata.annotations.get(_BETA_CLASS, item.spec.storage_class_name or "")


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """True if the volume controller has bound the claim and a volume to each other."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def controller_of(item: HasMetadata) -> OwnerReference | None:
    """The owner that manages an object, or None if there is none."""
    owners = item.metadata.owner_references
    return next((owner for owner in owners if owner.controller), None)


def is_not_made_for(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """The reason why a claim cannot be that of an ephemeral volume of the pod; "" if it can."""
    controller = controller_of(claim)
    mine, its = claim.metadata, pod.metadata
    if mine.namespace == its.namespace and controller is not None and controller.uid == its.uid:
        return ""
    return (
        f"PVC {mine.namespace}/{mine.name} was not created for pod {its.namespace}/{its.name} "
        "(pod is not owner)"
    )


def not_found(resource: str, name: str) -> str:
    """The message of an object that does not exist, such as `persistentvolume "a" not found`."""
    return f'{resource} "{name}" not found'
