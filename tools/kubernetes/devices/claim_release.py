"""Frees the devices of claims that no pod uses any more, and deletes claims of finished pods.

Mirrors what Kubernetes' resource claim controller does for claims. A claim loses its allocation
only when its last reservation is removed here, or when it is being deleted: a driver or a user may
allocate a claim long before a pod uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import FINALIZER
from berth.actors.scheduling.kube.meta import HasMetadata, key

from ..objects.documents import documents_of, status_of
from ..objects.properties import controller_of, deleting
from ..objects.writes import Again, Write, delete, patch, status_writes
from .device_claims import is_done

QUARANTINE_SECONDS = 2.0


class Consumer(Protocol):
    """The object for which a claim is reserved, mostly a pod."""

    @property
    def api_group(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...


class ClaimStatus(Protocol):
    @property
    def reserved_for(self) -> Sequence[Consumer]: ...
    @property
    def allocation(self) -> object | None: ...


class ReservedClaim(HasMetadata, Protocol):
    """A claim of resource.k8s.io/v1, or of v1alpha2, whose driver allocates it."""

    @property
    def status(self) -> ClaimStatus: ...


class ClaimRelease:
    """The claims whose devices were freed, and the pods with reservations that are missing, with
    the times since when.
    """

    def __init__(self) -> None:
        self._freed: set[str] = set()
        self._missing: dict[str, dict[str, datetime]] = {}

    def forget(self, claim: str) -> None:
        """Forgets a claim, by its namespace and name, that no longer exists."""
        self._freed.discard(claim)
        self._missing.pop(claim, None)

    def reconcile(
        self,
        claim: ReservedClaim,
        pod: Callable[[str], Pod | None],
        is_gone: Callable[[str], bool],
        now: datetime,
    ) -> list[Write]:
        """Decides on a claim. `pod` looks up by name, `is_gone` tells deleted objects by uid."""
        place, reserved_for = key(claim), claim.status.reserved_for
        before = self._missing.pop(place, {})
        missing: dict[str, datetime] = {}
        left = [
            consumer
            for consumer in reserved_for
            if _keeps_reservation(consumer, pod, is_gone, before, missing, now)
        ]
        if missing:
            self._missing[place] = missing
        waits = [QUARANTINE_SECONDS - (now - since).total_seconds() for since in missing.values()]
        again: list[Write] = [Again(min(waits))] if waits else []
        if len(left) < len(reserved_for):
            return [*self._remove_reservations(claim, left), *again]
        if left:
            self._freed.discard(place)
            return again
        return self._free_unused_claim(claim) + _release_of_finished_pod(claim, pod)

    def _remove_reservations(self, claim: ReservedClaim, left: list[Consumer]) -> list[Write]:
        """Removes reservations. With the last one, removes the allocation."""
        status = {**status_of(claim), "reservedFor": documents_of(left)}
        if not left:
            del status["reservedFor"]
            if FINALIZER in claim.metadata.finalizers:
                self._freed.add(key(claim))
                status.pop("allocation", None)
        return status_writes(claim, status)

    def _free_unused_claim(self, claim: ReservedClaim) -> list[Write]:
        """Frees a claim without reservations: first its allocation, then its finalizer.

        A finalizer that has just been set stays: the scheduler is about to allocate the claim.
        """
        place, have = key(claim), claim.metadata.finalizers
        if FINALIZER not in have or (place not in self._freed and not deleting(claim)):
            self._freed.discard(place)
            return []
        if claim.status.allocation is None:
            kept = [name for name in have if name != FINALIZER]
            return [patch(claim, {"metadata": {"finalizers": kept}}, guarded=True)]
        if deleting(claim):
            status = status_of(claim)
            del status["allocation"]
            return status_writes(claim, status)
        self._freed.discard(place)  # allocated by another client meanwhile
        return []


def _keeps_reservation(
    consumer: Consumer,
    find: Callable[[str], Pod | None],
    is_gone: Callable[[str], bool],
    before: dict[str, datetime],
    missing: dict[str, datetime],
    now: datetime,
) -> bool:
    """False if the consumer is a pod that has finished or is gone. A missing pod may be new, so it
    counts as gone only after QUARANTINE_SECONDS.
    """
    if consumer.api_group or consumer.resource != "pods":
        return True
    uid = consumer.uid
    if is_gone(uid):
        return False
    pod = find(consumer.name)
    if pod is not None:
        return pod.metadata.uid == uid and not is_done(pod)
    missing[uid] = before.get(uid, now)
    if (now - missing[uid]).total_seconds() < QUARANTINE_SECONDS:
        return True
    del missing[uid]
    return False


def _release_of_finished_pod(
    claim: ReservedClaim, find: Callable[[str], Pod | None]
) -> list[Write]:
    """Deletes a claim created for a pod that has finished or been replaced."""
    owner = controller_of(claim)
    if deleting(claim) or owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
        return []
    pod = find(owner.name)
    if pod is None or (pod.metadata.uid == owner.uid and not is_done(pod)):
        return []
    return [delete(claim)]
