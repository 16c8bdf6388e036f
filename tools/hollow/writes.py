"""Decisions of controllers as data: writes for the API server, and requests to be asked again."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from .documents import (
    Document,
    annotations_of,
    condition_of,
    name_of,
    namespace_of,
    seconds_to_available,
    status_of,
    uid_of,
    with_condition,
)


class Create(msgspec.Struct, frozen=True):
    kind: str
    document: Document


class Delete(msgspec.Struct, frozen=True):
    """`grace` in seconds; None for the object's default."""

    kind: str
    namespace: str
    name: str
    uid: str
    grace: int | None = None


class Patch(msgspec.Struct, frozen=True):
    """A merge patch.

    Its body carries the resourceVersion that was read if it must not undo somebody else's write.
    """

    kind: str
    namespace: str
    name: str
    body: Document
    subresource: Literal["", "status"] = ""


class Again(msgspec.Struct, frozen=True):
    """Asks for another decision after this many seconds, even if nothing changes."""

    seconds: float


Write = Create | Delete | Patch | Again


def delete(document: Document, grace: int | None = None) -> Delete:
    return Delete(
        document["kind"], namespace_of(document), name_of(document), uid_of(document), grace
    )


def patch(document: Document, body: Document, *, guarded: bool = False) -> Patch:
    """If `guarded`, the server refuses the patch if the object has changed since it was read."""
    if guarded:
        version = {"resourceVersion": document["metadata"]["resourceVersion"]}
        body = {**body, "metadata": {**body.get("metadata", {}), **version}}
    return Patch(document["kind"], namespace_of(document), name_of(document), body)


def status_writes(document: Document, status: Document) -> list[Write]:
    """Replaces an object's status; no write if it is the same."""
    before = status_of(document)
    if before == status:
        return []
    body = {
        "metadata": {"resourceVersion": document["metadata"]["resourceVersion"]},
        "status": _difference(before, status),
    }
    return [Patch(document["kind"], namespace_of(document), name_of(document), body, "status")]


def _difference(before: Document, after: Document) -> Document:
    """The merge patch that turns one document into another."""
    changed: Document = {field: None for field in before if field not in after}
    for field, value in after.items():
        have = before.get(field)
        if isinstance(value, dict) and isinstance(have, dict):
            if have != value:
                changed[field] = _difference(have, value)
        elif field not in before or have != value:
            changed[field] = value
    return changed


def annotated(document: Document, annotations: dict[str, str]) -> list[Write]:
    """Sets annotations; no write if they are already set."""
    have = annotations_of(document)
    missing = {key: value for key, value in annotations.items() if have.get(key) != value}
    return [patch(document, {"metadata": {"annotations": missing}})] if missing else []


def disrupted(
    pod: Document, reason: str, message: str, now: datetime, phase: str = ""
) -> list[Write]:
    """Sets the condition DisruptionTarget on a pod that is about to be deleted, with the reason."""
    if condition_of(pod, "DisruptionTarget") is not None:
        return []
    status: Document = {
        "conditions": with_condition(pod, "DisruptionTarget", True, reason, message, now)
    }
    return status_writes(pod, {**status_of(pod), **status, **({"phase": phase} if phase else {})})


def count_available(
    pods: list[Document], min_ready_seconds: int, now: datetime
) -> tuple[int, list[Write]]:
    """The number of available pods, and a reminder for when the next one may be."""
    waits = [seconds_to_available(pod, min_ready_seconds, now) for pod in pods]
    later = [wait for wait in waits if wait is not None and wait > 0]
    return sum(wait is not None and wait <= 0 for wait in waits), [
        Again(min(later))
    ] if later else []
