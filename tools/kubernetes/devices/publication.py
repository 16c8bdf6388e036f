"""Decides which slices to write so that the driver's pools are published as they should be.

Mirrors dynamic-resource-allocation's resourceslice controller: the slices of a pool have the same
generation, which grows with each change, and the number of slices.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from berth.actors.scheduling.kube.devices import ResourceSlice

from ..objects.documents import reference_to
from ..objects.structs import Document
from .inventory import Pool, with_pool

# Marks a slice of the hollow driver; the value is a hash of the content of the pool.
MARK = "berth.dev/devices"


class Publish(msgspec.Struct, frozen=True):
    """A slice to create or, if it has a resourceVersion, to replace."""

    document: Document


class Withdraw(msgspec.Struct, frozen=True):
    """A slice to delete."""

    name: str
    uid: str


def publication(pools: Iterable[Pool], slices: Iterable[ResourceSlice]) -> list[Publish | Withdraw]:
    """Returns the writes that turn the driver's slices into the slices of the pools.

    A slice that a user has edited stays until the content of its pool changes, because its mark
    names the content for which it was written. Slices without a mark belong to other drivers.
    """
    have: dict[tuple[str, str], dict[str, ResourceSlice]] = defaultdict(dict)
    for slice_ in slices:
        if MARK in slice_.metadata.annotations:
            place = slice_.spec.driver, slice_.spec.pool.name
            have[place][slice_.metadata.name] = slice_
    writes: list[Publish | Withdraw] = []
    for pool in pools:
        writes += _writes_of_pool(pool, have.pop((pool.driver, pool.name), {}))
    for named in have.values():
        writes += [Withdraw(name, slice_.metadata.uid) for name, slice_ in named.items()]
    return writes


def _writes_of_pool(pool: Pool, have: dict[str, ResourceSlice]) -> list[Publish | Withdraw]:
    mark = _mark(pool)
    base = f"{pool.name}-{pool.driver}".replace("/", "-")
    names = [f"{base}-{number}" for number in range(len(pool.specs))]
    same = all(slice_.metadata.annotations[MARK] == mark for slice_ in have.values())
    if same and sorted(have) == sorted(names):
        return []
    generation = max((slice_.spec.pool.generation for slice_ in have.values()), default=0) + 1
    writes: list[Publish | Withdraw] = []
    for name, spec in zip(names, pool.specs, strict=True):
        metadata: Document = {"name": name, "annotations": {MARK: mark}}
        if pool.node is not None:
            metadata["ownerReferences"] = [reference_to(pool.node)]
        if name in have:
            metadata["resourceVersion"] = have[name].metadata.resource_version
        document = with_pool(spec, pool.name, generation, len(names))
        writes.append(Publish({**document, "metadata": metadata}))
    return writes + [
        Withdraw(name, slice_.metadata.uid) for name, slice_ in have.items() if name not in names
    ]


def _mark(pool: Pool) -> str:
    node = "" if pool.node is None else pool.node.metadata.uid
    content = msgspec.json.encode([node, pool.specs], order="sorted")
    return hashlib.sha256(content).hexdigest()[:16]
