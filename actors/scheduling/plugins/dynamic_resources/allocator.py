"""The allocator: chooses the devices of claims on one node, depth first; the first solution wins.

All requests are tried with all devices in order, but the devices of one request never in two
orders. Mirrors allocateOne and allocateDevice of the allocator that the default feature gates
select, but for what it leaves behind: a device that is refused, or tried in vain, changes nothing
of the search, neither counters nor constraints nor capacity.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...cel import CelError
from ...kube.devices import MOST_RESULTS
from ...kube.quantity import nano_value
from ..steps import Steps, TimedOutError
from .constraints import Constraint, constraint_of
from .consumed_capacity import CapacityAmount
from .device_answers import RUNTIME_ERROR
from .inventory import Inventory
from .pools import CounterID, DeviceID, NodePools, Pool, PoolID, SliceDevice
from .requests import AllocationError, ClaimRequests, SubRequest

Candidate = tuple[SliceDevice, Pool]
# Steps for what takes longer than a look at a device.
NODE_STEPS, CALL_STEPS, DEVICE_STEPS, CONSTRAINT_STEPS, EACH_STEPS = 40, 4, 8, 4, 2
COUNTERS_PER_STEP = 4


_MISSING_KEY_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
    "has() for optional fields"
)


class DeviceResult(msgspec.Struct, frozen=True):
    """A device that is allocated to a request of a claim. `consumed_capacity` is set for a shared
    device, and None for a device that the claim has for itself.
    """

    device: SliceDevice
    sub_request: SubRequest
    consumed_capacity: Mapping[str, CapacityAmount] | None


# For each claim in order, its devices in the order in which they were allocated.
DeviceResults = tuple[tuple[DeviceResult, ...], ...]


class UnreadyPool(msgspec.Struct, frozen=True):
    """A pool that cannot be used now, of which a request of a claim, number `claim`, needs all
    devices. `detail` says what is wrong with the pool.
    """

    claim: int
    request: str
    pool: str
    incomplete: bool
    detail: str

    def message(self, claim: str) -> str:
        """Returns kube-scheduler's message about the claim of this name."""
        state = "currently being updated" if self.incomplete else "currently invalid"
        return (
            f"claim {claim}, request {self.request}: asks for all devices, "
            f"but resource pool {self.pool} is {state}"
        )


class AllocatorResult(msgspec.Struct, frozen=True):
    """The devices of all claims on a node. `devices` is None if the claims cannot be allocated
    there. The reason is `unready` if it is set; invalid pools may be the reason if `invalid_pools`
    is true.
    """

    devices: DeviceResults | None
    invalid_pools: bool = False
    unready: UnreadyPool | None = None


class _Result(enum.Enum):
    DONE = enum.auto()
    NOT = enum.auto()
    TOO_MANY = enum.auto()  # more devices than a claim may hold: fewer might do


# A part of the search. It yields the part whose result it needs next, or None if no steps are left.
_Part = Generator["_Part | None", _Result, _Result]


def _with_device(place: str, problem: str, device: SliceDevice) -> str:
    """Returns the error of a selector with the device on which it failed, and what may help."""
    if not problem.startswith(RUNTIME_ERROR):
        return f"{place}: {problem}"
    hint = _MISSING_KEY_HINT if "no such key:" in problem else ""
    return f"{place} on device {device}: {problem}{hint}"


def allocate(
    claims: Sequence[ClaimRequests], pools: NodePools, inventory: Inventory, steps: Steps
) -> AllocatorResult:
    """Allocates devices to all claims together. Raises AllocationError and TimedOutError."""
    return Search(claims, pools, inventory).run(steps)


class Search:
    """The search for the devices of claims on one node.

    It can go on where it was interrupted, as long as neither the node's pools nor the devices that
    claims hold change. Claims, requests and devices are named by their positions `c`, `r` and `d`.

    `_parts` is a stack of the parts of the search, each of which waits for the result of the next
    one; the depth of the search is not limited by the depth of Python's stack. `_all_devices` has
    the devices of each sub-request that needs all devices. `_allocating_devices` has the claims
    that would get each device for themselves, `_shares` the number of times that they would share
    each other device, and `_allocating_capacity` the capacity that they would consume of it.
    """

    def __init__(
        self, claims: Sequence[ClaimRequests], pools: NodePools, inventory: Inventory
    ) -> None:
        self._results: list[list[DeviceResult]] = [[] for _ in claims]
        self._claims = claims
        self._pools = pools
        self._inventory = inventory
        self._allocated = inventory.allocated_state
        self._taken = self._allocated.whole
        self._features = inventory.features
        self._constraints: list[list[Constraint]] = []
        self._all_devices: dict[SubRequest, list[Candidate]] = {}
        self._allocating_devices: dict[DeviceID, set[int]] = {}
        self._shares: dict[DeviceID, int] = {}
        self._allocating_capacity: dict[DeviceID, dict[str, int]] = {}
        self._consumed_counters: dict[PoolID, dict[CounterID, int]] = {}
        self._unready: UnreadyPool | None = None
        self._parts: list[_Part] = [self._search()]

    @property
    def depth(self) -> int:
        return len(self._parts)

    def run(self, steps: Steps) -> AllocatorResult:
        """Continues the search. Raises AllocationError, and TimedOutError if it has to be run
        again.
        """
        if self._pools.problem:
            raise AllocationError(self._pools.problem)
        self._steps = steps
        self._step = steps.take
        parts = self._parts
        result: Any = None
        while parts:
            try:
                part = parts[-1].send(result)
            except StopIteration as end:
                parts.pop()
                result = end.value
            else:
                if part is None:
                    raise TimedOutError
                parts.append(part)
                result = None
        if result is _Result.TOO_MANY:
            raise AllocationError("allocation max size exceeded")
        if result is _Result.NOT:
            return AllocatorResult(None, self._pools.any_invalid, self._unready)
        return AllocatorResult(tuple([tuple(results) for results in self._results]))

    def _search(self) -> _Part:
        if self._step(NODE_STEPS):
            yield None
        for c, claim in enumerate(self._claims):
            least = 0
            for request in claim.requests:
                numbers = []
                for sub_request in request.sub_requests:
                    if self._step(CALL_STEPS):
                        yield None
                    if sub_request.problem:
                        raise AllocationError(sub_request.problem)
                    if sub_request.all_devices:
                        yield from self._find_all(c, sub_request)
                        if self._unready is not None:
                            return _Result.NOT
                    numbers.append(self._number(sub_request))
                least += min(numbers)
            if least > MOST_RESULTS:
                raise AllocationError(
                    f"claim {claim.name}: number of requested devices {least} "
                    f"exceeds the claim limit of {MOST_RESULTS}"
                )
            self._constraints.append([])
            for number, spec in enumerate(claim.constraints):
                constraint = constraint_of(spec)
                if constraint is None:
                    unknown = "empty constraint (unsupported constraint type?)"
                    raise AllocationError(f"claim {claim.name}, constraint #{number}: {unknown}")
                self._constraints[-1].append(constraint)
        return (yield self._claim(0))

    # ------------------------------------------------------------------------ before the recursion

    def _find_all(self, c: int, sub_request: SubRequest) -> Iterator[None]:
        """Finds the devices of a sub-request that needs all devices, or a pool that it has to wait
        for.
        """
        devices = self._all_devices[sub_request] = []
        for pool in self._pools.pools:
            if not pool.usable:
                why, incomplete = pool.incomplete or pool.invalid, bool(pool.incomplete)
                self._unready = UnreadyPool(c, sub_request.name, str(pool), incomplete, why)
                return
            for device in pool.devices:
                if self._step():
                    yield
                while (selectable := self._is_selectable(sub_request, device, pool)) is None:
                    yield
                if selectable and self._has_capacity(sub_request, device):
                    devices.append((device, pool))

    def _number(self, sub_request: SubRequest) -> int:
        """Returns the number of devices that a sub-request needs on this node."""
        devices = self._all_devices.get(sub_request)
        return sub_request.count if devices is None else len(devices)

    def _is_selectable(
        self, sub_request: SubRequest, device: SliceDevice, pool: Pool
    ) -> bool | None:
        """True if a device can be used; None if no steps are left to say so."""
        if device.device.binding_conditions and not self._features.binding_conditions:
            return False
        if sub_request.selectors:
            self._step(len(sub_request.selectors))
        for expression, place in sub_request.selectors:
            try:
                if not self._inventory.matches(expression, device, self._steps):
                    return False
            except TimedOutError:
                return None
            except CelError as failure:
                where = f"slice {device.slice.metadata.name}, device {device}"
                named = self._features.device_in_selector_errors
                problem = (
                    _with_device(place, str(failure), device) if named else f"{place}: {failure}"
                )
                raise AllocationError(problem, where) from None
        return device.id not in pool.not_targeting_node

    # -------------------------------------------------------------------------------- the recursion

    def _claim(self, c: int) -> _Part:
        if c == len(self._claims):
            return _Result.DONE
        result = yield self._request(c, 0)
        # Another choice for an earlier claim may leave this claim a sub-request with fewer devices.
        return _Result.NOT if c and result is _Result.TOO_MANY else result

    def _request(self, c: int, r: int) -> _Part:
        if self._step(CALL_STEPS):
            yield None
        requests = self._claims[c].requests
        if r == len(requests):
            return (yield self._claim(c + 1))
        request = requests[r]
        if not request.is_list:
            return (yield self._devices(c, r, request.sub_requests[0], 0, 0))
        too_many = True
        for sub_request in request.sub_requests:
            result = yield self._devices(c, r, sub_request, 0, 0)
            if result is _Result.DONE:
                return result
            too_many = too_many and result is _Result.TOO_MANY
        return _Result.TOO_MANY if too_many else _Result.NOT

    def _devices(self, c: int, r: int, sub_request: SubRequest, d: int, start: int) -> _Part:
        """Allocates the device with number `d` of a sub-request, and all devices after it."""
        if self._step(CALL_STEPS):
            yield None
        devices = self._all_devices.get(sub_request)
        if devices is not None and not devices:
            return _Result.NOT
        number = self._number(sub_request)
        if d >= number:
            return (yield self._request(c, r + 1))
        if len(self._results[c]) + number - d > MOST_RESULTS:
            return _Result.TOO_MANY
        if devices is not None:
            return (yield self._allocate_all_from(c, r, sub_request, d, devices[d]))
        candidates = self._pools.candidates
        for position in range(start, len(candidates)):
            candidate = device, pool = candidates[position]
            if self._step():
                yield None
            if self._in_use(c, sub_request, device):
                continue
            while (selectable := self._is_selectable(sub_request, device, pool)) is None:
                yield None
            if not selectable or not self._has_capacity(sub_request, device):
                continue
            if not self._allocate_device(c, sub_request, candidate, must=False):
                continue
            result = yield self._devices(c, r, sub_request, d + 1, position + 1)
            if result is _Result.DONE:
                return result
            self._deallocate_device(c, sub_request, candidate)
            if result is not _Result.NOT:
                return result
        return _Result.NOT

    def _allocate_all_from(
        self, c: int, r: int, sub_request: SubRequest, d: int, candidate: Candidate
    ) -> _Part:
        if not self._allocate_device(c, sub_request, candidate, must=True):
            return _Result.NOT
        result = yield self._devices(c, r, sub_request, d + 1, 0)
        if result is not _Result.DONE:
            self._deallocate_device(c, sub_request, candidate)
        return result

    # ----------------------------------------------------------------------------------- one device

    def _in_use(self, c: int, sub_request: SubRequest, device: SliceDevice) -> bool:
        claims = self._allocating_devices.get(device.id)
        if sub_request.admin_access:
            return claims is not None and c in claims
        return bool(claims) or device.id in self._taken

    def _has_capacity(self, sub_request: SubRequest, device: SliceDevice) -> bool:
        if not self._features.consumable_capacity:
            return True
        consumed = self._inventory.consumed_capacity(sub_request, device, self._steps)
        if not consumed:
            return consumed is not None
        self._step(EACH_STEPS * len(consumed))
        allocated = self._allocated.consumed_capacity(device.id)
        allocating = self._allocating_capacity.get(device.id, {})
        return all(
            allocated.get(name, 0) + allocating.get(name, 0) + amount.nano
            <= nano_value(device.device.capacity[name].value)
            for name, amount in consumed.items()
        )

    def _allocate_device(
        self, c: int, sub_request: SubRequest, candidate: Candidate, *, must: bool
    ) -> bool:
        """Allocates a device and returns True, unless a check fails, which changes nothing. The
        order of the checks is that of allocateDevice.
        """
        device, pool = candidate
        if self._in_use(c, sub_request, device):
            return False
        if device.counters and not self._features.partitionable_devices:
            return False
        pays = self._pays_counters(device)
        if pays and not self._consume_counters(device, pool):
            return False
        if not self._is_admitted(c, sub_request, device, must=must):
            if pays:
                self._release_counters(device, pool)
            return False
        consumed = None
        if device.shared:
            consumed = self._inventory.consumed_capacity(sub_request, device, self._steps) or {}
            self._shares[device.id] = self._shares.get(device.id, 0) + 1
            allocating = self._allocating_capacity.setdefault(device.id, {})
            for name, amount in consumed.items():
                allocating[name] = allocating.get(name, 0) + amount.nano
        else:
            self._allocating_devices.setdefault(device.id, set()).add(c)
        self._results[c].append(DeviceResult(device, sub_request, consumed))
        return True

    def _is_admitted(
        self, c: int, sub_request: SubRequest, device: SliceDevice, *, must: bool
    ) -> bool:
        """True if the taints of a device, the constraints of the claim, which count the device from
        then on, and its capacity admit it.
        """
        if device.taints:
            self._step(EACH_STEPS * len(device.taints) * (1 + len(sub_request.tolerations)))
            if any(not sub_request.tolerates(taint) for taint in device.taints):
                return False
        request, sub = sub_request.request_name, sub_request.sub_request_name
        constraints = self._constraints[c]
        self._step(DEVICE_STEPS + CONSTRAINT_STEPS * len(constraints))
        for i, constraint in enumerate(constraints):
            if not constraint.add(request, sub, device.device, device.id[0]):
                if must:
                    raise AllocationError(
                        f"claim {self._claims[c].name}, request {sub_request.name}: cannot add "
                        f"device {device} because a claim constraint would not be satisfied"
                    )
                for earlier in constraints[:i]:
                    earlier.remove(request, sub)
                return False
        if self._has_capacity(sub_request, device):
            return True
        for constraint in constraints:
            constraint.remove(request, sub)
        return False

    def _deallocate_device(self, c: int, sub_request: SubRequest, candidate: Candidate) -> None:
        device, pool = candidate
        for constraint in self._constraints[c]:
            constraint.remove(sub_request.request_name, sub_request.sub_request_name)
        consumed = self._results[c].pop().consumed_capacity
        if consumed is None:
            self._allocating_devices[device.id].discard(c)
        else:
            self._shares[device.id] -= 1
            allocating = self._allocating_capacity[device.id]
            for name, amount in consumed.items():
                allocating[name] -= amount.nano
        if self._pays_counters(device):
            self._release_counters(device, pool)

    # ------------------------------------------------------------------------------------- counters

    def _pays_counters(self, device: SliceDevice) -> bool:
        """True if the device consumes counters once it is allocated. A shared device consumes them
        for the first claim only.
        """
        if not device.counters:
            return False
        return not device.shared or not (
            self._allocated.is_shared(device.id) or self._shares.get(device.id)
        )

    def _consume_counters(self, device: SliceDevice, pool: Pool) -> bool:
        """Consumes the pool's counters for a device. If they do not suffice, consumes nothing and
        returns False.
        """
        consumed = self._consumed_counters.setdefault(pool.id, {})
        for counter, amount in device.counters:
            consumed[counter] = consumed.get(counter, 0) + amount
        available = self._inventory.available_counters(pool)
        self._step(EACH_STEPS * len(device.counters) + len(available) // COUNTERS_PER_STEP)
        if all(amount >= consumed.get(counter, 0) for counter, amount in available.items()):
            return True
        self._release_counters(device, pool)
        return False

    def _release_counters(self, device: SliceDevice, pool: Pool) -> None:
        consumed = self._consumed_counters[pool.id]
        for counter, amount in device.counters:
            consumed[counter] -= amount
