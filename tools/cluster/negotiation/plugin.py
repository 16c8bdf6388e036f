"""The PodSchedulingContext plugin: the scheduler's side of the negotiation with drivers.

The scheduler proposes nodes for a pod in a PodSchedulingContext, drivers answer which of them are
unsuitable for each claim, and allocate the claims for the node that the scheduler selects. Mirrors
the classic part of kube-scheduler's DynamicResources plugin in Kubernetes 1.27 to 1.30.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FailedAttempt,
    FilterPlugin,
    Handle,
    Hint,
    NodeSelector,
    NodeView,
    Patch,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Registration,
    ReservePlugin,
    Resource,
    Snapshot,
    Status,
    Verdicts,
    error,
    node_selector_matches,
    unresolvable,
    unschedulable,
    validate_node_selector_term,
)
from berth.plugin import ResourceClaim as ClaimOfV1

from .binding import NegotiatedBinding, waiting_status
from .claims import ClaimError, Lookup, entries_of, is_owned_by, is_reserved_for, may_reserve, uses
from .kinds import (
    MOST_POTENTIAL_NODES,
    POD_SCHEDULING_CONTEXTS,
    RESOURCE_CLAIMS,
    RESOURCE_CLASSES,
    PodSchedulingContext,
    PodSchedulingContextSpec,
    ResourceClaim,
    ResourceClass,
)
from .state import (
    CLAIM_NOT_AVAILABLE,
    EXCLUDED_BY_CLASS,
    NEGOTIATION,
    UNSUITABLE,
    NegotiatedClaim,
    PodNegotiation,
)

_REASONS = ("", CLAIM_NOT_AVAILABLE, EXCLUDED_BY_CLASS, UNSUITABLE)


class PodSchedulingContexts(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """The plugin for claims of v1alpha2. A claim of v1 with the same name takes precedence."""

    name = "PodSchedulingContext"
    depends_on = DependsOn.CLAIMS
    only_feasible = True
    claim_kinds = (RESOURCE_CLAIMS,)
    lookups = (RESOURCE_CLAIMS, RESOURCE_CLASSES, POD_SCHEDULING_CONTEXTS, ClaimOfV1)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self._binding = NegotiatedBinding(handle)

    # ---------------------------------------------------------------------------- before the queue

    def pre_enqueue(self, pod: Pod) -> Status:
        try:
            entries_of(pod, self.handle.objects)
        except ClaimError as problem:
            return unresolvable(str(problem))
        return SUCCESS

    # ------------------------------------------------------------------------------- in a decision

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        state.write(NEGOTIATION, None)
        if not info.pod.spec.resource_claims:
            return SKIP
        objects = snapshot.objects
        try:
            entries = entries_of(info.pod, objects)
        except ClaimError as problem:
            return unresolvable(str(problem))
        if not entries:
            return SKIP
        metadata = info.pod.metadata
        context = objects.get(PodSchedulingContext, metadata.name, metadata.namespace)
        if context is not None and not is_owned_by(context, info.pod):
            uid = context.metadata.uid
            return error(
                f"PodSchedulingContext object with UID {uid} is not owned by Pod {info.key}"
            )
        pod = PodNegotiation(info.pod, entries, context)
        for index, entry in enumerate(entries):
            status = _limit(pod, index, entry, objects)
            if not status.ok:
                return status
        state.write(NEGOTIATION, pod)
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        pod = state.read(NEGOTIATION)
        if pod is None:
            return None
        keys = np.zeros(nodes.size, dtype=np.int64)
        unsuitable = pod.unsuitable_nodes()
        for position in range(nodes.size) if unsuitable else ():
            if nodes.name(position) in unsuitable:
                keys[position] = _REASONS.index(UNSUITABLE)
        for limit in pod.limits:
            terms = limit.selector.node_selector_terms
            listed = (nodes.node(position) for position in range(nodes.size))
            matching = [node is not None and node_selector_matches(terms, node) for node in listed]
            rejected = ~np.array(matching, dtype=np.bool_)
            keys[rejected] = _REASONS.index(limit.reason)
            entry = pod.entries[limit.index]
            if not entry.is_pending and entry.is_delayed and rejected.any():
                pod.unavailable.add(limit.index)
        if not keys.any():
            return None
        codes = np.where(keys != 0, np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.int8(0))
        return Verdicts(codes, keys, lambda key: (_REASONS[key],))

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        """Asks a driver to free an allocated claim of a node that the pod cannot use."""
        pod = attempt.state.get(NEGOTIATION)
        if pod is None:
            return PostFiltered(unschedulable())
        for index in sorted(pod.unavailable):
            claim = pod.entries[index].claim
            if all(user.uid == attempt.info.uid for user in claim.status.reserved_for):
                return PostFiltered(
                    unschedulable("deallocation of ResourceClaim completed"),
                    patches=(_deallocation(claim),),
                )
        return PostFiltered(unschedulable("still not schedulable"))

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        """Stores the feasible nodes for the drivers, unless the drivers know all of them."""
        pod = state.read(NEGOTIATION)
        if pod is None or not pod.pending:
            return SUCCESS
        names = [nodes.name(position) for position in range(nodes.size)]
        if not set(names) <= set(pod.published.potential_nodes):
            pod.potential = tuple(sorted(names[:MOST_POTENTIAL_NODES]))
        return SUCCESS

    # ---------------------------------------------------------------------------- after a decision

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        """Makes the proposal. A node is selected once the drivers have answered for all claims, or
        at once for a single claim.
        """
        pod = state.read(NEGOTIATION)
        if pod is None or not pod.pending:
            return SUCCESS
        published = pod.published
        selects = len(pod.pending) == 1 or pod.is_informed()
        selected = node if selects else published.selected_node
        potential = pod.potential or published.potential_nodes
        if node not in potential:
            potential = tuple(sorted((*potential[: MOST_POTENTIAL_NODES - 1], node)))
        proposal = PodSchedulingContextSpec(selected_node=selected, potential_nodes=potential)
        if proposal == published:
            return waiting_status(proposal)
        pod.proposal = proposal
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        """Does nothing, because nobody else sees the changes of Reserve."""

    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        return SKIP if state.read(NEGOTIATION) is None else SUCCESS

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        pod = state.get(NEGOTIATION)
        return SUCCESS if pod is None else await self._binding.bind(pod)

    async def roll_back(self, state: CycleState, info: PodInfo, node: str) -> None:
        pod = state.get(NEGOTIATION)
        if pod is not None:
            await self._binding.roll_back(pod)

    # ----------------------------------------------------------------------------------- the queue

    def events_to_register(self) -> Sequence[Registration]:
        changed = Action.ADD | Action.UPDATE

        def claim_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(new, ResourceClaim)
            return Hint.QUEUE if self._may_help(pod, old, new) else Hint.SKIP

        def answered(pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(new, PodSchedulingContext)
            return Hint.QUEUE if self._is_new_answer(pod, old, new) else Hint.SKIP

        def pod_changed(pod: Pod, _old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Pod)
            mine = pod.metadata.uid == new.metadata.uid
            return Hint.QUEUE if mine and self.pre_enqueue(new).ok else Hint.SKIP

        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            Registration(ClusterEvent(RESOURCE_CLAIMS.full_name, changed), claim_changed),
            Registration(ClusterEvent(RESOURCE_CLASSES.kind, changed)),
            Registration(ClusterEvent(POD_SCHEDULING_CONTEXTS.kind, changed), answered),
            Registration(
                ClusterEvent(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), pod_changed
            ),
        )

    def _may_help(self, pod: Pod, old: object | None, new: ResourceClaim) -> bool:
        """True if a claim that was added or changed may let the pod be placed."""
        if not self.pre_enqueue(pod).ok:
            return False
        was = old.status if isinstance(old, ResourceClaim) else None
        if was is not None and was.allocation is not None and new.status.allocation is None:
            return True
        return uses(pod, new) and was != new.status

    def _is_new_answer(self, pod: Pod, old: object | None, new: PodSchedulingContext) -> bool:
        """True if the answers in a context are new, and enough to select a node."""
        if not is_owned_by(new, pod):
            return False
        before = old.status if isinstance(old, PodSchedulingContext) else None
        if before == new.status:
            return False
        try:
            entries = entries_of(pod, self.handle.objects)
        except ClaimError:
            return False
        return PodNegotiation(pod, entries, new).is_informed()


def _limit(pod: PodNegotiation, index: int, entry: NegotiatedClaim, objects: Lookup) -> Status:
    """Stores the nodes to which an entry limits the pod. The status says why there are none."""
    claim = entry.claim
    if claim.status.deallocation_requested:
        return unresolvable("resourceclaim must be reallocated")
    allocation = claim.status.allocation
    if allocation is not None:
        if not may_reserve(claim) and not is_reserved_for(pod.pod, claim):
            return unresolvable("resourceclaim in use")
        return _limited(pod, index, allocation.available_on_nodes, CLAIM_NOT_AVAILABLE)
    if not entry.is_delayed:
        return unresolvable("unallocated immediate resourceclaim")
    name = claim.spec.resource_class_name
    resource_class = objects.get(ResourceClass, name)
    if resource_class is None:
        return unresolvable(f"resource class {name} does not exist")
    return _limited(pod, index, resource_class.suitable_nodes, EXCLUDED_BY_CLASS)


def _limited(pod: PodNegotiation, index: int, selector: NodeSelector | None, reason: str) -> Status:
    for term in () if selector is None else selector.node_selector_terms:
        problem = validate_node_selector_term(term)
        if problem is not None:
            return error(problem)
    pod.limit(index, selector, reason)
    return SUCCESS


def _deallocation(claim: ResourceClaim) -> Patch:
    metadata = claim.metadata
    return Patch(
        ResourceClaim,
        metadata.name,
        {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": {"reservedFor": None, "deallocationRequested": True},
        },
        metadata.namespace,
        "status",
    )
