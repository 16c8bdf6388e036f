"""The claims of a pod's volumes: their names, owners and classes.

A generic ephemeral volume has a claim too, which is created for its pod and named after it. Mirrors
Kubernetes' component helpers for storage.
"""

from __future__ import annotations

from .annotations import BETA_CLASS, BIND_COMPLETED
from .core import Pod, Volume
from .meta import HasMetadata
from .storage import PersistentVolume, PersistentVolumeClaim


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Returns the name of a volume's claim, which may be empty; None if there is no claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def named_claims(pod: Pod) -> list[str]:
    """Returns the claims that volumes name, each once, without the claims of ephemeral volumes."""
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return [source.claim_name for source in sources if source is not None]


def uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """True if a volume of the pod names the claim, or is ephemeral and has a claim of this name."""
    name = claim.metadata.name
    same_namespace = claim.metadata.namespace == pod.metadata.namespace
    return same_namespace and any(claim_name(pod, volume) == name for volume in pod.spec.volumes)


def class_of(item: PersistentVolumeClaim | PersistentVolume) -> str:
    """Returns the storage class of a claim or a volume; "" if it has none."""
    return item.metadata.annotations.get(BETA_CLASS, item.spec.storage_class_name or "")


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """True if the volume controller has bound the claim and a volume to each other."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def controller_uid(item: HasMetadata) -> str:
    """Returns the uid of the owner that manages an object; "" if there is none."""
    for owner in item.metadata.owner_references:
        if owner.controller:
            return owner.uid
    return ""


def not_made_for(pod: Pod, claim: str) -> str:
    """Returns the message for a claim with the name of an ephemeral volume of another pod."""
    namespace = pod.metadata.namespace
    return (
        f"PVC {namespace}/{claim} was not created for pod {namespace}/{pod.metadata.name} "
        "(pod is not owner)"
    )


def not_found(resource: str, name: str) -> str:
    """Returns the message for a missing object, such as `persistentvolume "a" not found`."""
    return f'{resource} "{name}" not found'
