"""Keeps claims that pods use, and bound volumes, until they are no longer in use.

Mirrors Kubernetes' pvc-protection and pv-protection controllers, which work through finalizers. An
object gets its finalizer when it comes into use, not when it is created: so this write does not
compete with the scheduler's first write to a claim.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..documents import Document, deleting, name_of, node_of, phase_of
from ..volumes import is_of_pod, phase_in, pod_claims
from ..writes import Write, patch

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def reconcile_claim(claim: Document, pods: Iterable[Document]) -> list[Write]:
    """`pods` are those that name the claim."""
    in_use = any(_uses(pod, claim) for pod in pods)
    return _protect(claim, CLAIM_FINALIZER, in_use=in_use)


def reconcile_volume(volume: Document) -> list[Write]:
    return _protect(volume, VOLUME_FINALIZER, in_use=phase_in(volume) == "Bound")


def _protect(document: Document, finalizer: str, *, in_use: bool) -> list[Write]:
    """Adds the finalizer to an object in use; removes it from a deleted one that is not in use."""
    have = document["metadata"].get("finalizers") or []
    if finalizer in have and deleting(document) and not in_use:
        left = [one for one in have if one != finalizer]
    elif finalizer not in have and not deleting(document) and in_use:
        left = [*have, finalizer]
    else:
        return []
    return [patch(document, {"metadata": {"finalizers": left}}, guarded=True)]


def _uses(pod: Document, claim: Document) -> bool:
    """True for a pod on a node; a finished one no longer uses its ephemeral volumes."""
    finished = phase_of(pod) in ("Succeeded", "Failed")
    return bool(node_of(pod)) and any(
        named.name == name_of(claim)
        and (not named.ephemeral or (not finished and is_of_pod(claim, pod)))
        for named in pod_claims(pod)
    )
