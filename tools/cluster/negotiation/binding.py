"""The writes of PreBind: proposals to the drivers, then the reservations of allocated claims.

The plugin's Reserve may not wait, so proposals are written here. The attempt then ends as pending,
and the pod is tried again until the drivers have allocated all its claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from berth.plugin import SUCCESS, Code, Handle, NotFound, Pod, Status, error

from .claims import is_owned_by, is_reserved_for, key, may_reserve
from .kinds import (
    PodSchedulingContext,
    PodSchedulingContextSpec,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from .state import PodNegotiation

TRIES = 5
# The waits between the attempts to undo the writes, in seconds, while the API server refuses or
# does not answer.
PATIENCE = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def waiting_status(proposal: PodSchedulingContextSpec) -> Status:
    """Returns the status of a pod that waits for the drivers' answers to a proposal."""
    awaited = "allocate resource" if proposal.selected_node else "provide information"
    return Status(Code.PENDING, (f"waiting for resource driver to {awaited}",))


class NegotiatedBinding:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, pod: PodNegotiation) -> Status:
        """Publishes a new proposal, or reserves the claims, which ends the negotiation."""
        if pod.proposal is not None:
            status = await self._publish(pod.pod, pod.context, pod.proposal)
            return waiting_status(pod.proposal) if status.ok else status
        for entry in pod.entries:
            if not is_reserved_for(pod.pod, entry.claim):
                pod.written.append(entry.claim)
                status = await self._reserve(pod.pod, entry.claim)
                if not status.ok:
                    return status
        if any(entry.is_delayed for entry in pod.entries):
            # The informer may not have the context. If it cannot be deleted, it goes with the pod.
            metadata = pod.pod.metadata
            await self._handle.api.delete(PodSchedulingContext, metadata.name, metadata.namespace)
        return SUCCESS

    # ---------------------------------------------------------------------------------- proposals

    async def _publish(
        self, pod: Pod, context: PodSchedulingContext | None, proposal: PodSchedulingContextSpec
    ) -> Status:
        api, name, namespace = self._handle.api, pod.metadata.name, pod.metadata.namespace
        spec = msgspec.to_builtins(proposal)
        if context is None:
            created = await api.create(PodSchedulingContext, _new(pod, spec), namespace)
            if not isinstance(created, Status):
                return SUCCESS
            # An earlier attempt may have created it, but the informer may not have it yet.
            latest = await api.get(PodSchedulingContext, name, namespace)
            if isinstance(latest, Status) or not is_owned_by(latest, pod):
                return error(f"create PodSchedulingContext {key(pod.metadata)}: {created.message}")
            context = latest
        body = {"metadata": {"uid": context.metadata.uid}, "spec": spec}
        written = await api.patch(PodSchedulingContext, name, body, namespace)
        if isinstance(written, Status):
            return error(f"update PodSchedulingContext {key(pod.metadata)}: {written.message}")
        self._handle.objects.assume(written)
        return SUCCESS

    # ------------------------------------------------------------------------------- reservations

    async def _reserve(self, pod: Pod, claim: ResourceClaim) -> Status:
        """Adds the pod to an allocated claim. After a refusal, reads the claim, and tries again if
        it has changed.
        """
        decided_on, refused = claim.status.allocation, ""
        for _ in range(TRIES):
            if refused:
                latest = await self._latest(claim)
                if isinstance(latest, Status):
                    why = f"after conflict: {latest.message}"
                    return error(f"get updated claim {key(claim.metadata)} {why}")
                if latest.metadata.resource_version == claim.metadata.resource_version:
                    break
                claim = latest
            status = claim.status
            if status.allocation != decided_on or status.deallocation_requested:
                return error(f"claim {key(claim.metadata)} got reallocated in the meantime")
            if is_reserved_for(pod, claim):
                return SUCCESS
            if not may_reserve(claim):
                return error(f"claim {key(claim.metadata)} got reserved elsewhere in the meantime")
            user = ResourceClaimConsumerReference(
                resource="pods", name=pod.metadata.name, uid=pod.metadata.uid
            )
            written = await self._write(claim, [*status.reserved_for, user])
            if not isinstance(written, Status):
                self._handle.objects.assume(written)
                return SUCCESS
            refused = written.message
        return error(f"reserve claim {key(claim.metadata)}: {refused}")

    async def roll_back(self, pod: PodNegotiation) -> None:
        """Removes the pod from the claims that were written for it. They stay allocated."""
        for claim in pod.written:
            for seconds in PATIENCE:
                latest = await self._latest(claim, seconds)
                if isinstance(latest, NotFound):
                    break
                if isinstance(latest, Status):
                    continue
                uid = pod.pod.metadata.uid
                users = [user for user in latest.status.reserved_for if user.uid != uid]
                if len(users) == len(latest.status.reserved_for):
                    break
                written = await self._write(latest, users)
                if not isinstance(written, Status):
                    self._handle.objects.assume(written)
                    break

    async def _latest(self, claim: ResourceClaim, seconds: float = 0.0) -> ResourceClaim | Status:
        """Returns the claim as the API server has it after this wait."""
        metadata = claim.metadata
        name, namespace = metadata.name, metadata.namespace
        if seconds:
            await self._handle.objects.wait_for(lambda: [(ResourceClaim, namespace, name)], seconds)
        latest = await self._handle.api.get(ResourceClaim, name, namespace)
        if not isinstance(latest, Status) and latest.metadata.uid != metadata.uid:
            return NotFound(Code.ERROR, ("it was deleted",))
        return latest

    async def _write(
        self, claim: ResourceClaim, users: Sequence[ResourceClaimConsumerReference]
    ) -> ResourceClaim | Status:
        """Replaces the users of a claim, if `claim` is still the latest version."""
        metadata = claim.metadata
        body = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": {"reservedFor": msgspec.to_builtins(users) or None},
        }
        return await self._handle.api.patch(
            ResourceClaim, metadata.name, body, metadata.namespace, "status"
        )


def _new(pod: Pod, spec: Mapping[str, Any]) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
    }
    return {"metadata": {"name": pod.metadata.name, "ownerReferences": [owner]}, "spec": spec}
