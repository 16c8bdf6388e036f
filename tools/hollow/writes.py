"""What controllers decide, as data: orders for the API server, and the wish to be asked again
later.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from berth.tools.hollow.documents import (
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
    """`grace` in seconds; None leaves it to the object."""

    kind: str
    namespace: str
    name: str
    uid: str
    grace: int | None = None


class Patch(msgspec.Struct, frozen=True):
    """A merge patch; it carries the resourceVersion that was read if it must not undo what another
    wrote.
    """

    kind: str
    namespace: str
    name: str
    body: Document
    subresource: Literal["", "status"] = ""


class Again(msgspec.Struct, frozen=True):
    """Ask once more after this many seconds, even if nothing happens."""

    seconds: float


Write = Create | Delete | Patch | Again


def delete(document: Document, grace: int | None = None) -> Delete:
    return Delete(
        document["kind"], namespace_of(document), name_of(document), uid_of(document), grace
    )


def patch(document: Document, body: Document, *, guarded: bool = False) -> Patch:
    """`guarded`: refused if the object has changed since it was read."""
    if guarded:
        version = {"resourceVersion": document["metadata"]["resourceVersion"]}
        body = {**body, "metadata": {**body.get("metadata", {}), **version}}
    return Patch(document["kind"], namespace_of(document), name_of(document), body)


def status_writes(document: Document, status: Document) -> list[Write]:
    """Replace the status of an object by this one; nothing if it is so already."""
    before = status_of(document)
    if before == status:
        return []
    body = {
        "metadata": {"resourceVersion": document["metadata"]["resourceVersion"]},
        "status": _turn(before, status),
    }
    return [Patch(document["kind"], namespace_of(document), name_of(document), body, "status")]


def _turn(before: Document, after: Document) -> Document:
    """The merge patch that turns one document into another."""
    changed: Document = {field: None for field in before if field not in after}
    for field, value in after.items():
        have = before.get(field)
        if isinstance(value, dict) and isinstance(have, dict):
            if have != value:
                changed[field] = _turn(have, value)
        elif field not in before or have != value:
            changed[field] = value
    return changed


def annotated(document: Document, annotations: dict[str, str]) -> list[Write]:
    """Set annotations; nothing if they are set already."""
    have = annotations_of(document)
    missing = {key: value for key, value in annotations.items() if have.get(key) != value}
    return [patch(document, {"metadata": {"annotations": missing}})] if missing else []


def disrupted(
    pod: Document, reason: str, message: str, now: datetime, phase: str = ""
) -> list[Write]:
    """Say on the pod that it is about to be deleted, and why."""
    if condition_of(pod, "DisruptionTarget") is not None:
        return []
    status: Document = {
        "conditions": with_condition(pod, "DisruptionTarget", True, reason, message, now)
    }
    return status_writes(pod, {**status_of(pod), **status, **({"phase": phase} if phase else {})})


def count_available(
    pods: list[Document], min_ready_seconds: int, now: datetime
) -> tuple[int, list[Write]]:
    """How many pods are available, and when the next one may be."""
    waits = [seconds_to_available(pod, min_ready_seconds, now) for pod in pods]
    later = [wait for wait in waits if wait is not None and wait > 0]
    return sum(wait is not None and wait <= 0 for wait in waits), [
        Again(min(later))
    ] if later else []
