"""The devices that claims hold, and the claims that the scheduler made for pods."""

from __future__ import annotations

from collections.abc import Iterable

from berth.plugin import ResourceClaim

from ...kube.devices import DeviceRequestAllocationResult
from ...model.cluster_objects import ObjectName
from .allocated_state import AllocatedState, DeviceAllocation, device_allocations
from .pod_claims import extended_owner
from .pools import DeviceID

Results = tuple[DeviceRequestAllocationResult, ...]
# The results of an allocation, and what they keep from other claims.
Held = tuple[Results, frozenset[DeviceAllocation]]
_NOTHING: Held = ((), frozenset())


class HeldDevices:
    """`allocated_state` has the held devices. `claims` and `in_flight` are what each claim holds,
    as it is written and while it is not. `extended_claims` are the claims for extended resources by
    the uid of their pod.
    """

    def __init__(self) -> None:
        self.allocated_state = AllocatedState()
        self.claims: dict[ObjectName, Held] = {}
        self.in_flight: dict[ObjectName, Held] = {}
        self.extended_claims: dict[str, ObjectName] = {}
        self._owner_of: dict[ObjectName, str] = {}
        self._holders: dict[DeviceAllocation, int] = {}  # the number of claims, and in flight

    def follow(
        self,
        in_flight: Iterable[tuple[ObjectName, Results]],
        claims: Iterable[tuple[ObjectName, ResourceClaim | None]],
    ) -> list[DeviceID]:
        """Takes the allocations that changed, and the claims; None for a claim that is gone.
        Returns the devices of which claims hold more or less.

        What a claim no longer holds is free after all are read, so that an allocation that is
        written, and no longer in flight, changes nothing.
        """
        more: list[DeviceAllocation] = []
        less: list[DeviceAllocation] = []
        for name, results in in_flight:
            self._hold(self.in_flight, name, results, more, less)
        for name, claim in claims:
            allocation = None if claim is None else claim.status.allocation
            results = () if allocation is None else allocation.devices.results
            self._hold(self.claims, name, results, more, less)
            self._note_owner(name, claim)
        for freed in less:
            self._holders[freed] -= 1
            if not self._holders[freed]:
                del self._holders[freed]
                self.allocated_state.remove(freed)
                more.append(freed)
        return [allocation.device for allocation in more]

    def _hold(
        self,
        held: dict[ObjectName, Held],
        name: ObjectName,
        results: Results,
        more: list[DeviceAllocation],
        less: list[DeviceAllocation],
    ) -> None:
        """Notes what a claim holds now, and what it holds `more` and `less` than before."""
        earlier, before = held.get(name, _NOTHING)
        if earlier == results:
            return
        allocations = device_allocations(results)
        if results:
            held[name] = results, allocations
        else:
            del held[name]
        less += before - allocations
        for allocation in allocations - before:
            number = self._holders[allocation] = self._holders.get(allocation, 0) + 1
            if number == 1:
                self.allocated_state.add(allocation)
                more.append(allocation)

    def _note_owner(self, name: ObjectName, claim: ResourceClaim | None) -> None:
        """Notes the pod for whose extended resources the scheduler made the claim, if it did."""
        before = self._owner_of.get(name, "")
        owner = "" if claim is None else extended_owner(claim)
        if before == owner:
            return
        if before:
            del self._owner_of[name], self.extended_claims[before]
        if owner:
            self._owner_of[name] = owner
            self.extended_claims[owner] = name
