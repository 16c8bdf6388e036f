"""PodNegotiation: the negotiation for a pod, kept from PreFilter to PreBind."""

from __future__ import annotations

import msgspec

from berth.plugin import NodeSelector, Pod, StateKey

from .kinds import (
    WAIT_FOR_FIRST_CONSUMER,
    PodSchedulingContext,
    PodSchedulingContextSpec,
    ResourceClaim,
)

CLAIM_NOT_AVAILABLE = "resourceclaim not available on the node"
EXCLUDED_BY_CLASS = "excluded by resource class node filter"
UNSUITABLE = "resourceclaim cannot be allocated for the node (unsuitable)"


class NegotiatedClaim(msgspec.Struct, frozen=True):
    """An entry of the pod's spec.resourceClaims, with its claim."""

    name: str
    claim: ResourceClaim

    @property
    def is_pending(self) -> bool:
        return self.claim.status.allocation is None

    @property
    def is_delayed(self) -> bool:
        """True if the claim is allocated for a pod, not at once when it is created."""
        return self.claim.spec.allocation_mode == WAIT_FOR_FIRST_CONSUMER


class Limit(msgspec.Struct, frozen=True):
    """The nodes that an entry allows, and the reason why it rejects all others."""

    index: int
    selector: NodeSelector
    reason: str


class PodNegotiation:
    """The negotiated claims of a pod that is being scheduled.

    `unavailable` are the indices of delayed claims that one of the filtered nodes cannot use.
    `potential` are the feasible nodes in PreScore, () if the drivers know them. `proposal` is the
    spec that PreBind has to publish, None if it is published. `written` are the claims that PreBind
    reserved.
    """

    def __init__(
        self, pod: Pod, entries: tuple[NegotiatedClaim, ...], context: PodSchedulingContext | None
    ) -> None:
        self.pod = pod
        self.entries = entries
        self.context = context
        self.limits: list[Limit] = []
        self.unavailable: set[int] = set()
        self.potential: tuple[str, ...] = ()
        self.proposal: PodSchedulingContextSpec | None = None
        self.written: list[ResourceClaim] = []

    @property
    def pending(self) -> list[NegotiatedClaim]:
        return [entry for entry in self.entries if entry.is_pending]

    @property
    def published(self) -> PodSchedulingContextSpec:
        return PodSchedulingContextSpec() if self.context is None else self.context.spec

    def limit(self, index: int, selector: NodeSelector | None, reason: str) -> None:
        if selector is not None:
            self.limits.append(Limit(index, selector, reason))

    def unsuitable_nodes(self) -> set[str]:
        """Returns the nodes that the drivers of claims without an allocation have ruled out."""
        pending = {entry.name for entry in self.pending}
        answers = () if self.context is None else self.context.status.resource_claims
        return {
            node for answer in answers if answer.name in pending for node in answer.unsuitable_nodes
        }

    def is_informed(self) -> bool:
        """True if the drivers have answered for every claim that is not allocated yet."""
        answers = () if self.context is None else self.context.status.resource_claims
        return {entry.name for entry in self.pending} <= {answer.name for answer in answers}


# None for a pod without negotiated claims.
NEGOTIATION: StateKey[PodNegotiation | None] = StateKey("PodSchedulingContext")
