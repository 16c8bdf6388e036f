"""The conditions under which the server deletes an object, and what its deletion waits for."""

from __future__ import annotations

from collections.abc import Sequence

from ..requests.request_bodies import DeleteOptions, Preconditions, check_delete_options
from ..rules.priority_rules import SYSTEM_CLASSES
from ..store import Store
from ..types.api_documents import Document, RefusedError, StoredObject, names_of
from ..types.resources import Kind
from .refusals import forbidden

FINISHED = ("Succeeded", "Failed")
# The finalizers of objects whose deletion waits for the garbage collector.
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_ORPHANING = {("", "ReplicationController"), ("batch", "Job")}  # unless a request says otherwise
_UNSUPPORTED = ("Event",)
# The kinds of which a DELETE answers with the object that it has removed, and not with a Status.
_SHOWN_DELETED = {
    "": (
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ResourceQuota",
        "Service",
        "ServiceAccount",
    ),
    "resource.k8s.io": (
        "DeviceClass",
        "DeviceTaintRule",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceSlice",
    ),
    "storage.k8s.io": (
        "CSIDriver",
        "CSINode",
        "StorageClass",
        "VolumeAttachment",
        "VolumeAttributesClass",
    ),
}


def deletion_answer(store: Store, kind: Kind, deleted: StoredObject) -> StoredObject | Document:
    """Returns what a DELETE of an object answers, after it: the object if it waits for something or
    is of a kind that is shown, else a metav1.Status.
    """
    if kind.kind in _SHOWN_DELETED.get(kind.group, ()):
        return deleted
    metadata = deleted.document["metadata"]
    there = store.find(kind, *names_of(deleted.document))
    if there is not None and there["metadata"]["uid"] == metadata["uid"]:
        return deleted
    details: Document = {"name": metadata["name"]}
    if kind.group:
        details["group"] = kind.group
    details |= {"kind": kind.plural, "uid": metadata["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def check_deletion(kind: Kind, document: Document, options: DeleteOptions) -> None:
    """Raises RefusedError: 422 for invalid options, 409 if a precondition does not hold, 403 for
    the priority classes of the system.
    """
    check_delete_options(options)
    metadata = document["metadata"]
    if kind.kind == "PriorityClass" and metadata["name"] in SYSTEM_CLASSES:
        why = "this is a system priority class and cannot be deleted"
        raise forbidden(kind, metadata["name"], why)
    preconditions = options.preconditions or Preconditions()
    for field, expected, have, else_ in (
        ("UID", preconditions.uid, metadata["uid"], "deleted and then recreated"),
        (
            "ResourceVersion",
            preconditions.resource_version,
            metadata["resourceVersion"],
            "modified",
        ),
    ):
        if expected is not None and expected != have:
            why = (
                f"the {field} in the precondition ({expected}) does not match the {field} in "
                f"record ({have}). The object might have been {else_}"
            )
            # Kubernetes names the kind here, and elsewhere the resource.
            message = f'Operation cannot be fulfilled on {kind.kind} "{metadata["name"]}": {why}'
            details = {"name": metadata["name"], "group": kind.group, "kind": kind.kind}
            raise RefusedError(409, "Conflict", message, details)


def deleted_now(pod: StoredObject, now: str) -> StoredObject:
    """Returns a pod that was removed at once, as Kubernetes answers it: with its last metadata."""
    metadata = dict(pod.document["metadata"])
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = now
        metadata["generation"] = metadata.get("generation", 0) + 1
    metadata["deletionGracePeriodSeconds"] = 0
    document = {**pod.document, "metadata": metadata}
    return StoredObject(document, pod.revision, entries=pod.entries)


def grace_seconds(pod: Document, seconds: int | None) -> int:
    """Returns the grace period in seconds; 0 for a pod that has no node or has finished.

    A negative one counts as a second.
    """
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in FINISHED:
        return 0
    if seconds is None:
        seconds = int(pod["spec"].get("terminationGracePeriodSeconds", 30))
    return 1 if seconds < 0 else seconds


def finalizers_for(kind: Kind, have: Sequence[str], options: DeleteOptions) -> list[str]:
    """Returns the finalizers that an object has while it is deleted.

    They say what happens to its dependents. The request decides about that; if it does not, the
    object's finalizers do, and then its kind.
    """
    kept = [each for each in have if each not in (ORPHAN, FOREGROUND)]
    policy = options.propagation_policy
    if kind.kind in _UNSUPPORTED:
        return kept
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    elif policy is None and len(kept) < len(have):
        return list(have)
    elif policy is None and (kind.group, kind.kind) in _ORPHANING:
        policy = "Orphan"
    if policy == "Orphan":
        return [*kept, ORPHAN]
    return [*kept, FOREGROUND] if policy == "Foreground" else kept
