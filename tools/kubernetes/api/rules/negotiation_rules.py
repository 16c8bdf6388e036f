"""Rules for the kinds of resource.k8s.io/v1alpha2, in which drivers allocate the claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from berth.actors.scheduling.kube.names import dns_subdomain

from .device_rules import each_item, set_of
from .fields import Document, forbidden, invalid, required, unchanged
from .placement_rules import node_selector

MOST_NODES = 128
MOST_RESERVED = 32


def claim(spec: Document, before: Document | None) -> list[str]:
    """Checks that a ResourceClaim keeps its spec."""
    return [] if before is None else unchanged("spec", spec, before)


def claim_status(document: Document, before: Document) -> Iterator[str]:
    """Returns the problems of an update of a claim's status; both arguments are whole claims."""
    after, was = document.get("status") or {}, before.get("status") or {}
    reserved, allocation = after.get("reservedFor") or (), after.get("allocation")
    yield from set_of("status.reservedFor", reserved, MOST_RESERVED, _consumer, "uid")
    if allocation is None:
        if reserved:
            rule = "may not be specified when `allocated` is not set"
            yield forbidden("status.reservedFor", rule)
        if after.get("deallocationRequested"):
            rule = "deallocation cannot be requested while `allocation` is not set"
            yield forbidden("status.deallocationRequested", rule)
        return
    if not allocation.get("shareable") and len(reserved) > 1:
        yield forbidden("status.reservedFor", "may not be reserved more than once")
    ends = after.get("deallocationRequested") or "deletionTimestamp" in before["metadata"]
    if ends and any(consumer not in (was.get("reservedFor") or ()) for consumer in reserved):
        rule = (
            "new entries may not be added while `deallocationRequested` or "
            "`deletionTimestamp` are set"
        )
        yield forbidden("status.reservedFor", rule)
    if was.get("allocation") is not None:
        yield from unchanged("status.allocation", allocation, was["allocation"])
        return
    if allocation.get("availableOnNodes") is not None:
        path = "status.allocation.availableOnNodes"
        yield from node_selector(path, allocation["availableOnNodes"])


def context(spec: Document) -> list[str]:
    """Checks a PodSchedulingContext without its status."""
    return _nodes("spec.potentialNodes", spec.get("potentialNodes"))


def context_status(document: Document) -> list[str]:
    answers = (document.get("status") or {}).get("resourceClaims") or ()
    return each_item(
        "status.resourceClaims",
        answers,
        MOST_NODES,
        lambda path, answer: _nodes(f"{path}.unsuitableNodes", answer.get("unsuitableNodes")),
    )


def _nodes(path: str, names: list[Any] | None) -> list[str]:
    return set_of(path, names or (), MOST_NODES, _name)


def _name(path: str, name: str) -> list[str]:
    if not name:
        return [required(path)]
    return [invalid(path, name, message) for message in dns_subdomain(name)]


def _consumer(path: str, consumer: Document) -> list[str]:
    fields = ("resource", "name", "uid")
    return [required(f"{path}.{field}") for field in fields if not consumer.get(field)]
