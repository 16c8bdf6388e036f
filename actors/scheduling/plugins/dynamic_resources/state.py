"""PodClaims: the claims of a pod, kept through its scheduling cycle and its binding cycle."""

from __future__ import annotations

import msgspec

from berth.plugin import PodInfo, ResourceClaim, StateKey

from ...kube.core import NodeSelector
from ...kube.devices import MOST_SUB_REQUESTS, AllocationResult, InFlightAllocation
from ...model.node_selection import NodeTerms
from ..steps import Steps
from .allocation_result import allocation_result
from .extended import UNWRITTEN, RequestMapping
from .node_allocations import NodeAllocations, PodRequests


class Reservation(msgspec.Struct, frozen=True):
    """The allocation that Reserve chose for a claim. While in flight, it holds the devices."""

    claim: ResourceClaim
    allocation: AllocationResult
    in_flight: InFlightAllocation


class PodClaims:
    """The claims of a pod that is being scheduled.

    `claims` are those of its spec, as they were last written; `extended` is the claim for its
    extended resources, if it may need one. `requests` and `node_allocations` are for the claims
    without an allocation, None if there are none; `steps` limit the allocator, and `is_filtered` is
    true once Filter has run it. `selectors` are the nodes to which allocated claims are bound, by
    the index of the claim. `unprepared` are the indices of allocated claims whose devices cannot be
    prepared, `unavailable` those of claims that a node could not use. `reservations`, by the
    claim's uid, and `mappings` belong to the chosen node, from Reserve on; `written` has the uids
    of the claims that PreBind has begun to write, each with the version of the claim for which the
    last allocation was sent, "" for none.
    """

    def __init__(
        self,
        info: PodInfo,
        claims: list[ResourceClaim],
        extended: ResourceClaim | None,
        steps: Steps,
    ) -> None:
        self.info = info
        self.claims = claims
        self.extended = extended
        self.requests: PodRequests | None = None
        self.node_allocations: NodeAllocations | None = None
        self.steps = steps
        self.is_filtered = False
        self.selectors = {
            index: NodeTerms([(term, 1) for term in selector.node_selector_terms])
            for index, claim in enumerate(claims)
            if (selector := _node_selector(claim)) is not None
        }
        self.unprepared: list[int] = []
        self.unavailable: set[int] = set()
        self.reservations: dict[str, Reservation] = {}
        self.written: dict[str, str] = {}
        self.mappings: tuple[RequestMapping, ...] = ()

    @property
    def all_claims(self) -> list[ResourceClaim]:
        """All claims; the claim for extended resources comes last, if it is written."""
        extended = self.extended
        if extended is None or extended.metadata.name == UNWRITTEN:
            return self.claims
        return [*self.claims, extended]

    @property
    def is_stale(self) -> bool:
        """True if the claim for the extended resources is left over from an earlier attempt."""
        return self.extended is not None and self.extended.metadata.name != UNWRITTEN

    def allocations_on(self, node: str) -> list[tuple[ResourceClaim, AllocationResult]] | None:
        """Returns the allocations of the claims on a node that passes; None if the node gives no
        device, or if Filter did not run. Sets `mappings`. Raises AllocationError.
        """
        if self.node_allocations is None or self.requests is None or not self.is_filtered:
            return None
        allocation = self.node_allocations.allocation_on(node, self.requests)
        if allocation is None:
            return None
        self.mappings = allocation.mappings
        briefly = self.node_allocations.inventory.features.config_of_chosen_requests
        return [
            (claim, allocation_result(claim, devices, node, briefly=briefly))
            for claim, devices in zip(allocation.claims, allocation.devices, strict=True)
        ]

    @property
    def allocated_score(self) -> int:
        """The part of every node's score that is due to the allocated claims."""
        return sum(_score(claim) for claim in self.claims)


def _node_selector(claim: ResourceClaim) -> NodeSelector | None:
    """Returns the nodes to which an allocated claim is bound; None for all nodes."""
    allocation = claim.status.allocation
    return None if allocation is None else allocation.node_selector


def _score(claim: ResourceClaim) -> int:
    allocation = claim.status.allocation
    if allocation is None:
        return 0
    chosen = {result.request for result in allocation.devices.results}
    return sum(
        MOST_SUB_REQUESTS - index
        for request in claim.spec.devices.requests
        for index, sub in enumerate(request.first_available)
        if f"{request.name}/{sub.name}" in chosen
    )


# None for a pod that needs no devices.
CLAIMS: StateKey[PodClaims | None] = StateKey("DynamicResources", "not found")
