"""Decides which slices to write so that every pool is offered as it should be.

Mirrors dynamic-resource-allocation's resourceslice controller: the slices of a pool have the same
generation, which grows with each change, and say how many there are.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from ..documents import Document, annotations_of, name_of, reference_to, spec_of, uid_of
from .inventory import Pool, with_pool

# A slice of the hollow driver; the value tells one content of its pool from another.
MARK = "berth.dev/devices"


class Publish(msgspec.Struct, frozen=True):
    """Creates a slice or, if it has a resourceVersion, replaces it."""

    document: Document


class Withdraw(msgspec.Struct, frozen=True):
    """Deletes a slice."""

    name: str
    uid: str


def publication(pools: Iterable[Pool], slices: Iterable[Document]) -> list[Publish | Withdraw]:
    """The writes that turn the driver's slices into those of the pools.

    A slice that somebody has edited stays so until the content of its pool changes, since its mark
    tells for which content it was written. Slices without a mark belong to other drivers.
    """
    have: dict[tuple[str, str], dict[str, Document]] = defaultdict(dict)
    for found in slices:
        if MARK in annotations_of(found):
            have[_pool_of(found)][name_of(found)] = found
    writes: list[Publish | Withdraw] = []
    for pool in pools:
        writes += _of_pool(pool, have.pop((pool.driver, pool.name), {}))
    for named in have.values():
        writes += [Withdraw(name, uid_of(found)) for name, found in named.items()]
    return writes


def _pool_of(found: Document) -> tuple[str, str]:
    spec = spec_of(found)
    return spec.get("driver") or "", (spec.get("pool") or {}).get("name") or ""


def _of_pool(pool: Pool, have: dict[str, Document]) -> list[Publish | Withdraw]:
    mark = _mark(pool)
    base = f"{pool.name}-{pool.driver}".replace("/", "-")
    names = [f"{base}-{number}" for number in range(len(pool.specs))]
    same = all(annotations_of(found)[MARK] == mark for found in have.values())
    if same and sorted(have) == sorted(names):
        return []
    known = [(spec_of(one).get("pool") or {}).get("generation") or 0 for one in have.values()]
    generation = max(known, default=0) + 1
    writes: list[Publish | Withdraw] = []
    for name, spec in zip(names, pool.specs, strict=True):
        metadata: Document = {"name": name, "annotations": {MARK: mark}}
        if pool.node is not None:
            metadata["ownerReferences"] = [reference_to(pool.node)]
        if name in have:
            metadata["resourceVersion"] = have[name]["metadata"]["resourceVersion"]
        made = with_pool(spec, pool.name, generation, len(names))
        writes.append(Publish({**made, "metadata": metadata}))
    return writes + [
        Withdraw(name, uid_of(found)) for name, found in have.items() if name not in names
    ]


def _mark(pool: Pool) -> str:
    node = "" if pool.node is None else uid_of(pool.node)
    content = msgspec.json.encode([node, pool.specs], order="sorted")
    return hashlib.sha256(content).hexdigest()[:16]
