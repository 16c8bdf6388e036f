"""Reserve, PreBind and their undoing: allocations are written to the claims of a pod.

Reserve keeps the devices from other pods by an InFlightAllocation. PreBind writes: first the
finalizer, then a status with the allocation and the reservation for the pod, which the API server
refuses if the claim has changed meanwhile. Mirrors bindClaim.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, repeat
from typing import Any

import msgspec

from berth.plugin import SUCCESS, Handle, NotFound, ObjectKey, Pod, ResourceClaim, Status, error

from ...kube.devices import (
    FINALIZER,
    AllocationResult,
    InFlightAllocation,
    ResourceClaimConsumerReference,
)
from ...kube.meta import ObjectMeta, key
from ...kube.times import rfc3339
from .extended import UNWRITTEN
from .features import Features
from .pod_claims import (
    BindingFailedError,
    has_binding_conditions,
    is_ready,
    is_reserved_for,
    prepared_by,
)
from .state import PodClaims, Reservation

TRIES = 5
# kube-scheduler looks at the claims so often, in seconds, and notices then that the time to prepare
# the devices of one is over.
LOOK_SECONDS = 5.0
# How long to wait until the informer has a claim that was just created.
CREATED_SECONDS = 120.0
# The waits between the attempts to undo the writes, in seconds, while the API server refuses or
# does not answer. They add up to more than a minute, the time that it gives a request.
PATIENCE = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class DeviceBinding:
    """The writer of allocations. PreBind waits `timeout` seconds for devices to be prepared."""

    def __init__(self, handle: Handle, timeout: float, features: Features) -> None:
        self._handle = handle
        self._timeout = timeout
        self._waits = features.binding_conditions

    # --------------------------------------------------------------------------------- reservations

    def reserve(self, pod: PodClaims, claim: ResourceClaim, allocation: AllocationResult) -> None:
        in_flight = InFlightAllocation(
            metadata=ObjectMeta(name=claim.metadata.uid), results=allocation.devices.results
        )
        pod.reservations[claim.metadata.uid] = Reservation(claim, allocation, in_flight)
        self._handle.objects.assume(in_flight)

    def unreserve(self, pod: PodClaims) -> None:
        """Gives back the devices of claims that PreBind has not begun to write. `roll_back` handles
        the others.
        """
        for uid, reservation in [*pod.reservations.items()]:
            if uid not in pod.written:
                del pod.reservations[uid]
                self._handle.objects.restore(reservation.in_flight)

    # -------------------------------------------------------------------------------------- PreBind

    async def bind(self, pod: PodClaims, node: str) -> Status:
        """Writes the reservations, and waits until the devices are prepared."""
        try:
            for index, claim in enumerate(pod.claims):
                if not is_reserved_for(pod.info.pod, claim):
                    pod.claims[index] = written = await self._write(pod, claim)
                    self._settle(pod, claim.metadata.uid, written)
            await self._bind_extended(pod)
        except _WriteError as problem:
            return error(str(problem))
        if self._waits and any(has_binding_conditions(claim) for claim in pod.all_claims):
            return await self._waited(pod)
        return SUCCESS

    def _settle(self, pod: PodClaims, uid: str, written: ResourceClaim) -> None:
        """Makes the written claim hold the devices, and ends the allocation in flight."""
        self._handle.objects.assume(written)
        reservation = pod.reservations.pop(uid, None)
        if reservation is not None:
            self._handle.objects.restore(reservation.in_flight)

    async def _bind_extended(self, pod: PodClaims) -> None:
        """Creates the claim for the pod's extended resources, and notes it in the pod's status."""
        claim = pod.extended
        reservation = None if claim is None else pod.reservations.get(claim.metadata.uid)
        if claim is None or reservation is None:
            return
        uid = claim.metadata.uid
        pod.written[uid] = ""
        created = await self._handle.api.create(
            ResourceClaim, _new(reservation.claim), claim.metadata.namespace
        )
        self._handle.measures.claim_created(success=not isinstance(created, Status))
        if isinstance(created, Status):
            raise _WriteError(
                f"create claim for extended resources {claim.metadata.namespace}/: "
                f"{created.message}"
            )
        pod.extended = created
        pod.reservations[created.metadata.uid] = pod.reservations[uid]
        pod.extended = written = await self._write(pod, created)
        del pod.reservations[created.metadata.uid]
        status = await self._handle.api.patch(
            Pod,
            pod.info.pod.metadata.name,
            {"status": {"extendedResourceClaimStatus": _extended_status(pod, written)}},
            pod.info.pod.metadata.namespace,
            "status",
        )
        if isinstance(status, Status):
            raise _WriteError(
                f"update pod {pod.info.key} ExtendedResourceClaimStatus: {status.message}"
            )
        await self._listed(written)
        self._settle(pod, uid, written)

    async def _listed(self, claim: ResourceClaim) -> None:
        """Returns once the informer has the claim: only then can it be assumed."""
        name, namespace = claim.metadata.name, claim.metadata.namespace

        def check() -> Status | Sequence[ObjectKey]:
            if self._handle.objects.get(ResourceClaim, name, namespace) is not None:
                return SUCCESS
            return [(ResourceClaim, namespace, name)]

        await self._handle.objects.wait_for(check, CREATED_SECONDS)

    # ------------------------------------------------------------------------------ writing a claim

    async def _write(self, pod: PodClaims, claim: ResourceClaim) -> ResourceClaim:
        """Writes the allocation and the reservation of one claim. Raises _WriteError.

        After a refusal, reads the claim, and tries again if it has changed.
        """
        pod.written.setdefault(claim.metadata.uid, "")
        reservation = pod.reservations.get(claim.metadata.uid)
        allocation = None if reservation is None else reservation.allocation
        refused = ""
        for _ in range(TRIES):
            if refused:
                latest = await self._latest(claim)
                if latest.metadata.resource_version == claim.metadata.resource_version:
                    break
                claim = latest
                if is_reserved_for(pod.info.pod, claim) and _has(claim, allocation):
                    return claim  # The answer was lost, not the write.
            answer = await self._try(pod, claim, allocation)
            if isinstance(answer, ResourceClaim):
                return answer
            refused = answer
        raise _WriteError(refused)

    async def _latest(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim.metadata
        latest = await self._handle.api.get(ResourceClaim, metadata.name, metadata.namespace)
        if isinstance(latest, Status):
            raise _WriteError(f"get updated claim {key(claim)} after conflict: {latest.message}")
        if latest.metadata.uid != metadata.uid:
            raise _WriteError(f"claim {key(claim)} got deleted in the meantime")
        return latest

    async def _try(
        self, pod: PodClaims, claim: ResourceClaim, allocation: AllocationResult | None
    ) -> ResourceClaim | str:
        """Returns the claim as it was written, or why it was refused. Raises _WriteError."""
        if claim.metadata.deletion_timestamp is not None:
            raise _WriteError(f"claim {key(claim)} got deleted in the meantime")
        if allocation is not None and claim.status.allocation is not None:
            raise _WriteError(f"claim {key(claim)} got allocated elsewhere in the meantime")
        if allocation is None and claim.status.allocation is None:
            raise _WriteError(f"claim {key(claim)} got deallocated elsewhere in the meantime")
        if allocation is not None and FINALIZER not in claim.metadata.finalizers:
            finalizers = [*claim.metadata.finalizers, FINALIZER]
            answer = await self._patch(claim, {"finalizers": finalizers})
            if isinstance(answer, Status):
                return f"add finalizer to claim {key(claim)}: {answer.message}"
            claim = answer
        metadata = pod.info.pod.metadata
        user = ResourceClaimConsumerReference(resource="pods", name=metadata.name, uid=metadata.uid)
        users = (*claim.status.reserved_for, user)
        now = rfc3339(self._handle.wall())
        if allocation is not None:
            if self._waits:
                allocation = msgspec.structs.replace(allocation, allocation_timestamp=now)
            pod.written[claim.metadata.uid] = claim.metadata.resource_version
            answer = await self._allocate(claim, allocation, users)
        else:
            status: dict[str, Any] = {"reservedFor": msgspec.to_builtins(users)}
            current = claim.status.allocation
            if self._waits and (current is None or current.allocation_timestamp is None):
                status["allocation"] = {"allocationTimestamp": now}
            answer = await self._patch(claim, {}, status)
        if isinstance(answer, Status):
            what = "reservation" if allocation is None else "allocation and reservation"
            return f"add {what} to claim {key(claim)}: {answer.message}"
        return answer

    async def _allocate(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult,
        users: Sequence[ResourceClaimConsumerReference],
    ) -> ResourceClaim | Status:
        """Writes the whole status, because a merge patch would lose the nulls of opaque parameters.

        A claim without an allocation has nothing else in its status.
        """
        metadata = claim.metadata
        body = {
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "status": {
                "allocation": allocation,
                "reservedFor": users,
            },
        }
        return await self._handle.api.update(
            ResourceClaim, metadata.name, body, metadata.namespace, "status"
        )

    async def _patch(
        self,
        claim: ResourceClaim,
        changes: Mapping[str, Any],
        status: Mapping[str, Any] | None = None,
    ) -> ResourceClaim | Status:
        """Changes the metadata of a claim, or its status, if `claim` is the latest version."""
        metadata = claim.metadata
        body: dict[str, Any] = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                **changes,
            }
        }
        if status is not None:
            body["status"] = status
        return await self._handle.api.patch(
            ResourceClaim,
            metadata.name,
            body,
            metadata.namespace,
            "" if status is None else "status",
        )

    # --------------------------------------------------------------------------- binding conditions

    async def _waited(self, pod: PodClaims) -> Status:
        """Runs `_prepared`, and counts the outcome and the time for each driver."""
        began = self._handle.now()
        status, outcome = await self._prepared(pod)
        seconds = self._handle.now() - began
        allocations = [claim.status.allocation for claim in pod.all_claims]
        devices = [d for each in allocations if each is not None for d in each.devices.results]
        self._handle.measures.devices_bound(
            pod.info.pod.spec.scheduler_name,
            [device.driver for device in devices],
            [device.driver for device in devices if device.binding_conditions],
            outcome,
            seconds,
        )
        return status

    async def _prepared(self, pod: PodClaims) -> tuple[Status, str]:
        """Waits until the drivers report that all devices of the pod are prepared. Returns the
        status, and the outcome in the words of kube-scheduler's metrics.
        """

        def check() -> Status | Sequence[ObjectKey]:
            unready = self._unready(pod)
            if not isinstance(unready, list):
                return unready[0]
            return [(ResourceClaim, c.metadata.namespace, c.metadata.name) for c in unready]

        now, wall = self._handle.now, self._handle.wall
        # Monotonic deadlines by the times of day in claims, each compared only once: the time of
        # day may be set meanwhile.
        began = now()
        deadlines: dict[datetime | None, float] = {None: began + self._timeout}
        while isinstance(unready := self._unready(pod), list):
            ends = [prepared_by(claim, self._timeout) for claim in unready]
            for end in ends:
                if end is not None and end not in deadlines:
                    seconds = now() - began + (end - wall()).total_seconds()
                    looks = max(0, math.ceil(seconds / LOOK_SECONDS))
                    deadlines[end] = began + looks * LOOK_SECONDS
            first = min((None, *ends), key=deadlines.__getitem__)
            left = deadlines[first] - now()
            if left <= 0:
                late = "context deadline exceeded"
                if first is not None:
                    late = f"claim={unready[ends.index(first)].metadata.name}"
                return error(f"device binding timeout: {late}"), "timeout"
            await self._handle.objects.wait_for(check, left)
        return unready

    def _unready(self, pod: PodClaims) -> tuple[Status, str] | list[ResourceClaim]:
        """Returns the claims whose devices are not prepared. If there are none, or if a device
        failed, returns the status and the outcome for `_prepared` instead.
        """
        unready = []
        for claim in pod.all_claims:
            name, namespace = claim.metadata.name, claim.metadata.namespace
            latest = self._handle.objects.get(ResourceClaim, name, namespace)
            if latest is None:
                return error(f'could not find ResourceClaim "{key(claim)}"'), "error"
            try:
                if not is_ready(latest):
                    unready.append(latest)
            except BindingFailedError as problem:
                return error(str(problem)), "failure"
        return unready or (SUCCESS, "success")

    # -------------------------------------------------------------------------------------- undoing

    async def roll_back(self, pod: PodClaims) -> None:
        """Takes the pod out of the claims that were written for it, deletes the claim for its
        extended resources, and gives back the devices that no claim holds.

        An allocation stays with its claim, for the next attempt.
        """
        for claim in pod.claims:
            uid = claim.metadata.uid
            if uid in pod.written or is_reserved_for(pod.info.pod, claim):
                latest = await self._without_reservation(pod, claim)
                if latest is not None:
                    self._handle.objects.assume(latest)
            reservation = pod.reservations.pop(uid, None)
            if reservation is not None:
                self._handle.objects.restore(reservation.in_flight)
        if pod.extended is not None and pod.extended.metadata.name != UNWRITTEN:
            await self._delete(pod, pod.extended)
        for reservation in pod.reservations.values():
            self._handle.objects.restore(reservation.in_flight)
        pod.reservations.clear()

    async def _without_reservation(
        self, pod: PodClaims, claim: ResourceClaim
    ) -> ResourceClaim | None:
        """Returns the claim without the pod's reservation; None if it is gone or cannot be read.

        A write of an allocation whose answer was lost may still arrive. It names a version of the
        claim, so it is refused once the claim has changed: the finalizer, which belongs to an
        allocation, is taken away.
        """
        last_seen, consumer = None, pod.info.pod
        for tries, seconds in enumerate(_waits(pod, claim), start=1):
            latest = await self._current(claim, seconds)
            if isinstance(latest, Status):
                continue
            if latest is None:
                return None
            metadata = latest.metadata
            if is_reserved_for(consumer, latest):
                users = [u for u in latest.status.reserved_for if u.uid != consumer.metadata.uid]
                answer = await self._patch(
                    latest, {}, {"reservedFor": msgspec.to_builtins(users) or None}
                )
            elif metadata.resource_version == pod.written.get(metadata.uid):
                answer = await self._patch(latest, {"finalizers": without_finalizer(latest)})
            else:
                return latest
            if isinstance(answer, ResourceClaim):
                return answer
            last_seen = latest
            if tries >= len(PATIENCE):
                break
        return last_seen

    async def _delete(self, pod: PodClaims, claim: ResourceClaim) -> None:
        """Deletes a claim, and its finalizer, which would keep it."""
        for tries, seconds in enumerate(_waits(pod, claim), start=1):
            latest = await self._current(claim, seconds)
            if isinstance(latest, Status):
                continue
            if latest is None or await self._deleted(latest) or tries >= len(PATIENCE):
                return

    async def _deleted(self, claim: ResourceClaim) -> bool:
        """Deletes a claim that was just read. True if that is done."""
        metadata = claim.metadata
        if FINALIZER in metadata.finalizers:
            answer = await self._patch(claim, {"finalizers": without_finalizer(claim)})
            if isinstance(answer, Status):
                return False
        if metadata.deletion_timestamp is not None:
            return True
        deleted = await self._handle.api.delete(
            ResourceClaim, metadata.name, metadata.namespace, metadata.uid
        )
        return deleted.ok

    async def _current(self, claim: ResourceClaim, seconds: float) -> ResourceClaim | Status | None:
        """Returns the claim as the API server has it after this wait: None if it is gone, a status
        if the API server does not say.
        """
        metadata = claim.metadata
        name, namespace = metadata.name, metadata.namespace
        if seconds:
            await self._handle.objects.wait_for(lambda: [(ResourceClaim, namespace, name)], seconds)
        current = await self._handle.api.get(ResourceClaim, name, namespace)
        if isinstance(current, NotFound):
            return None
        if isinstance(current, Status) or current.metadata.uid == metadata.uid:
            return current
        return None


class _WriteError(Exception):
    """A claim cannot be written; the message says why."""


def _waits(pod: PodClaims, claim: ResourceClaim) -> Iterable[float]:
    """Returns the waits before the attempts to undo a write. They do not end if devices are in
    flight for the claim: these are kept from other claims until the claim can be read.
    """
    is_open = claim.metadata.uid in pod.reservations
    return chain(PATIENCE, repeat(PATIENCE[-1])) if is_open else PATIENCE


def without_finalizer(claim: ResourceClaim) -> list[str]:
    return [name for name in claim.metadata.finalizers if name != FINALIZER]


def _has(claim: ResourceClaim, allocation: AllocationResult | None) -> bool:
    """True if the claim has this allocation, or has any if `allocation` is None."""
    current = claim.status.allocation
    if current is None or allocation is None:
        return current is not None
    return current.devices.results == allocation.devices.results


def _new(claim: ResourceClaim) -> dict[str, Any]:
    """Returns the body that creates the claim for extended resources."""
    metadata = msgspec.structs.replace(claim.metadata, name="", uid="")
    return {
        "metadata": msgspec.to_builtins(metadata),
        "spec": msgspec.to_builtins(claim.spec),
    }


def _extended_status(pod: PodClaims, claim: ResourceClaim) -> dict[str, Any]:
    return {
        "resourceClaimName": claim.metadata.name,
        "requestMappings": [
            {
                "containerName": mapping.container,
                "resourceName": mapping.resource,
                "requestName": mapping.request,
            }
            for mapping in pod.mappings
        ],
    }
