"""Suggestions to lower requests to the largest amount with which the pod fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from berth.actors.scheduling.kube.quantity import milli_value, value

from ..asks.resource_shortages import quantity
from .change import ProposedChange, Who
from .edit import Document, Edit, Patch, patch_of, pointer, without
from .kind_of_change import Way
from .world import World

CPU = "cpu"
BYTES = ("memory", "ephemeral-storage")
PAGES = "hugepages-"
MEBI = 1 << 20
_LISTS = ("containers", "initContainers")


class _Request(msgspec.Struct, frozen=True):
    """A request of the pod, with its amount in units of `unit`: thousandths for cpu, otherwise
    whole units.
    """

    owner: str
    resource: str
    path: tuple[str | int, ...]
    amount: int
    unit: int
    fewest: int  # units; 0 if the pod may do without

    def lowered(self, pod: Document, units: int) -> Edit:
        """Returns the edit that lowers the request, together with the limit of a resource that
        cannot be overcommitted.
        """
        limits = (*self.path[:-1], "limits")
        patches: list[Patch] = []
        for path in ((*self.path, self.resource), (*limits, self.resource)):
            if path[-2] == "limits" and (self.is_common or not _has(pod, path)):
                continue
            if units:
                text = self.text(units)
                patches.append([{"op": "replace", "path": pointer(*path), "value": text}])
            else:
                patches.append(without(pod, *path))
        return patch_of(pod, *patches)

    @property
    def is_common(self) -> bool:
        """True for a resource whose request may be lower than its limit."""
        return self.resource == CPU or self.resource in BYTES

    def text(self, units: int) -> str:
        return quantity(self.resource, units * self.unit)


def _has(document: Document, path: tuple[str | int, ...]) -> bool:
    inner: Any = document
    for part in path[:-1]:
        if isinstance(part, str) and part not in inner:
            return False
        inner = inner[part]
    return bool(path[-1] in inner)


def _requests(pod: Document) -> Iterator[_Request]:
    """Yields the requests that may be too large, the largest of each resource. Requests of the
    whole pod replace those of its containers, whose sum is their lower bound.
    """
    spec = pod["spec"]
    largest: dict[str, _Request] = {}
    sums: Counter[str] = Counter()
    for part in _LISTS:
        for number, container in enumerate(spec.get(part) or ()):
            owner = f"container {container['name']}"
            for request in _requests_of(owner, container, ("spec", part, number)):
                resource = request.resource
                sums[resource] += request.amount
                if resource not in largest or request.amount > largest[resource].amount:
                    largest[resource] = request
    for request in _requests_of("the pod", spec, ("spec",)):
        fewest = max(request.fewest, -(-sums[request.resource] // request.unit))
        largest[request.resource] = msgspec.structs.replace(request, fewest=fewest)
    for request in largest.values():
        if request.amount > request.fewest * request.unit:
            yield request


def _requests_of(owner: str, holder: Document, path: tuple[str | int, ...]) -> Iterator[_Request]:
    for resource, text in ((holder.get("resources") or {}).get("requests") or {}).items():
        number = milli_value(text) if resource == CPU else value(text)
        unit = MEBI if resource in BYTES and number > MEBI else 1
        if resource.startswith(PAGES):
            unit = value(resource.removeprefix(PAGES))
        fewest = 1 if resource == CPU or resource in BYTES else 0
        yield _Request(owner, resource, (*path, "resources", "requests"), number, unit, fewest)


def openings(world: World) -> Iterator[Edit]:
    for request in _requests(world.pod):
        yield request.lowered(world.pod, request.fewest)


def changes(world: World) -> Iterator[ProposedChange]:
    pod = world.pod
    for request in _requests(pod):
        fewest = request.fewest
        with world.changed([request.lowered(pod, fewest)]):
            if not world.fits():
                continue
        fits, too_much = fewest, -(-request.amount // request.unit)
        while too_much - fits > 1:
            middle = (fits + too_much) // 2
            with world.changed([request.lowered(pod, middle)]):
                fits, too_much = (middle, too_much) if world.fits() else (fits, middle)
        what = f"{request.resource} request of {request.owner}"
        sentence = f"Lower the {what} to {request.text(fits)}" if fits else f"Drop the {what}"
        size = 1 - fits * request.unit / request.amount
        yield ProposedChange("requests", Who.OWNER, size, sentence, (request.lowered(pod, fits),))


WAY = Way(changes, openings)
