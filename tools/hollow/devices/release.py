"""Frees the devices of claims that no pod uses any more, and deletes claims of finished pods.

Mirrors what Kubernetes' resource claim controller does for claims. A claim loses its allocation
only when its last reservation is removed here, or when it is being deleted: a driver or a user may
allocate a claim long before a pod uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ..device_claims import FINALIZER, allocation_of, is_done, key_of, reserved_for
from ..documents import Document, controller_of, deleting, status_of, uid_of
from ..writes import Again, Write, delete, patch, status_writes

QUARANTINE_SECONDS = 2.0


class ClaimRelease:
    """Keeps the claims whose devices it has freed, and since when reserving pods are missing."""

    def __init__(self) -> None:
        self._freed: set[str] = set()
        self._missing: dict[str, dict[str, datetime]] = {}

    def forget(self, claim: str) -> None:
        """Forgets a claim, by its namespace and name, that no longer exists."""
        self._freed.discard(claim)
        self._missing.pop(claim, None)

    def reconcile(
        self,
        claim: Document,
        pod: Callable[[str], Document | None],
        is_gone: Callable[[str], bool],
        now: datetime,
    ) -> list[Write]:
        """`pod` looks up by name; `is_gone` returns True for the uid of a deleted object."""
        key = key_of(claim)
        before = self._missing.pop(key, {})
        missing: dict[str, datetime] = {}
        left = [
            consumer
            for consumer in reserved_for(claim)
            if _stays(consumer, pod, is_gone, before, missing, now)
        ]
        if missing:
            self._missing[key] = missing
        waits = [QUARANTINE_SECONDS - (now - since).total_seconds() for since in missing.values()]
        again: list[Write] = [Again(min(waits))] if waits else []
        if len(left) < len(reserved_for(claim)):
            return [*self._reduce(claim, left), *again]
        if left:
            self._freed.discard(key)
            return again
        return self._unused(claim) + _of_finished_pod(claim, pod)

    def _reduce(self, claim: Document, left: list[Document]) -> list[Write]:
        """Removes reservations and, with the last one, the allocation."""
        status = {**status_of(claim), "reservedFor": left}
        if not left:
            del status["reservedFor"]
            if FINALIZER in _finalizers(claim):
                self._freed.add(key_of(claim))
                status.pop("allocation", None)
        return status_writes(claim, status)

    def _unused(self, claim: Document) -> list[Write]:
        """Frees a claim without reservations: first of its allocation, then of its finalizer.

        The finalizer of a claim that has just been given one stays: the scheduler is about to
        allocate it.
        """
        key, have = key_of(claim), _finalizers(claim)
        if FINALIZER not in have or (key not in self._freed and not deleting(claim)):
            self._freed.discard(key)
            return []
        if allocation_of(claim) is None:
            kept = [one for one in have if one != FINALIZER]
            return [patch(claim, {"metadata": {"finalizers": kept}}, guarded=True)]
        if deleting(claim):
            status = {**status_of(claim)}
            del status["allocation"]
            return status_writes(claim, status)
        self._freed.discard(key)  # somebody has allocated it meanwhile
        return []


def _stays(
    consumer: Document,
    find: Callable[[str], Document | None],
    is_gone: Callable[[str], bool],
    before: dict[str, datetime],
    missing: dict[str, datetime],
    now: datetime,
) -> bool:
    """True unless the consumer is a pod that is gone or has finished.

    A pod that nobody has heard of may only be new: it counts as gone after QUARANTINE_SECONDS.
    """
    if consumer.get("apiGroup") or consumer.get("resource") != "pods":
        return True
    uid = consumer.get("uid") or ""
    if is_gone(uid):
        return False
    pod = find(consumer.get("name") or "")
    if pod is not None:
        return uid_of(pod) == uid and not is_done(pod)
    missing[uid] = before.get(uid, now)
    if (now - missing[uid]).total_seconds() < QUARANTINE_SECONDS:
        return True
    del missing[uid]
    return False


def _of_finished_pod(claim: Document, find: Callable[[str], Document | None]) -> list[Write]:
    """Deletes a claim that was made for a pod which has finished or been replaced."""
    owner = controller_of(claim) or {}
    if deleting(claim) or owner.get("kind") != "Pod" or owner.get("apiVersion") != "v1":
        return []
    pod = find(owner.get("name") or "")
    if pod is None or (uid_of(pod) == owner.get("uid") and not is_done(pod)):
        return []
    return [delete(claim)]


def _finalizers(claim: Document) -> list[str]:
    return claim["metadata"].get("finalizers") or []
