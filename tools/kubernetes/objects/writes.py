"""Decisions of controllers as data: writes for the API server, and requests to decide again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import HasMetadata

from .documents import status_of, with_condition
from .properties import condition_of, is_ready, seconds_to_available
from .structs import Document, HasStatus


class Notice(msgspec.Struct, frozen=True):
    """An event about the owner that a write is for, recorded once the write is done.

    In its message, {name} stands for the name of the written object.
    """

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


POD_CREATED = Notice("SuccessfulCreate", "Created pod: {name}")
POD_DELETED = Notice("SuccessfulDelete", "Deleted pod: {name}")


class Create(msgspec.Struct, frozen=True):
    kind: str
    document: Document
    notices: tuple[Notice, ...] = ()


class Delete(msgspec.Struct, frozen=True):
    """A deletion; `grace` is in seconds, None for the default of the object.

    `propagation` says what becomes of the dependents.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    grace: int | None = None
    propagation: str = "Background"
    notices: tuple[Notice, ...] = ()


class Patch(msgspec.Struct, frozen=True):
    """A merge patch.

    Its body has the resourceVersion of the object read if other writes must not be undone.
    """

    kind: str
    namespace: str
    name: str
    body: Document
    subresource: Literal["", "status", "scale"] = ""
    notices: tuple[Notice, ...] = ()


class Look(msgspec.Struct, frozen=True):
    """A request to ask the server for an object, and to decide again if it is absent."""

    kind: str
    namespace: str
    name: str
    uid: str


class Again(msgspec.Struct, frozen=True):
    """A request for another decision after this many seconds, even without a change."""

    seconds: float


Write = Create | Delete | Patch | Look | Again


def delete(
    obj: HasMetadata,
    grace: int | None = None,
    propagation: str = "Background",
    notices: tuple[Notice, ...] = (),
) -> Delete:
    metadata, kind = obj.metadata, type(obj).__name__
    place = kind, metadata.namespace, metadata.name, metadata.uid
    return Delete(*place, grace, propagation, notices)


def delete_pod(pod: Pod, *before: Notice) -> Delete:
    """Returns the deletion of a pod by its owner, with notices."""
    return delete(pod, notices=(*before, POD_DELETED))


def patch(
    obj: HasMetadata,
    body: Document,
    subresource: Literal["", "status"] = "",
    *,
    guarded: bool = False,
    notices: tuple[Notice, ...] = (),
) -> Patch:
    """Returns a patch. If `guarded`, the server refuses it if the object has changed since."""
    metadata = obj.metadata
    if guarded:
        version = {"resourceVersion": metadata.resource_version}
        body = {**body, "metadata": {**body.get("metadata", {}), **version}}
    kind = type(obj).__name__
    return Patch(kind, metadata.namespace, metadata.name, body, subresource, notices)


def status_writes(
    obj: HasStatus, status: Document, notices: tuple[Notice, ...] = ()
) -> list[Write]:
    """Returns the write that replaces the defined fields of an object's status; none if they are
    equal.
    """
    if msgspec.convert(status, type(obj.status)) == obj.status:
        return []
    body = {"status": _difference(status_of(obj), status)}
    return [patch(obj, body, "status", guarded=True, notices=notices)]


def _difference(before: Document, after: Document) -> Document:
    """Returns the merge patch that turns one document into another."""
    changed: Document = {field: None for field in before if field not in after}
    for field, value in after.items():
        have = before.get(field)
        if isinstance(value, dict) and isinstance(have, dict):
            if have != value:
                changed[field] = _difference(have, value)
        elif field not in before or have != value:
            changed[field] = value
    return changed


def annotation_writes(obj: HasMetadata, annotations: dict[str, str]) -> list[Write]:
    """Returns the write that sets annotations; none if they are already set."""
    have = obj.metadata.annotations
    missing = {key: value for key, value in annotations.items() if have.get(key) != value}
    return [patch(obj, {"metadata": {"annotations": missing}})] if missing else []


def disruption_writes(
    pod: Pod, reason: str, message: str, now: datetime, phase: str = ""
) -> list[Write]:
    """Returns the write before a pod's deletion that sets the condition DisruptionTarget, and
    perhaps the phase.
    """
    status: Document = {**status_of(pod), **({"phase": phase} if phase else {})}
    before = condition_of(pod.status.conditions, "DisruptionTarget")
    if before is None or (before.status, before.reason) != ("True", reason):
        *others, condition = with_condition(
            pod.status.conditions, "DisruptionTarget", True, reason, message, now
        )
        observed = {"observedGeneration": pod.metadata.generation}
        status["conditions"] = [*others, condition | observed]
    return status_writes(pod, status)


def count_available(
    pods: Sequence[Pod], min_ready_seconds: int, now: datetime
) -> tuple[int, list[Write]]:
    """Returns the number of available pods, and a request to decide again when the next may be
    available.
    """
    if not min_ready_seconds:
        return sum(map(is_ready, pods)), []
    waits = [seconds_to_available(pod, min_ready_seconds, now) for pod in pods]
    later = [wait for wait in waits if wait is not None and wait > 0]
    return sum(wait is not None and wait <= 0 for wait in waits), [
        Again(min(later))
    ] if later else []
