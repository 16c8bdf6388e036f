"""The allocator finds the first choice of devices in order that breaks no rule, or none if there is
none: what it tried before in vain, or refused, leaves nothing behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.devices import DRIVER, claim, request
from tests.kit.documents import Document
from tests.kit.examples import examples
from tests.unit.actors.scheduling.plugins.dynamic_resources.test_allocator import (
    counters,
    find,
    first,
)

# A device: what it takes of the counter, its attribute (0 for none), its capacity if it is shared
# (0 if not), and whether it is tainted.
DEVICE = st.tuples(
    st.integers(0, 2), st.integers(0, 2), st.sampled_from([0, 0, 1, 2]), st.sampled_from([0, 0, 1])
)
# The numbers of devices that the sub-requests of a request ask for, the first that is available.
REQUEST = st.lists(st.integers(1, 3), min_size=1, max_size=2)
CLAIM = st.tuples(
    st.lists(REQUEST, min_size=1, max_size=2), st.sampled_from(["", "matchAttribute", "distinct"])
)
Device = tuple[int, int, int, int]
Claim = tuple[list[list[int]], str]
# The name of a request, and the number of one of its devices.
Choice = list[tuple[str, int]]


def device_document(name: str, device: Device) -> Document:
    amount, value, capacity, tainted = device
    document: Document = {"name": name}
    if amount:
        consumed = {"memory": {"value": str(amount)}}
        document["consumesCounters"] = [{"counterSet": "set", "counters": consumed}]
    if value:
        document["attributes"] = {"x": {"int": value}}
    if capacity:
        policy = {"default": "1", "validValues": ["1"]}
        room = {"value": str(capacity), "requestPolicy": policy}
        document |= {"allowMultipleAllocations": True, "capacity": {"memory": room}}
    if tainted:
        document["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    return document


def claim_document(name: str, of: Claim) -> Document:
    numbers, rule = of
    requests = [
        request(f"r{i}", counts[0])
        if len(counts) == 1
        else first(f"r{i}", *(request(f"s{j}", count) for j, count in enumerate(counts)))
        for i, counts in enumerate(numbers)
    ]
    more: dict[str, Any] = {}
    if rule:
        kind = rule if rule == "matchAttribute" else "distinctAttribute"
        more["constraints"] = [{kind: f"{DRIVER}/x", "requests": []}]
    return claim(name, *requests, **more)


def choices(number: int, counts: list[int], devices: int) -> Iterator[Choice]:
    """Yields the devices of a request in the order in which they are tried."""
    for sub, count in enumerate(counts):
        name = f"r{number}" if len(counts) == 1 else f"r{number}/s{sub}"
        for chosen in combinations(range(devices), count):
            yield [(name, device) for device in chosen]


def is_allowed(
    claims: list[Claim], chosen: list[Choice], devices: list[Device], units: int
) -> bool:
    used = Counter(device for of_claim in chosen for _, device in of_claim)
    if any(devices[d][3] or number > max(devices[d][2], 1) for d, number in used.items()):
        return False
    if sum(devices[d][0] for d in used) > units:
        return False
    for (_, rule), of_claim in zip(claims, chosen, strict=True):
        values = [devices[device][1] for _, device in of_claim]
        if rule and not all(values):
            return False
        if rule == "matchAttribute" and len(set(values)) > 1:
            return False
        if rule == "distinct" and len(set(values)) < len(values):
            return False
    return True


def first_allowed(claims: list[Claim], devices: list[Device], units: int) -> list[Choice] | None:
    requests = [(c, i, counts) for c, (of, _) in enumerate(claims) for i, counts in enumerate(of)]
    for tried in product(*(choices(i, counts, len(devices)) for _, i, counts in requests)):
        pairs = [*zip(requests, tried, strict=True)]
        chosen = [
            [*chain.from_iterable(each for (of, _, _), each in pairs if of == c)]
            for c in range(len(claims))
        ]
        if is_allowed(claims, chosen, devices, units):
            return chosen
    return None


@given(
    st.lists(DEVICE, min_size=1, max_size=4),
    st.integers(0, 4),
    st.lists(CLAIM, min_size=1, max_size=2),
)
@examples(8)
def test_the_first_choice_that_breaks_no_rule(
    devices: list[Device], units: int, claims: list[Claim]
) -> None:
    names = [f"d{i}" for i in range(len(devices))]
    pool = counters(units, *map(device_document, names, devices))
    found = find([claim_document(f"c{i}", of) for i, of in enumerate(claims)], *pool)
    expected = first_allowed(claims, devices, units)
    if expected is None:
        assert found is None
        return
    words = [[f"{name} {names[device]}" for name, device in of_claim] for of_claim in expected]
    assert found == [*words[0], *chain.from_iterable(["|", *of] for of in words[1:])]
