"""Creates the claims of generic ephemeral volumes. Mirrors Kubernetes' ephemeral volume controller.

A claim is owned by its pod, so the garbage collector deletes it with the pod. An object of that
name that belongs to somebody else is left alone, and the pod waits.
"""

from __future__ import annotations

from collections.abc import Collection

from ..documents import Document, deleting, namespace_of, reference_to, spec_of
from ..volumes import pod_claims
from ..writes import Create, Write


def reconcile(pod: Document, claims: Collection[str]) -> list[Write]:
    """`claims` are the names of those that exist in the pod's namespace."""
    if deleting(pod):
        return []
    sources = {volume.get("name"): volume for volume in spec_of(pod).get("volumes") or ()}
    writes: list[Write] = []
    for claim in pod_claims(pod):
        if not claim.ephemeral or claim.name in claims:
            continue
        template = sources[claim.volume]["ephemeral"].get("volumeClaimTemplate")
        if template is None:
            continue
        given = template.get("metadata") or {}
        metadata: Document = {
            "name": claim.name,
            "namespace": namespace_of(pod),
            "ownerReferences": [reference_to(pod)],
        }
        for field in ("labels", "annotations"):
            if given.get(field):
                metadata[field] = given[field]
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        writes.append(
            Create("PersistentVolumeClaim", {**document, "spec": template.get("spec") or {}})
        )
    return writes
