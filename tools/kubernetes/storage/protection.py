"""Keeps claims and volumes from being removed while they are in use.

Mirrors Kubernetes' pvc-protection and pv-protection controllers, which work through finalizers. The
API server gives an object its finalizer at its creation; one without gets it at its first use.
"""

from __future__ import annotations

from collections.abc import Iterable

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.storage import PersistentVolume, PersistentVolumeClaim

from ..objects.properties import deleting, is_finished
from ..objects.writes import Write, patch
from .pod_volumes import is_of_pod, pod_claims

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def reconcile_claim(claim: PersistentVolumeClaim, pods: Iterable[Pod]) -> list[Write]:
    """Decides on a claim. `pods` are the pods that name it."""
    in_use = any(_uses(pod, claim) for pod in pods)
    return _finalizer_writes(claim, CLAIM_FINALIZER, in_use=in_use)


def reconcile_volume(volume: PersistentVolume) -> list[Write]:
    return _finalizer_writes(volume, VOLUME_FINALIZER, in_use=volume.status.phase == "Bound")


def _finalizer_writes(obj: HasMetadata, finalizer: str, *, in_use: bool) -> list[Write]:
    """Adds the finalizer to an object in use, and removes it from a deleted object that is not."""
    have = obj.metadata.finalizers
    if finalizer in have and deleting(obj) and not in_use:
        left = [name for name in have if name != finalizer]
    elif finalizer not in have and not deleting(obj) and in_use:
        left = [*have, finalizer]
    else:
        return []
    return [patch(obj, {"metadata": {"finalizers": left}}, guarded=True)]


def _uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """True if a pod on a node uses the claim; ephemeral claims are in use until it finishes."""
    return bool(pod.spec.node_name) and any(
        named.name == claim.metadata.name
        and (not named.ephemeral or (not is_finished(pod) and is_of_pod(claim, pod)))
        for named in pod_claims(pod)
    )
