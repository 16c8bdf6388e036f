"""Readers for plain JSON documents: owners, readiness, times, templates.

Nothing here changes a document; results are new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import (
    Taint,
    Toleration,
)

Document = dict[str, Any]

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10


def stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime(_FORMAT)


def seconds_since(text: str | None, now: datetime) -> float:
    """0 if there is no time."""
    return (now - datetime.fromisoformat(text)).total_seconds() if text else 0.0


def name_of(document: Document) -> str:
    return str(document["metadata"]["name"])


def namespace_of(document: Document) -> str:
    return str(document["metadata"].get("namespace", ""))


def uid_of(document: Document) -> str:
    return str(document["metadata"]["uid"])


def labels_of(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def annotations_of(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("annotations") or {}


def spec_of(document: Document) -> Document:
    return document.get("spec") or {}


def status_of(document: Document) -> Document:
    return document.get("status") or {}


def node_of(document: Document) -> str:
    """The node of a pod or an attachment; "" for none."""
    return spec_of(document).get("nodeName") or ""


def replicas_of(owner: Document) -> int:
    wanted = owner["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)


def deleting(document: Document) -> bool:
    return bool(document["metadata"].get("deletionTimestamp"))


def owners_of(document: Document) -> list[Document]:
    return document["metadata"].get("ownerReferences") or []


def controller_of(document: Document) -> Document | None:
    """The reference to the owner that controls this object; None if no owner does."""
    return next((owner for owner in owners_of(document) if owner.get("controller")), None)


def reference_to(owner: Document) -> Document:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def phase_of(pod: Document) -> str:
    return str(status_of(pod).get("phase", "Pending"))


def is_active(pod: Document) -> bool:
    """True if the pod is neither finished nor being deleted."""
    return not deleting(pod) and phase_of(pod) not in ("Succeeded", "Failed")


def condition_of(document: Document, kind: str) -> Document | None:
    return next((c for c in status_of(document).get("conditions") or () if c["type"] == kind), None)


def is_ready(pod: Document) -> bool:
    condition = condition_of(pod, "Ready")
    return condition is not None and condition["status"] == "True"


def seconds_to_available(pod: Document, min_ready_seconds: int, now: datetime) -> float | None:
    """0 or less once the pod has been ready for long enough; None while it is not ready."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return None
    if not min_ready_seconds:
        return 0.0
    return min_ready_seconds - seconds_since(condition.get("lastTransitionTime"), now)


def with_condition(
    document: Document, kind: str, status: bool, reason: str, message: str, now: datetime
) -> list[Document]:
    """The document's conditions with this one set.

    Its transition time changes only if its status does.
    """
    before = condition_of(document, kind)
    word = "True" if status else "False"
    since = (
        before.get("lastTransitionTime")
        if before is not None and before["status"] == word
        else stamp(now)
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
    kept = status_of(document).get("conditions") or ()
    return [*(c for c in kept if c["type"] != kind), condition]


def int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """The number, or the percentage of `total`."""
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * total
        return -(-share // 100) if round_up else share // 100
    return int(value)


def template_hash(template: Document) -> str:
    """A short, stable hash of the characters that Kubernetes uses in generated names.

    Equal templates have equal hashes.
    """
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_HASH_LENGTH])


def pod_from(
    owner: Document, template: Document, name: str = "", labels: Mapping[str, str] | None = None
) -> Document:
    """A new pod of an owner; without a name, the server generates one from the owner's."""
    given = template.get("metadata") or {}
    metadata: Document = {
        "namespace": namespace_of(owner),
        "labels": {**(given.get("labels") or {}), **(labels or {})},
        "ownerReferences": [reference_to(owner)],
        **({"name": name} if name else {"generateName": f"{name_of(owner)}-"}),
    }
    for field in ("annotations", "finalizers"):
        if given.get(field):
            metadata[field] = given[field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def tolerations_of(pod_spec: Document) -> tuple[Toleration, ...]:
    return msgspec.convert(pod_spec.get("tolerations") or (), tuple[Toleration, ...])


def taints_of(node: Document, effects: Iterable[str]) -> list[Taint]:
    wanted = tuple(effects)
    taints = msgspec.convert((node.get("spec") or {}).get("taints") or (), tuple[Taint, ...])
    return [taint for taint in taints if taint.effect in wanted]
