"""AllocatedState: the devices that claims hold, so that no other claim gets them.

A claim holds a device from Reserve on: at first by an InFlightAllocation, and once PreBind has
written it, by the allocation in its status. Mirrors AllocatedState of the allocator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ...kube.devices import DeviceRequestAllocationResult
from ...kube.quantity import nano_value
from .pools import DeviceID


class DeviceAllocation(msgspec.Struct, frozen=True):
    """A device, or a share of one, that a claim holds. Amounts of capacity are in billionths."""

    device: DeviceID
    share_id: str | None
    consumed_capacity: tuple[tuple[str, int], ...]


def device_allocations(
    results: Iterable[DeviceRequestAllocationResult],
) -> frozenset[DeviceAllocation]:
    """Returns the devices that an allocation keeps from other claims: none for admin access."""
    return frozenset(
        DeviceAllocation(
            (result.driver, result.pool, result.device),
            result.share_id,
            ()
            if result.share_id is None
            else tuple(sorted((n, nano_value(a)) for n, a in result.consumed_capacity.items())),
        )
        for result in results
        if not result.admin_access
    )


class AllocatedState:
    """The number of claims that hold each device, and the capacity that they consume of shared
    devices. `whole` has the devices that a claim holds for itself.
    """

    def __init__(self) -> None:
        self.whole: dict[DeviceID, int] = {}
        self._shares: dict[DeviceID, int] = {}
        self._consumed_capacity: dict[DeviceID, dict[str, int]] = {}

    def is_shared(self, device: DeviceID) -> bool:
        """True if a claim holds a share of the device, even one that takes no capacity."""
        return device in self._shares or device in self._consumed_capacity

    def is_allocated(self, device: DeviceID) -> bool:
        """True if a claim holds the device, or a share of it."""
        return device in self.whole or device in self._shares or device in self._consumed_capacity

    def consumed_capacity(self, device: DeviceID) -> Mapping[str, int]:
        """Returns the capacity of the device that claims consume, in billionths."""
        return self._consumed_capacity.get(device, {})

    def add(self, allocation: DeviceAllocation) -> None:
        self._count(allocation, 1)

    def remove(self, allocation: DeviceAllocation) -> None:
        self._count(allocation, -1)

    def _count(self, allocation: DeviceAllocation, sign: int) -> None:
        device = allocation.device
        counts = self.whole if allocation.share_id is None else self._shares
        number = counts.get(device, 0) + sign
        if number:
            counts[device] = number
        else:
            del counts[device]
        if not allocation.consumed_capacity:
            return
        consumed = self._consumed_capacity.setdefault(device, {})
        for name, amount in allocation.consumed_capacity:
            consumed[name] = consumed.get(name, 0) + sign * amount
        if sign < 0 and not any(consumed.values()):
            del self._consumed_capacity[device]
