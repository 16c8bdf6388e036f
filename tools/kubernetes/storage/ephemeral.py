"""Creates the claims of generic ephemeral volumes. Mirrors Kubernetes' ephemeral volume controller.

The pod owns the claim, so the garbage collector deletes the claim after the pod. If another object
has the name of the claim, it is left alone, and the pod waits.
"""

from __future__ import annotations

from collections.abc import Collection

from berth.actors.scheduling.kube.claims import claim_name

from ..objects.documents import reference_to
from ..objects.properties import deleting
from ..objects.structs import Document, Pod
from ..objects.writes import Create, Write


def reconcile(pod: Pod, claims: Collection[str]) -> list[Write]:
    """Creates missing claims. `claims` are the names of those in the pod's namespace."""
    if deleting(pod):
        return []
    writes: list[Write] = []
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
        if template is None or name in claims:
            continue
        source = template.get("metadata") or {}
        metadata: Document = {
            "name": name,
            "namespace": pod.metadata.namespace,
            "ownerReferences": [reference_to(pod)],
        }
        for field in ("labels", "annotations"):
            if source.get(field):
                metadata[field] = source[field]
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        writes.append(
            Create("PersistentVolumeClaim", {**document, "spec": template.get("spec") or {}})
        )
    return writes
