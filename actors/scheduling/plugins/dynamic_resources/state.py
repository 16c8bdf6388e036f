"""What the plugin keeps of a pod through its scheduling cycle and its binding cycle."""

from __future__ import annotations

from functools import cached_property

import msgspec

from berth.plugin import PodInfo, ResourceClaim, StateKey

from ...kube.devices import MOST_SUB_REQUESTS, AllocationResult, PendingAllocation
from ...model.node_selection import NodeTerms
from .answers import Answers, Asked
from .extended import UNWRITTEN, RequestMapping
from .results import allocation_of
from .steps import Steps


class Reserved(msgspec.Struct, frozen=True):
    """The allocation that Reserve decided for a claim, and what keeps its devices from others."""

    claim: ResourceClaim
    allocation: AllocationResult
    pending: PendingAllocation


class PodClaims:
    """The claims of a pod that is being scheduled.

    `claims` are those of its spec, as they were last written; `extended` is the one for its
    extended resources, if it may need one. `asked` and `answers` stand for what has to be
    allocated, None if nothing has to; `steps` limit the search. `nowhere` are the indices of
    allocated claims whose devices cannot be prepared, `unavailable` those of claims that a node
    could not use. `reserved`, by the claim's uid, and `mappings` belong to the chosen node, from
    Reserve on; `written` are the uids of the claims that PreBind has begun to write.
    """

    def __init__(
        self, info: PodInfo, claims: list[ResourceClaim], extended: ResourceClaim | None
    ) -> None:
        self.info = info
        self.claims = claims
        self.extended = extended
        self.asked: Asked | None = None
        self.answers: Answers | None = None
        self.steps = Steps(0)
        self.nowhere: list[int] = []
        self.unavailable: set[int] = set()
        self.reserved: dict[str, Reserved] = {}
        self.written: set[str] = set()
        self.mappings: tuple[RequestMapping, ...] = ()

    @property
    def every(self) -> list[ResourceClaim]:
        """All claims, the one for extended resources last if it is written."""
        extended = self.extended
        if extended is None or extended.metadata.name == UNWRITTEN:
            return self.claims
        return [*self.claims, extended]

    @property
    def is_stale(self) -> bool:
        """True if the claim for the extended resources is left over from an earlier attempt."""
        return self.extended is not None and self.extended.metadata.name != UNWRITTEN

    def offered_on(self, node: str) -> list[tuple[ResourceClaim, AllocationResult]] | None:
        """What a node that passes gives to the claims that have to be allocated; None if it gives
        no device. Sets `mappings`. Raises AllocationError.
        """
        if self.answers is None or self.asked is None:
            return None
        given = self.answers.given(node, self.asked)
        if given is None:
            return None
        self.mappings = given.mappings
        return [
            (claim, allocation_of(claim, picked, node))
            for claim, picked in zip(given.claims, given.found, strict=True)
        ]

    @cached_property
    def selectors(self) -> dict[int, NodeTerms]:
        """The nodes to which allocated claims are bound, by the index of the claim."""
        found = {}
        for index, claim in enumerate(self.claims):
            allocation = claim.status.allocation
            if allocation is not None and allocation.node_selector is not None:
                terms = allocation.node_selector.node_selector_terms
                found[index] = NodeTerms([(term, 1) for term in terms])
        return found

    @cached_property
    def allocated_score(self) -> int:
        """What the claims that are allocated already add to the score of every node."""
        return sum(_score(claim) for claim in self.claims)


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
CLAIMS: StateKey[PodClaims | None] = StateKey("DynamicResources")
