"""The search for the devices of claims on one node: depth first, the first solution wins.

All requests are tried with all devices in order, but the devices of one request never in two
orders. Mirrors allocateOne and allocateDevice of the allocator that the default feature gates
select. Like there, a device that is refused for a taint or a constraint after its counters were
charged stays charged until the search of the node ends; a shared device stays charged once it was
taken, and in use if it has no capacity; and a device whose capacity runs out at the last moment
stays counted by the constraints.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping, Sequence

import msgspec

from ...cel import CelError
from ...kube.devices import MOST_RESULTS
from ...kube.quantity import nano_value
from .amounts import Share, consumed
from .constraints import Constraint, constraint_of
from .inventory import Inventory
from .pools import CounterID, DeviceID, NodePools, Pool, PoolID, SliceDevice
from .steps import Steps, TimedOutError
from .wanted import AllocationError, Alternative, Request, Wanted

Candidate = tuple[SliceDevice, Pool]
# The number of constraints or capacities, and of counters, that are looked at in a step.
MANY, MANY_COUNTERS = 8, 64
FRAMES_BESIDES, MOST_FRAMES = 2000, 50_000

# The devices for which each alternative remembers what it consumes of them.
MOST_DEMANDS = 1 << 16


class Picked(msgspec.Struct, frozen=True):
    """A device for one request of a claim. `shares` is what the claim takes of the capacity of a
    device that is shared, None for a device of its own.
    """

    device: SliceDevice
    alternative: Alternative
    shares: Mapping[str, Share] | None


# For each claim in order, the devices in the order in which they were found.
Found = tuple[tuple[Picked, ...], ...]


class Outcome(msgspec.Struct, frozen=True):
    """`found` is None if the claims cannot be allocated on the node; with `invalid_pools`, perhaps
    because pools are invalid.
    """

    found: Found | None
    invalid_pools: bool = False


class _Result(enum.Enum):
    DONE = enum.auto()
    NOT = enum.auto()
    TOO_MANY = enum.auto()  # more devices than a claim may hold: fewer might do


def search(
    claims: Sequence[Wanted], pools: NodePools, inventory: Inventory, steps: Steps
) -> Outcome:
    """Allocates devices to all claims together. Raises AllocationError and TimedOutError."""
    if pools.problem:
        raise AllocationError(pools.problem)
    running = _Search(claims, pools, inventory, steps)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _frames(claims)))
    try:
        result = running.run()
    except RecursionError:
        raise TimedOutError from None
    finally:
        sys.setrecursionlimit(limit)
    if result is _Result.TOO_MANY:
        raise AllocationError("allocation max size exceeded")
    if result is _Result.NOT:
        return Outcome(None, pools.any_invalid)
    return Outcome(tuple([tuple(picked) for picked in running.picked]))


def _frames(claims: Sequence[Wanted]) -> int:
    """The depth that a search may need: a few calls for each request and device, and some for the
    caller and for selectors.
    """
    each = sum(3 * len(claim.requests) + 2 * MOST_RESULTS + 1 for claim in claims)
    return min(FRAMES_BESIDES + each, MOST_FRAMES)


class _Search:
    def __init__(
        self, claims: Sequence[Wanted], pools: NodePools, inventory: Inventory, steps: Steps
    ) -> None:
        self.picked: list[list[Picked]] = [[] for _ in claims]
        self._claims = claims
        self._pools = pools
        self._inventory = inventory
        self._usage = inventory.usage
        self._features = inventory.features
        self._steps = steps
        self._step = steps.take
        self._constraints: list[list[Constraint]] = []
        self._all: dict[Alternative, list[Candidate]] = {}
        self._holding: dict[DeviceID, set[int]] = {}  # the claims that would get a device
        self._taking: dict[DeviceID, dict[str, int]] = {}  # capacity that they would take
        self._charged: dict[PoolID, dict[CounterID, int]] = {}

    def run(self) -> _Result:
        for claim in self._claims:
            least = sum(self._least_devices(claim, request) for request in claim.requests)
            if least > MOST_RESULTS:
                raise AllocationError(
                    f"claim {claim.name}: number of requested devices {least} "
                    f"exceeds the claim limit of {MOST_RESULTS}"
                )
            self._constraints.append([])
            for number, asked in enumerate(claim.constraints):
                constraint = constraint_of(asked)
                if constraint is None:
                    unknown = "empty constraint (unsupported constraint type?)"
                    raise AllocationError(f"claim {claim.name}, constraint #{number}: {unknown}")
                self._constraints[-1].append(constraint)
        return self._claim(0)

    # --------------------------------------------------------------------------- before the search

    def _least_devices(self, claim: Wanted, request: Request) -> int:
        return min(self._prepare(claim, alternative) for alternative in request.alternatives)

    def _prepare(self, claim: Wanted, alternative: Alternative) -> int:
        """How many devices the alternative needs on this node."""
        if alternative.problem:
            raise AllocationError(alternative.problem)
        if not alternative.all_devices:
            return alternative.count
        found = self._all[alternative] = []
        for pool in self._pools.pools:
            if not pool.usable:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                reason = f" ({pool.invalid})" if pool.invalid else ""
                raise AllocationError(
                    f"claim {claim.name}, request {alternative.name}: asks for all devices, "
                    f"but resource pool {pool} is {state}{reason}"
                )
            self._step(len(pool.devices) // MANY)
            found += [
                (device, pool)
                for device in pool.devices
                if self._is_selectable(alternative, device, pool)
                and self._has_capacity(alternative, device)
            ]
        return len(found)

    def _is_selectable(self, alternative: Alternative, device: SliceDevice, pool: Pool) -> bool:
        if device.device.binding_conditions and not self._features.binding_conditions:
            return False
        for expression, whose in alternative.selectors:
            try:
                if not self._inventory.matches(expression, device, self._steps):
                    return False
            except CelError as failure:
                raise AllocationError(
                    f"{whose}: {failure} (slice {device.slice.metadata.name}, device {device})"
                ) from None
        return device.id not in pool.elsewhere

    # -------------------------------------------------------------------------------- the recursion

    def _claim(self, c: int) -> _Result:
        if c == len(self._claims):
            return _Result.DONE
        result = self._request(c, 0)
        # Another choice for an earlier claim may leave this one an alternative with less devices.
        return _Result.NOT if c and result is _Result.TOO_MANY else result

    def _request(self, c: int, r: int) -> _Result:
        self._step()
        requests = self._claims[c].requests
        if r == len(requests):
            return self._claim(c + 1)
        request = requests[r]
        if not request.is_list:
            return self._devices(c, r, request.alternatives[0], 0, 0)
        too_many = True
        for alternative in request.alternatives:
            result = self._devices(c, r, alternative, 0, 0)
            if result is _Result.DONE:
                return result
            too_many = too_many and result is _Result.TOO_MANY
        return _Result.TOO_MANY if too_many else _Result.NOT

    def _devices(self, c: int, r: int, alternative: Alternative, d: int, start: int) -> _Result:
        """Finds the device with number `d` of an alternative, and all that come after it."""
        self._step()
        every = self._all.get(alternative)
        if every is not None and not every:
            return _Result.NOT
        number = alternative.count if every is None else len(every)
        if d >= number:
            return self._request(c, r + 1)
        if len(self.picked[c]) + number - d > MOST_RESULTS:
            return _Result.TOO_MANY
        if every is not None:
            return self._next(c, r, alternative, d, every[d], must=True, start=0) or _Result.NOT
        candidates = self._pools.candidates
        for position in range(start, len(candidates)):
            device, pool = candidates[position]
            self._step()
            if self._in_use(c, alternative, device):
                continue
            if not self._is_selectable(alternative, device, pool):
                continue
            if not self._has_capacity(alternative, device):
                continue
            result = self._next(
                c, r, alternative, d, candidates[position], must=False, start=position + 1
            )
            if result is not None and result is not _Result.NOT:
                return result
        return _Result.NOT

    def _next(
        self,
        c: int,
        r: int,
        alternative: Alternative,
        d: int,
        candidate: Candidate,
        *,
        must: bool,
        start: int,
    ) -> _Result | None:
        """Takes a device and goes on from there; None if the device cannot be taken."""
        if not self._take(c, alternative, candidate, must=must):
            return None
        result = self._devices(c, r, alternative, d + 1, start)
        if result is not _Result.DONE:
            self._give_back(c, alternative, candidate)
        return result

    # ----------------------------------------------------------------------------------- one device

    def _in_use(self, c: int, alternative: Alternative, device: SliceDevice) -> bool:
        holding = self._holding.get(device.id)
        if alternative.admin_access:
            return holding is not None and c in holding
        return bool(holding) or self._usage.is_taken(device.id)

    def _has_capacity(self, alternative: Alternative, device: SliceDevice) -> bool:
        if not self._features.consumable_capacity:
            return True
        demand = self._demand(alternative, device)
        if not demand:
            return demand is not None
        if len(demand) >= MANY:
            self._step(len(demand) // MANY)
        taken, taking = self._usage.capacity(device.id), self._taking.get(device.id, {})
        return all(
            taken.get(name, 0) + taking.get(name, 0) + share.nano
            <= nano_value(device.device.capacity[name].value)
            for name, share in demand.items()
        )

    @staticmethod
    def _demand(alternative: Alternative, device: SliceDevice) -> dict[str, Share] | None:
        try:
            return alternative.demands[device.content]
        except KeyError:
            if len(alternative.demands) >= MOST_DEMANDS:
                alternative.demands.clear()
            demand = consumed(device.device.capacity, alternative.capacity)
            alternative.demands[device.content] = demand
            return demand

    def _take(self, c: int, alternative: Alternative, candidate: Candidate, *, must: bool) -> bool:
        """Takes a device if nothing speaks against it. The order of the checks, and what a failed
        one leaves behind, are those of allocateDevice.
        """
        device, pool = candidate
        if self._in_use(c, alternative, device):
            return False
        if device.counters and not self._features.partitionable_devices:
            return False
        in_parts = device.shared and (self._usage.is_shared(device.id) or device.id in self._taking)
        if device.counters and not in_parts and not self._charge(device, pool):
            return False
        if any(not alternative.tolerates(taint) for taint in device.taints):
            return False
        request = alternative.parent or alternative.name
        sub_request = alternative.name if alternative.parent else ""
        constraints = self._constraints[c]
        if len(constraints) >= MANY:
            self._step(len(constraints) // MANY)
        for i, constraint in enumerate(constraints):
            if not constraint.add(request, sub_request, device.device, device.id[0]):
                if must:
                    raise AllocationError(
                        f"claim {self._claims[c].name}, request {alternative.name}: cannot add "
                        f"device {device} because a claim constraint would not be satisfied"
                    )
                for added in constraints[:i]:
                    added.remove(request, sub_request)
                return False
        if not device.shared:
            self._holding.setdefault(device.id, set()).add(c)
        if not self._has_capacity(alternative, device):
            return False
        shares = None
        if device.shared:
            shares = self._demand(alternative, device) or {}
            taking = self._taking.setdefault(device.id, {})
            for name, share in shares.items():
                taking[name] = taking.get(name, 0) + share.nano
        self.picked[c].append(Picked(device, alternative, shares))
        return True

    def _give_back(self, c: int, alternative: Alternative, candidate: Candidate) -> None:
        device, pool = candidate
        request = alternative.parent or alternative.name
        sub_request = alternative.name if alternative.parent else ""
        for constraint in self._constraints[c]:
            constraint.remove(request, sub_request)
        picked = self.picked[c].pop()
        if picked.shares is None:
            self._holding[device.id].discard(c)
            self._discharge(device, pool)
            return
        if picked.shares:
            taking = self._taking[device.id]
            for name, share in picked.shares.items():
                taking[name] -= share.nano
            if not any(taking.values()):
                del self._taking[device.id]

    # ------------------------------------------------------------------------------------- counters

    def _charge(self, device: SliceDevice, pool: Pool) -> bool:
        """Charges the pool's counters for a device; False, and nothing charged, if one of them
        would be exceeded.
        """
        charged = self._charged.setdefault(pool.id, {})
        for counter, amount in device.counters:
            charged[counter] = charged.get(counter, 0) + amount
        left = self._inventory.left_of(pool)
        if len(left) >= MANY_COUNTERS:
            self._step(len(left) // MANY_COUNTERS)
        if all(amount >= charged.get(counter, 0) for counter, amount in left.items()):
            return True
        self._discharge(device, pool)
        return False

    def _discharge(self, device: SliceDevice, pool: Pool) -> None:
        if device.counters:
            charged = self._charged[pool.id]
            for counter, amount in device.counters:
                charged[counter] -= amount
