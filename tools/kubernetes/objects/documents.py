"""Parts of documents that controllers write: references to owners, conditions, and pods from
templates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import PodCondition
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.times import rfc3339

from ..api.types.resources import KINDS
from .structs import Condition, ContainerStatus, Document, HasStatus, Workload

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10
_API_VERSIONS = {kind.kind: kind.api_version for kind in KINDS if kind.stored_as is None}


def documents_of(parts: Iterable[object]) -> list[Document]:
    """Returns parts of objects as documents, without fields that have their zero value."""
    return [msgspec.to_builtins(part) for part in parts]


def container_documents(statuses: Iterable[ContainerStatus]) -> list[Document]:
    """Returns the statuses of containers as documents. Required fields are present even with their
    defaults.
    """
    return [
        {
            "ready": status.ready,
            "restartCount": status.restart_count,
            "lastState": {},
            **msgspec.to_builtins(status),
        }
        for status in statuses
    ]


def status_of(obj: HasStatus) -> Document:
    """Returns the fields of a status that are set, of those that controllers define."""
    status: Document = msgspec.to_builtins(obj.status)
    return status


def reference_to(owner: HasMetadata, *, controls: bool = True) -> Document:
    reference: Document = {
        "apiVersion": _API_VERSIONS[type(owner).__name__],
        "kind": type(owner).__name__,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
    }
    return {**reference, "controller": True, "blockOwnerDeletion": True} if controls else reference


def with_condition(
    conditions: Iterable[Condition | PodCondition | Document],
    kind: str,
    status: bool,
    reason: str,
    message: str,
    now: datetime,
) -> list[Document]:
    """Returns the conditions with this one set.

    The transition time changes only if the status of the condition does.
    """
    kept: list[Document] = msgspec.to_builtins(list(conditions))
    before = next((condition for condition in kept if condition["type"] == kind), None)
    word = "True" if status else "False"
    since = (
        before.get("lastTransitionTime")
        if before is not None and before["status"] == word
        else rfc3339(now)
    )
    condition = {
        "type": kind,
        "status": word,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }
    if before is not None and "lastUpdateTime" in before:
        condition["lastUpdateTime"] = before["lastUpdateTime"]
    return [*(other for other in kept if other["type"] != kind), condition]


def template_hash(template: Document) -> str:
    """Returns a short, stable hash of the characters that Kubernetes uses in generated names.

    Equal templates have equal hashes.
    """
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_HASH_LENGTH])


def labels_in(template: Document) -> dict[str, str]:
    """Returns the labels of the pods of a template."""
    return (template.get("metadata") or {}).get("labels") or {}


def pod_from(
    owner: Workload, name: str = "", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Returns a new pod from an owner's template.

    Without a name, the server generates one from the name of the owner.
    """
    template = owner.spec.template
    metadata: Document = {
        "namespace": owner.metadata.namespace,
        "labels": {**labels_in(template), **(labels or {})},
        "ownerReferences": [reference_to(owner)],
        **({"name": name} if name else {"generateName": f"{owner.metadata.name}-"}),
    }
    for field in ("annotations", "finalizers"):
        if (template.get("metadata") or {}).get(field):
            metadata[field] = template["metadata"][field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
