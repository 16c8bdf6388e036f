"""The allocator against a slow search: every assignment in order, the first valid one wins.

The slow search builds each whole assignment and checks it from nothing, so that it cannot forget
to undo anything. Counters and constraints are not drawn together: the allocator keeps counters
charged for devices that a constraint refuses, as kube-scheduler's does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

import msgspec
from hypothesis import event, given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.devices import Device, DeviceClass, ResourceClaim, ResourceSlice
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.plugins.dynamic_resources.allocator import (
    AllocatorResult,
    Search,
    allocate,
)
from berth.actors.scheduling.plugins.dynamic_resources.inventory import Inventory
from berth.actors.scheduling.plugins.dynamic_resources.requests import (
    AllocationError,
    ClaimRequests,
    claim_requests,
)
from berth.actors.scheduling.plugins.steps import Steps, TimedOutError
from tests.kit.examples import examples

DRIVER = "gpu.example.com"
STEPS = 10**6
Place = tuple[str, str]  # pool, device


def _class(name: str, *expressions: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors}}


CLASSES: dict[str, str | None] = {
    "any": None,
    "a": "a",
    "b": "b",
}


def _device(draw: st.DrawFn, name: str, counters: bool) -> dict[str, Any]:
    device: dict[str, Any] = {
        "name": name,
        "attributes": {"model": {"string": draw(st.sampled_from("ab"))}},
    }
    if draw(st.booleans()):
        device["attributes"]["numa"] = {"int": draw(st.integers(0, 1))}
    if counters and draw(st.integers(0, 4)):
        amount = str(draw(st.integers(1, 3)))
        device["consumesCounters"] = [
            {"counterSet": "set", "counters": {"memory": {"value": amount}}},
        ]
    elif draw(st.integers(0, 3)) == 0:
        device["allowMultipleAllocations"] = True
        device["capacity"] = {
            "memory": {"value": "4", "requestPolicy": {"default": "2"}},
        }
    if draw(st.integers(0, 5)) == 0:
        device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
    return device


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Place]]:
    """Draws slices, claims, and the devices that are already taken."""
    counters = draw(st.booleans())
    slices, taken = [], []
    for pool in range(draw(st.integers(1, 2))):
        devices = [
            _device(draw, f"d{number}", counters) for number in range(draw(st.integers(2, 5)))
        ]
        if counters:
            for device in devices:
                device.pop("taints", None)
        spec = {
            "driver": DRIVER,
            "pool": {"name": f"p{pool}", "generation": 1, "resourceSliceCount": 1 + counters},
            "nodeName": "node",
        }
        slices.append({"metadata": {"name": f"s{pool}"}, "spec": {**spec, "devices": devices}})
        if counters:
            total = {"value": str(draw(st.integers(1, 6)))}
            sets = [{"name": "set", "counters": {"memory": total}}]
            slices.append(
                {"metadata": {"name": f"c{pool}"}, "spec": {**spec, "sharedCounters": sets}}
            )
        taken += [(f"p{pool}", d["name"]) for d in devices if draw(st.integers(0, 7)) == 0]
    claims = [_claim(draw, number, counters) for number in range(draw(st.integers(1, 2)))]
    return slices, claims, taken


def _claim(draw: st.DrawFn, number: int, counters: bool) -> dict[str, Any]:
    requests: list[dict[str, Any]] = []
    for r in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)) == 0:
            subs = [{"name": f"s{i}", **_fields(draw)} for i in range(draw(st.integers(1, 2)))]
            for sub in subs:
                sub.pop("adminAccess", None)
            requests.append({"name": f"r{r}", "firstAvailable": subs})
        else:
            requests.append({"name": f"r{r}", "exactly": _fields(draw)})
    constraints = []
    if not counters and draw(st.integers(0, 3)) == 0:
        # Of several devices of one request, distinctAttribute forgets some when it goes back.
        kinds = ["matchAttribute", *(["distinctAttribute"] if all(map(_of_one, requests)) else [])]
        kind = draw(st.sampled_from(kinds))
        name = draw(st.sampled_from(["model", "numa"]))
        constraints.append({kind: f"{DRIVER}/{name}"})
    return {
        "metadata": {"name": f"claim-{number}", "namespace": "default", "uid": f"u{number}"},
        "spec": {"devices": {"requests": requests, "constraints": constraints}},
    }


def _of_one(request: dict[str, Any]) -> bool:
    """True if the request is for one device, whatever its sub-request."""
    alternatives = request.get("firstAvailable") or [request["exactly"]]
    return all(each.get("count") == 1 for each in alternatives)


def _fields(draw: st.DrawFn) -> dict[str, Any]:
    fields: dict[str, Any] = {"deviceClassName": draw(st.sampled_from([*CLASSES]))}
    if draw(st.integers(0, 7)) == 0:
        fields["allocationMode"] = "All"
    else:
        fields |= {"allocationMode": "ExactCount", "count": draw(st.integers(1, 2))}
    if draw(st.integers(0, 7)) == 0:
        fields["adminAccess"] = True
    if draw(st.booleans()):
        fields["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    if draw(st.integers(0, 7)) == 0:
        fields["capacity"] = {"requests": {"memory": str(draw(st.integers(1, 4)))}}
    return fields


def _objects(
    slices: list[dict[str, Any]], taken: Sequence[Place]
) -> tuple[ClusterObjects, dict[str, DeviceClass]]:
    objects = ClusterObjects()
    classes = {}
    for name, model in CLASSES.items():
        expressions = [f'device.attributes["{DRIVER}"].model == "{model}"'] if model else []
        classes[name] = msgspec.convert(_class(name, *expressions), DeviceClass)
        objects.put(classes[name])
    for document in slices:
        objects.put(msgspec.convert(document, ResourceSlice))
    for number, (pool, device) in enumerate(taken):
        result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
        claim = {
            "metadata": {"name": f"taken-{number}", "namespace": "default", "uid": f"t{number}"},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        objects.put(msgspec.convert(claim, ResourceClaim))
    return objects, classes


# ------------------------------------------------------------------------------- the slow search


class Slow:
    """Tries every assignment. An assignment is a list of (claim, request, sub-request, place)."""

    def __init__(
        self, slices: list[dict[str, Any]], claims: list[dict[str, Any]], taken: Sequence[Place]
    ) -> None:
        self.devices: dict[Place, Device] = {}
        self.counters: dict[str, int] = {}
        for document in sorted(slices, key=lambda s: s["spec"]["pool"]["name"]):
            spec = document["spec"]
            pool = spec["pool"]["name"]
            for device in spec.get("devices", []):
                self.devices[pool, device["name"]] = msgspec.convert(device, Device)
            for counters in spec.get("sharedCounters", []):
                self.counters[pool] = int(counters["counters"]["memory"]["value"])
        self.claims = claims
        self.taken = frozenset(taken)

    def first(self) -> list[tuple[int, str, Place]] | None:
        requests = [
            (c, request)
            for c, claim in enumerate(self.claims)
            for request in claim["spec"]["devices"]["requests"]
        ]
        for choice in self._assignments(requests):
            if self._valid(choice):
                return [(c, name, place) for c, name, _, place in choice]
        return None

    def _assignments(
        self, requests: Sequence[tuple[int, dict[str, Any]]]
    ) -> Iterator[list[tuple[int, str, dict[str, Any], Place]]]:
        if not requests:
            yield []
            return
        (c, request), rest = requests[0], requests[1:]
        sub_requests = [
            (f"{request['name']}/{sub['name']}", sub) for sub in request.get("firstAvailable", [])
        ] or [(request["name"], request["exactly"])]
        for name, sub_request in sub_requests:
            for places in self._places(sub_request):
                for others in self._assignments(rest):
                    yield [*((c, name, sub_request, place) for place in places), *others]

    def _places(self, request: dict[str, Any]) -> Iterator[tuple[Place, ...]]:
        model = CLASSES[request["deviceClassName"]]
        matching = [
            place
            for place, device in self.devices.items()
            if (model is None or device.attributes["model"].string == model)
            and self._takes(request, device) is not None
        ]
        if request["allocationMode"] == "All":
            # Capacity that others take already leaves a device out of "all".
            if matching:
                yield tuple(matching)
            return
        yield from combinations(matching, request["count"])

    @staticmethod
    def _takes(request: dict[str, Any], device: Device) -> int | None:
        """Returns the device's memory that a request takes; None if the device has too little."""
        requested = request.get("capacity", {}).get("requests", {}).get("memory")
        if "memory" not in device.capacity:
            return None if requested is not None else 0
        amount = int(requested) if requested is not None else 2
        return amount if amount <= 4 else None

    def _valid(self, choice: list[tuple[int, str, dict[str, Any], Place]]) -> bool:
        uses: Counter[Place] = Counter()
        memory: Counter[Place] = Counter()
        charged: Counter[str] = Counter()
        for place in self.taken:
            for consumption in self.devices[place].consumes_counters:
                charged[place[0]] += int(consumption.counters["memory"].value)
        holders: dict[Place, set[int]] = {}
        for c, _, request, place in choice:
            device, admin = self.devices[place], request.get("adminAccess", False)
            if device.taints and not request.get("tolerations"):
                return False
            mine = holders.get(place, set())
            if admin and c in mine:
                return False
            if not admin and (mine or place in self.taken):
                return False
            if device.allow_multiple_allocations:
                memory[place] += self._takes(request, device) or 0
                if memory[place] > 4:
                    return False
            else:
                holders.setdefault(place, set()).add(c)
            uses[place] += 1
            if device.consumes_counters:
                for consumption in device.consumes_counters:
                    charged[place[0]] += int(consumption.counters["memory"].value)
                if charged[place[0]] > self.counters[place[0]]:
                    return False
        return all(self._meets(c, choice) for c in range(len(self.claims)))

    def _meets(self, c: int, choice: list[tuple[int, str, dict[str, Any], Place]]) -> bool:
        for constraint in self.claims[c]["spec"]["devices"]["constraints"]:
            kind, name = next(iter(constraint.items()))
            short = name.partition("/")[2]
            last: dict[str, Any] = {}
            first = None
            for claim, full_name, _, place in choice:
                if claim != c:
                    continue
                value = self.devices[place].attributes.get(short)
                if value is None:
                    return False
                if kind == "matchAttribute":
                    first = first or value
                    if value != first:
                        return False
                else:
                    # Of the devices of one request, only the last one counts.
                    if value in last.values():
                        return False
                    last[full_name.partition("/")[0]] = value
        return True


def _chosen_places(result: AllocatorResult) -> list[tuple[int, str, Place]] | None:
    if result.devices is None:
        return None
    return [
        (c, each.sub_request.full_name, each.device.id[1:])
        for c, results in enumerate(result.devices)
        for each in results
    ]


@examples()
@given(worlds())
def test_the_allocator_chooses_what_a_slow_search_finds_first(
    world: tuple[list[dict[str, Any]], list[dict[str, Any]], list[Place]],
) -> None:
    slices, claims, taken = world
    objects, classes = _objects(slices, taken)
    inventory = Inventory(objects)
    inventory.refresh()
    node = msgspec.convert({"metadata": {"name": "node"}}, Node)
    requests = [
        claim_requests(msgspec.convert(claim, ResourceClaim), classes.get) for claim in claims
    ]
    expected = Slow(slices, claims, taken).first()
    if _is_refused(requests, inventory, node):
        event("a constraint excludes some of all devices")
        # The error ends the search, as in kube-scheduler, so later alternatives are not tried.
        assert expected is None or _has_alternatives(claims)
        return
    result = allocate(requests, inventory.pools(node), inventory, Steps(STEPS))
    event("found" if expected else "not found")
    assert _chosen_places(result) == expected
    assert _chosen_places(_in_pieces(requests, inventory, node)) == expected


def _in_pieces(
    requests: Sequence[ClaimRequests], inventory: Inventory, node: Node
) -> AllocatorResult:
    """Searches a few steps at a time."""
    search = Search(requests, inventory.pools(node), inventory)
    for _ in range(STEPS):
        with suppress(TimedOutError):
            return search.run(Steps(10))
    raise AssertionError("the search does not end")


def _has_alternatives(claims: list[dict[str, Any]]) -> bool:
    requests = [request for claim in claims for request in claim["spec"]["devices"]["requests"]]
    return any(len(request.get("firstAvailable", ())) > 1 for request in requests)


def _is_refused(requests: Sequence[ClaimRequests], inventory: Inventory, node: Node) -> bool:
    """True if a request for all devices breaks a constraint, which is an error."""
    try:
        allocate(requests, inventory.pools(node), inventory, Steps(STEPS))
    except AllocationError as problem:
        return "cannot add device" in str(problem)
    return False
