"""Which metadata a write of a status changes, by kind.

Mirrors the strategies of pkg/registry for the subresource `status`: most kinds take labels,
annotations, finalizers and owners as they are sent, some leave all or some of them as they are.
"""

from __future__ import annotations

from .api_documents import Document
from .resources import Kind

_ALL = ("labels", "annotations", "finalizers", "ownerReferences")
_LEFT_ALONE = {
    "admissionregistration.k8s.io": ("ValidatingAdmissionPolicy",),
    "apiregistration.k8s.io": ("APIService",),
    "certificates.k8s.io": ("PodCertificateRequest",),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "internal.apiserver.k8s.io": ("StorageVersion",),
    "networking.k8s.io": ("ServiceCIDR",),
    "resource.k8s.io": ("ResourceClaim", "DeviceTaintRule", "ResourcePoolStatusRequest"),
    "scheduling.k8s.io": ("PodGroup",),
    "storage.k8s.io": ("VolumeAttachment",),
    "storagemigration.k8s.io": ("StorageVersionMigration",),
}
_PARTLY = {
    ("", "Pod"): ("labels", "annotations", "finalizers"),
    ("apps", "Deployment"): ("annotations", "finalizers", "ownerReferences"),
}


def status_metadata(kind: Kind) -> tuple[str, ...]:
    """Returns the fields of metadata that a write of a status changes."""
    if kind.custom is not None or kind.kind in _LEFT_ALONE.get(kind.group, ()):
        return ()
    return _PARTLY.get((kind.group, kind.kind), _ALL)


def with_sent_metadata(kind: Kind, metadata: Document, sent: Document) -> Document:
    """Returns the metadata of a stored object as a write of its status makes it."""
    fields = status_metadata(kind)
    for field in fields:
        new, had = sent.get(field), metadata.get(field)
        if new is not had and (new or None) != (had or None):
            break
    else:
        return metadata
    news = {field: sent[field] for field in fields if sent.get(field)}
    return {field: value for field, value in metadata.items() if field not in fields} | news
