"""The reasons why a node cannot give a pod the devices that it needs, in words.

The plugin's allocator decides; this module asks it about one request at a time, and then about
fewer and fewer requests and constraints together, to find the ones that exclude each other. Only
for a request that cannot be met alone, it asks why each device is out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from berth.actors.scheduling.cel import CelError
from berth.actors.scheduling.kube.devices import DeviceConstraint
from berth.actors.scheduling.kube.quantity import nano_value
from berth.actors.scheduling.plugins.dynamic_resources.allocator import allocate
from berth.actors.scheduling.plugins.dynamic_resources.constraints import (
    attribute_of,
    value_of,
)
from berth.actors.scheduling.plugins.dynamic_resources.consumed_capacity import consumed_capacity
from berth.actors.scheduling.plugins.dynamic_resources.inventory import Inventory
from berth.actors.scheduling.plugins.dynamic_resources.pools import (
    CounterID,
    DeviceID,
    NodePools,
    Pool,
    SliceDevice,
)
from berth.actors.scheduling.plugins.dynamic_resources.requests import (
    AllocationError,
    ClaimRequests,
    Request,
    SubRequest,
)
from berth.actors.scheduling.plugins.steps import (
    STEPS_PER_SECOND,
    Steps,
    TimedOutError,
)

from .words import amount, counted_words, listed

# The most steps of a search: a tenth of a second.
STEPS = STEPS_PER_SECOND // 10
LONGEST_EXPRESSION = 80
TOGETHER = "all requests"
Candidate = tuple[SliceDevice, Pool]


class Shortage(msgspec.Struct, frozen=True):
    """A problem of a node with a request of a claim; `claim` is "" for one of the node itself."""

    claim: str
    request: str
    why: str


class Obstacle(msgspec.Struct, frozen=True):
    """A reason why a request does not get a device. `matches` is False if the request never could,
    and True if others merely hold the device. `detail` is about this device.
    """

    what: str
    detail: str = ""
    matches: bool = False


def shortages(
    claims: Sequence[ClaimRequests],
    pools: NodePools,
    inventory: Inventory,
    holders: Mapping[DeviceID, Sequence[str]],
) -> list[Shortage]:
    """Returns the problems of a node that does not provide the devices of all claims. `holders` are
    the claims that hold a device.
    """
    if pools.problem:
        return [Shortage("", "", pools.problem)]
    return _Judge(claims, pools, inventory, holders).shortages()


class _Judge:
    def __init__(
        self,
        claims: Sequence[ClaimRequests],
        pools: NodePools,
        inventory: Inventory,
        holders: Mapping[DeviceID, Sequence[str]],
    ) -> None:
        self._claims = claims
        self._pools = pools
        self._inventory = inventory
        self._holders = holders

    def shortages(self) -> list[Shortage]:
        alone = [
            Shortage(claim.name, request.name, why)
            for claim in self._claims
            for request in claim.requests
            if (why := self._shortage_alone(claim, request)) is not None
        ]
        return [*self._unusable(), *(alone or [self._shortage_together()])]

    def _unusable(self) -> Iterator[Shortage]:
        for pool in self._pools.pools:
            if not pool.usable:
                why = "incomplete" if pool.incomplete else "invalid"
                yield Shortage("", "", f"pool {pool} is {why}: {pool.incomplete or pool.invalid}")

    def _failure(self, claims: Sequence[ClaimRequests]) -> str | None:
        """Returns None if the node can give devices to the claims, or if that takes too long to
        find out; else the message of an error, "" without one.
        """
        try:
            result = allocate(claims, self._pools, self._inventory, Steps(STEPS))
        except TimedOutError:
            return None
        except AllocationError as problem:
            return problem.in_full
        if result.devices is not None:
            return None
        unready = result.unready
        if unready is None:
            return ""
        return f"{unready.message(claims[unready.claim].name)} ({unready.detail})"

    # -------------------------------------------------------------------------------- one request

    def _shortage_alone(self, claim: ClaimRequests, request: Request) -> str | None:
        """Returns the reason why a request could not be met even if it were the only one."""
        alone = replace(claim, requests=(request,), constraints=())
        failure = self._failure([alone])
        if failure is not None:
            return failure or self._short_alone(request)
        constrained = replace(alone, constraints=claim.constraints)
        failure = self._failure([constrained])
        if failure is None:
            return None
        return failure or self._unmet_constraints(self._smallest_conflict([constrained])[0], claim)

    def _short_alone(self, request: Request) -> str:
        if not request.is_list:
            return self._reasons_in_words(request.sub_requests[0])
        return "; ".join(
            f"{sub.name} {self._reasons_in_words(sub)}" for sub in request.sub_requests
        )

    def _reasons_in_words(self, sub_request: SubRequest) -> str:
        """Returns in words how many devices are needed, and why those of the node do not count."""
        reasons: dict[str, list[str]] = defaultdict(list)
        fitting: list[Candidate] = []
        matching = 0
        for device, pool in self._pools.candidates:
            obstacle = self._obstacle(sub_request, device, pool)
            if obstacle is None:
                fitting.append((device, pool))
            else:
                reasons[obstacle.what].append(obstacle.detail)
            matching += obstacle is None or obstacle.matches
        number = matching if sub_request.all_devices else sub_request.count
        every = len(self._pools.candidates)
        parts = [f"{every or 'none'} on the node"]
        for what, details in sorted(reasons.items(), key=lambda item: -len(item[1])):
            detail = listed([*dict.fromkeys(filter(None, details))])
            parts.append(f"{len(details)} {what}" + (f" ({detail})" if detail else ""))
        if fitting and reasons:
            parts.append(_verb_of_fit(fitting))
        needs = f"needs {counted_words(number, 'device')}"
        if sub_request.all_devices:
            needs = "needs all devices that match, and none does"
            if number:
                needs = f"needs all {number} devices that match"
        text = f"{needs}: {', '.join(parts)}"
        if number and len(fitting) >= number:
            text += f"; {self._exceeded(fitting, number)}"
        return text

    def _obstacle(
        self, sub_request: SubRequest, device: SliceDevice, pool: Pool
    ) -> Obstacle | None:
        """Returns the reason why a request would not get a device even if it were the only one."""
        for obstacle in self._obstacles(sub_request, device, pool):
            return obstacle
        return None

    def _obstacles(
        self, sub_request: SubRequest, device: SliceDevice, pool: Pool
    ) -> Iterator[Obstacle]:
        name, allocated = device.device.name, self._inventory.allocated_state
        features = self._inventory.features
        if device.device.binding_conditions and not features.binding_conditions:
            yield Obstacle("with binding conditions, which a feature gate turns off")
        is_allocated = not sub_request.admin_access and device.id in allocated.whole
        for expression, whose in sub_request.selectors:
            owner, _, number = whose.rpartition(": ")
            try:
                if not self._inventory.matches(expression, device):
                    yield Obstacle(f"refused by {number} of {owner}", _shortened(expression))
            except CelError as failure:
                if not is_allocated:
                    yield Obstacle(f"not judged by {number} of {owner}", str(failure))
        if device.id in pool.not_targeting_node:
            yield Obstacle("for other nodes only")
        if features.consumable_capacity:
            yield from self._without_capacity(sub_request, device)
        if is_allocated:
            holders = self._holders.get(device.id, ())
            yield Obstacle("taken", " and ".join(f"by claim {claim}" for claim in holders), True)
        if device.counters and not features.partitionable_devices:
            yield Obstacle("with counters, which a feature gate turns off", "", True)
        in_parts = device.shared and allocated.is_shared(device.id)
        if device.counters and not in_parts:
            yield from self._short_counters(device, pool)
        for taint in device.taints:
            if not sub_request.tolerates(taint):
                value = f"={taint.value}" if taint.value else ""
                yield Obstacle(f"tainted {taint.key}{value}:{taint.effect}", name, True)

    def _without_capacity(self, sub_request: SubRequest, device: SliceDevice) -> Iterator[Obstacle]:
        offered, requested = device.device.capacity, dict(sub_request.capacity)
        features = self._inventory.features
        lacking = sorted(requested.keys() - offered.keys())
        if lacking:
            yield Obstacle(f"without capacity {listed(lacking)}")
            return
        needed = consumed_capacity(offered, requested, features)
        if needed is None:
            forbidden = [
                f"{text} of capacity {capacity}"
                for capacity, text in requested.items()
                if consumed_capacity({capacity: offered[capacity]}, {capacity: text}, features)
                is None
            ]
            yield Obstacle(f"whose policy does not allow {listed(forbidden) or 'the default'}")
            return
        consumed = self._inventory.allocated_state.consumed_capacity(device.id)
        for capacity, of_request in needed.items():
            whole = nano_value(offered[capacity].value)
            left = whole - consumed.get(capacity, 0)
            if of_request.nano > left:
                yield Obstacle(
                    f"short of capacity {capacity}",
                    f"{device.device.name}: {amount(left)} left of {amount(whole)}, "
                    f"{amount(of_request.nano)} needed",
                )

    def _short_counters(self, device: SliceDevice, pool: Pool) -> Iterator[Obstacle]:
        needed: dict[CounterID, int] = defaultdict(int)
        for counter, number in device.counters:
            needed[counter] += number
        for counter, left in self._inventory.available_counters(pool).items():
            if needed[counter] > left:
                detail = _counter(pool, counter, left, f"{amount(needed[counter])} needed")
                yield Obstacle("short of counters", detail, True)

    def _exceeded(self, fitting: Sequence[Candidate], number: int) -> str:
        """Names the counters that do not suffice for several devices, each of which fits alone."""
        exceeded = [*self._short_together(fitting, number)]
        if exceeded:
            return f"{number} of them exceed {listed(exceeded)}"
        return f"no {number} of them can be taken together"

    def _short_together(self, fitting: Sequence[Candidate], number: int) -> Iterator[str]:
        for pool in dict.fromkeys(pool for _, pool in fitting):
            for counter, left in self._inventory.available_counters(pool).items():
                amounts = sorted(
                    sum(each for of, each in device.counters if of == counter and home is pool)
                    for device, home in fitting
                )
                least = sum(amounts[:number])
                if least > left:
                    yield _counter(pool, counter, left, f"at least {amount(least)} needed")

    # ------------------------------------------------------------------------- what excludes others

    def _shortage_together(self) -> Shortage:
        """Returns the requests and constraints that exclude each other, though each request could
        be met alone.
        """
        failure = self._failure(self._claims)
        if failure is None:
            return Shortage("", TOGETHER, "which of them exclude each other takes too long to find")
        if failure:
            return Shortage("", TOGETHER, failure)
        left = self._smallest_conflict(self._claims)
        names = [
            request.name if len(left) == 1 else f"{claim.name}: {request.name}"
            for claim in left
            for request in claim.requests
        ]
        broken = [claim for claim in left if claim.constraints]
        why = "each can be met, but not together: "
        if broken:
            whole = {claim.name: claim for claim in self._claims}
            why += "; ".join(self._unmet_constraints(claim, whole[claim.name]) for claim in broken)
        else:
            why += self._contested_devices([r for claim in left for r in claim.requests])
        return Shortage(left[0].name if len(left) == 1 else "", ", ".join(names), why)

    def _smallest_conflict(self, claims: Sequence[ClaimRequests]) -> list[ClaimRequests]:
        """Drops constraints and requests as long as the rest still cannot be allocated."""
        left = list(claims)

        def drop(
            smaller: Callable[[ClaimRequests, int], ClaimRequests],
            size: Callable[[ClaimRequests], int],
        ) -> None:
            for c in range(len(left)):
                for i in reversed(range(size(left[c]))):
                    fewer = smaller(left[c], i)
                    others = [*left[:c], fewer, *left[c + 1 :]]
                    if self._failure([claim for claim in others if claim.requests]) == "":
                        left[c] = fewer

        drop(_without_constraint, lambda claim: len(claim.constraints))
        drop(_without_request, lambda claim: len(claim.requests))
        return [claim for claim in left if claim.requests]

    def _unmet_constraints(self, left: ClaimRequests, whole: ClaimRequests) -> str:
        """Names the constraints of a claim that are not met, with the values that devices have."""
        texts = []
        for constraint in left.constraints:
            kind, attribute = _kind_and_attribute(constraint)
            held = [r for r in left.requests if _holds_for(constraint, r)]
            every: dict[str, set[str]] = defaultdict(set)
            shown = []
            for request in held:
                values, without = self._values_of(request, attribute)
                for value, names in values.items():
                    every[value].update(names)
                each = [f"{value}: {listed(names)}" for value, names in values.items()]
                each += [f"without it: {listed(without)}"] if without else []
                of = f"request {request.name} has " if len(held) > 1 else ""
                shown.append(of + listed(each))
            text = f"constraint #{whole.constraints.index(constraint)} {kind} {attribute}"
            if len(left.constraints) == 1:
                text += f": {_unmet_constraint(kind, every, [*map(_least_count, held)])}"
            texts.append(f"{text} ({'; '.join(shown)})")
        if len(texts) > 1:
            return f"{' and '.join(texts)} cannot be met at once"
        return texts[0]

    def _values_of(
        self, request: Request, attribute: str
    ) -> tuple[dict[str, list[str]], list[str]]:
        """Returns the devices that fit a request by their value of an attribute, and the others."""
        values: dict[str, list[str]] = defaultdict(list)
        without: list[str] = []
        for device, _ in self._fitting(request):
            with_value = attribute_of(device.device, device.id[0], attribute)
            value = None if with_value is None else value_of(with_value)
            if value is None:
                without.append(device.device.name)
            else:
                text = str(value[1]).lower() if value[0] == "bool" else str(value[1])
                values[text].append(device.device.name)
        return values, without

    def _fitting(self, request: Request) -> list[Candidate]:
        """Returns the devices that could be given to a request if it were the only one."""
        return [
            (device, pool)
            for device, pool in self._pools.candidates
            if any(self._obstacle(a, device, pool) is None for a in request.sub_requests)
        ]

    def _contested_devices(self, requests: Sequence[Request]) -> str:
        """Names the devices, counters and capacities that are too few for several requests."""
        fitting = [self._fitting(request) for request in requests]
        every = [*dict.fromkeys(candidate for devices in fitting for candidate in devices)]
        number = sum(_least_count(request) for request in requests)
        shared = [device for device, _ in every if device.shared]
        names = listed([device.device.name for device, _ in every])
        if len(every) < number and not shared:
            return (
                f"they need {counted_words(number, 'device')}, and {_verb_of_fit(every)}: {names}"
            )
        short = [
            *self._short_together(every, number),
            *self._short_shares(shared, requests),
        ]
        if short:
            return f"they exceed {listed(short)}"
        common = [each for each in every if sum(each in devices for devices in fitting) > 1]
        contested = listed([device.device.name for device, _ in common]) or names
        return f"they compete for {contested}"

    def _short_shares(
        self, shared: Iterable[SliceDevice], requests: Sequence[Request]
    ) -> Iterator[str]:
        """Yields the capacities of shared devices that do not suffice for all requests at once."""
        for device in shared:
            demands = [
                consumed_capacity(
                    device.device.capacity,
                    dict(request.sub_requests[0].capacity),
                    self._inventory.features,
                )
                or {}
                for request in requests
            ]
            consumed = self._inventory.allocated_state.consumed_capacity(device.id)
            for capacity, offered in device.device.capacity.items():
                left = nano_value(offered.value) - consumed.get(capacity, 0)
                needed = sum(d[capacity].nano for d in demands if capacity in d)
                if needed > left:
                    yield (
                        f"capacity {capacity} of {device.device.name}: {amount(left)} left, "
                        f"{amount(needed)} needed"
                    )


def _without_constraint(claim: ClaimRequests, number: int) -> ClaimRequests:
    others = claim.constraints[:number] + claim.constraints[number + 1 :]
    return replace(claim, constraints=others)


def _without_request(claim: ClaimRequests, number: int) -> ClaimRequests:
    return replace(claim, requests=claim.requests[:number] + claim.requests[number + 1 :])


def _holds_for(constraint: DeviceConstraint, request: Request) -> bool:
    named = {name.partition("/")[0] for name in constraint.requests}
    return not named or request.name in named


def _kind_and_attribute(constraint: DeviceConstraint) -> tuple[str, str]:
    if constraint.match_attribute is not None:
        return "matchAttribute", constraint.match_attribute
    return "distinctAttribute", constraint.distinct_attribute or ""


def _unmet_constraint(
    kind: str, values: Mapping[str, Collection[str]], counts: Sequence[int]
) -> str:
    """Names the constraint that the devices cannot meet, with the values that they have. `counts`
    are the numbers of devices that the requests need.
    """
    least = sum(counts)
    if least <= 1:
        return "no device that fits has the attribute"
    if kind == "matchAttribute":
        which, most = "the same value", max(map(len, values.values()), default=0)
    else:
        which, most = "different values", len(values)
    if most < least:
        return f"no {least} devices that fit have {which}"
    together = "suit the requests together" if len(counts) > 1 else "can be taken together"
    return f"no {least} devices with {which} {together}"


def _least_count(request: Request) -> int:
    return min(1 if sub.all_devices else sub.count for sub in request.sub_requests)


def _verb_of_fit(devices: Sequence[Candidate]) -> str:
    return "1 fits" if len(devices) == 1 else f"{len(devices)} fit"


def _counter(pool: Pool, counter: CounterID, left: int, needed: str) -> str:
    of, name = counter
    return f"counter {name} of set {of} in pool {pool}: {amount(left)} left, {needed}"


def _shortened(expression: str) -> str:
    text = " ".join(expression.split())
    return text if len(text) <= LONGEST_EXPRESSION else f"{text[: LONGEST_EXPRESSION - 3]}..."
