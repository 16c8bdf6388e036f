"""The DynamicResources plugin: its arguments and extension points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np

from berth.config.types import (
    Duration,
    described,
)
from berth.plugin import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    Deletion,
    DependsOn,
    DeviceClass,
    FailedAttempt,
    FilterPlugin,
    Handle,
    Ints,
    NodeView,
    Patch,
    Plugin,
    PluginArgs,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    Registration,
    ReservePlugin,
    ResourceClaim,
    ResourceSlice,
    ScorePlugin,
    Snapshot,
    Status,
    Verdicts,
    WatchedKind,
    default_normalize,
    error,
    read_args,
    unresolvable,
    unschedulable,
)

from ...kube.devices import DeviceTaintRule, InFlightAllocation
from ...kube.kinds import BETA_DEVICE_TAINT_RULES
from ...kube.meta import HasMetadata, key
from ...kube.node_selector import selector_error
from ...model.vectors import any_true, highest
from ..steps import LONGEST, STEPS_PER_SECOND, StepBudget, Steps, TimedOutError
from .binding import DeviceBinding, without_finalizer
from .events import registrations
from .extended import ClassesByResource, resources_of, unwritten_claim
from .features import features_of
from .inventory import Inventory
from .kept_allocations import KeptAllocations
from .node_allocations import PREPARED_PER_STEP, AllocationStatus, NodeAllocations, PodRequests
from .pod_claims import (
    BindingFailedError,
    ClaimError,
    Lookup,
    check_requests,
    claims_of,
    is_ready,
    prepared_by,
)
from .requests import AllocationError
from .state import CLAIMS, PodClaims

# Steps to look at a claim, and at a request of one.
CLAIM_STEPS, REQUEST_STEPS = 4, 16
DEFAULT_BINDING_TIMEOUT = Duration(600)
_NOT_AVAILABLE = 10  # the key of nodes that an allocated claim excludes
_UNREADY = 11  # the first key of nodes with pools that are not ready, of one for each message
_MESSAGES = {
    AllocationStatus.NOT_ALLOCATED: "cannot allocate all claims",
    AllocationStatus.INVALID_POOLS: "invalid resource pools were encountered",
    AllocationStatus.NO_RESOURCE: "cannot fit resource",
    _NOT_AVAILABLE: "resourceclaim not available on the node",
}


class DynamicResourcesArgs(PluginArgs, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of DynamicResources."""

    filter_timeout: Annotated[
        Duration | None,
        described("The time to search for the devices of a pod; 0s sets no limit of the user's."),
    ] = None
    binding_timeout: Annotated[
        Duration | None,
        described("How long PreBind waits until the devices are prepared; at least 1s."),
    ] = None

    def completed(self, gates: Mapping[str, bool]) -> DynamicResourcesArgs:
        features, args = features_of(gates), self
        if args.filter_timeout is None and features.filter_timeout:
            args = msgspec.structs.replace(args, filter_timeout=Duration(10))
        if args.binding_timeout is None and features.binding_conditions:
            args = msgspec.structs.replace(args, binding_timeout=DEFAULT_BINDING_TIMEOUT)
        return args

    def problems(self, gates: Mapping[str, bool]) -> Iterable[str]:
        features = features_of(gates)
        filtering, binding = self.filter_timeout, self.binding_timeout
        if filtering is not None and not features.filter_timeout:
            yield "filterTimeout: the feature gate DRASchedulerFilterTimeout is disabled"
        elif filtering is not None and filtering < 0:
            yield f"filterTimeout: expected at least 0s, got {filtering}"
        if binding is not None and not features.binding_conditions:
            yield (
                "bindingTimeout: the feature gate DRADeviceBindingConditions or "
                "DRAResourceClaimDeviceStatus is disabled"
            )
        elif binding is not None and binding < 1:
            yield f"bindingTimeout: expected at least 1s, got {binding}"


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """The plugin. It needs PreFilter at every other extension point, as kube-scheduler's plugin
    does.
    """

    name = "DynamicResources"
    args_type = DynamicResourcesArgs
    depends_on = DependsOn.CLAIMS
    only_own_values = True
    lookups: tuple[type[HasMetadata] | WatchedKind, ...] = (
        ResourceClaim,
        ResourceSlice,
        DeviceClass,
    )
    only_feasible = True

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        typed = read_args(args, DynamicResourcesArgs, handle.feature_gates)
        self._features = features = features_of(handle.feature_gates)
        self._is_quiet = handle.feature_gates["QuietPostFilter"]
        self._binding_timeout = float(typed.binding_timeout or DEFAULT_BINDING_TIMEOUT)
        self._most_steps = int(STEPS_PER_SECOND * (typed.filter_timeout or 1))
        self._budget = StepBudget(handle.now, longest=LONGEST)
        self._binding = DeviceBinding(handle, self._binding_timeout, features)
        if features.device_taint_rules:
            rules = handle.feature_gates["DeviceTaintRuleV1"]
            self.lookups = (*self.lookups, DeviceTaintRule if rules else BETA_DEVICE_TAINT_RULES)
        self._classes = ClassesByResource()
        self._inventory: Inventory | None = None
        self._node_allocations = KeptAllocations()
        self._classes_version = -1

    # ---------------------------------------------------------------------------- before the queue

    def pre_enqueue(self, pod: Pod) -> Status:
        try:
            self._claims_of(pod, self.handle.objects)
        except ClaimError as problem:
            return unresolvable(str(problem))
        return SUCCESS

    def _claims_of(self, pod: Pod, objects: Lookup) -> list[ResourceClaim]:
        return claims_of(pod, objects, self._other_kinds)

    @cached_property
    def _other_kinds(self) -> list[WatchedKind]:
        """The kinds of claims that other plugins of the profile handle."""
        return [kind for plugin in self.neighbours for kind in plugin.claim_kinds]

    # ------------------------------------------------------------------------------- in a decision

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        if CLAIMS in state:
            return SUCCESS  # Pods are supposed on nodes, which changes no claim.
        state.write(CLAIMS, None)
        if not info.template.asks_devices:
            return SKIP
        steps = self._budget.attempt(info.pod.metadata.namespace, self._most_steps)
        try:
            return self._read_claims(state, info, snapshot, steps)
        except TimedOutError:
            return error("timed out trying to allocate devices")

    def _read_claims(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot, steps: Steps
    ) -> Status:
        """Reads the claims of a pod, and prepares their allocation. Raises TimedOutError."""
        objects = snapshot.objects

        def class_of(name: str) -> DeviceClass | None:
            return objects.get(DeviceClass, name)

        steps.spend(CLAIM_STEPS * len(info.pod.spec.resource_claims))
        try:
            claims = self._claims_of(info.pod, objects)
        except ClaimError as problem:
            return unresolvable(str(problem))
        resources = None
        if self._features.extended_resources:
            resources = resources_of(info, self._classes.refresh(objects))
            steps.spend(REQUEST_STEPS * len(resources or ()))
        extended = None if resources is None else self._extended_claim(info.pod, snapshot)
        if not claims and extended is None:
            return SKIP
        to_allocate = []
        for claim in claims:
            status = _check_allocated(claim)
            if status is not None:
                return status
            if claim.status.allocation is not None:
                continue
            if objects.get(InFlightAllocation, claim.metadata.uid) is not None:
                return unresolvable(
                    f"resource claim {key(claim)} is in the process of being allocated"
                )
            steps.spend(REQUEST_STEPS * len(claim.spec.devices.requests))
            status = check_requests(claim, class_of, self._features)
            if status is not None:
                return status
            to_allocate.append(claim)
        pod = PodClaims(info, claims, extended, steps)
        pod.unprepared = [i for i, claim in enumerate(claims) if self._cannot_be_prepared(claim)]
        if not pod.is_stale and (to_allocate or extended is not None):
            requests = PodRequests(info.pod, tuple(to_allocate), resources or {}, extended)
            pod.requests = requests
            pod.node_allocations = self._allocations_for(requests, snapshot, steps)
        state.write(CLAIMS, pod)
        return SUCCESS

    def _cannot_be_prepared(self, claim: ResourceClaim) -> bool:
        """True if the devices of an allocated claim failed, or took too long, to be prepared."""
        if claim.status.allocation is None or not self._features.binding_conditions:
            return False
        try:
            if is_ready(claim):
                return False
        except BindingFailedError:
            return True
        until = prepared_by(claim, self._binding_timeout)
        return until is not None and until < self.handle.wall()

    def _extended_claim(self, pod: Pod, snapshot: Snapshot) -> ResourceClaim:
        """Returns the claim for the pod's extended resources: that of an earlier attempt, or a new
        one.
        """
        earlier = self._up_to_date(snapshot).extended_claim_of(pod.metadata.uid)
        return unwritten_claim(pod) if earlier is None else earlier

    def _up_to_date(self, snapshot: Snapshot) -> Inventory:
        if self._inventory is None or not self._inventory.is_of(snapshot.objects):
            self._inventory = Inventory(snapshot.objects, self._features)
            self._node_allocations.clear()
        self._inventory.refresh()
        return self._inventory

    def _allocations_for(
        self, requests: PodRequests, snapshot: Snapshot, steps: Steps
    ) -> NodeAllocations:
        """Returns the devices that the nodes give to pods with these requests. Raises
        TimedOutError.
        """
        objects, inventory = snapshot.objects, self._up_to_date(snapshot)
        inventory.forget_nodes(snapshot.columns.row_of)
        version = objects.version(DeviceClass)
        if self._classes_version != version:
            self._node_allocations.clear()
            self._classes_version = version
        shape = requests.shape(snapshot.columns, self._classes, steps)
        allocations = self._node_allocations.get(shape)
        if allocations is None or not allocations.is_of(snapshot):
            steps.spend(len(shape) // PREPARED_PER_STEP)
            allocations = NodeAllocations(
                requests,
                inventory,
                lambda name: objects.get(DeviceClass, name),
                self._classes,
                snapshot,
                len(shape),
            )
            self._node_allocations.add(shape, allocations)
        return allocations

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        pod = state.read(CLAIMS)
        if pod is None:
            return None
        if pod.is_stale:
            every = np.ones(nodes.size, dtype=np.bool_)
            return Verdicts.rejecting(
                every,
                Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
                "cannot schedule extended resource claim",
            )
        allocations, failure = pod.node_allocations, ""
        unready: list[str] = []
        if allocations is None or pod.requests is None:
            keys = np.zeros(nodes.size, dtype=np.int64)
        else:
            pod.is_filtered = True
            allocations.refresh(nodes, pod.requests, pod.steps)
            keys = allocations.statuses[nodes.rows].astype(np.int64)
            failure = allocations.failure
            unready = _number_unready(allocations, pod.requests, keys, nodes)
        if pod.unprepared or pod.selectors:
            self._exclude(pod, keys, nodes)
        if not highest(keys):
            return None
        codes = np.where(keys != 0, np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.int8(0))
        codes[keys == AllocationStatus.FAILED] = Code.ERROR

        def explain(key: int) -> tuple[str, ...]:
            if key >= _UNREADY:
                return (unready[key - _UNREADY],)
            return (failure if key == AllocationStatus.FAILED else _MESSAGES[key],)

        return Verdicts(codes, keys, explain)

    @staticmethod
    def _exclude(pod: PodClaims, keys: Ints, nodes: NodeView) -> None:
        """Marks the nodes that pass the filter so far, but cannot use an allocated claim."""
        passing = keys == 0
        if not any_true(passing):
            return
        for index in pod.unprepared:
            pod.unavailable.add(index)
            keys[passing] = _NOT_AVAILABLE
        for index, selector in pod.selectors.items():
            elsewhere = passing & ~selector.match(nodes)
            if any_true(elsewhere):
                pod.unavailable.add(index)
                keys[elsewhere] = _NOT_AVAILABLE

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        pod = state.read(CLAIMS) if self._features.prioritized_lists else None
        allocations = None if pod is None or not pod.is_filtered else pod.node_allocations
        if pod is None or allocations is None:
            return np.zeros(nodes.size, dtype=np.int64)
        scores: Ints = allocations.scores[nodes.rows] + pod.allocated_score
        return scores

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=False)

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        """Gives up an allocation that no node can use, to try other devices next."""
        if CLAIMS not in attempt.state:
            return PostFiltered(error(CLAIMS.not_found))
        pod = attempt.state.read(CLAIMS)
        if pod is None:
            return PostFiltered(self._idle("no new claims to deallocate"))
        uid = attempt.info.uid
        for index in sorted(pod.unavailable):
            claim = pod.claims[index]
            users = claim.status.reserved_for
            if not users or (len(users) == 1 and users[0].uid == uid):
                return PostFiltered(
                    unschedulable("deallocation of ResourceClaim completed"),
                    patches=(_deallocation(claim),),
                )
        if pod.is_stale and pod.extended is not None:
            return PostFiltered(
                unschedulable("deletion of ResourceClaim completed"),
                patches=_removal(pod.extended),
            )
        return PostFiltered(self._idle("still not schedulable"))

    def _idle(self, text: str) -> Status:
        """Returns the answer of PostFilter if there is nothing to do, which is no user's matter."""
        return unschedulable(*() if self._is_quiet else (text,))

    # ----------------------------------------------------------------------------- after a decision

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        pod = state.read(CLAIMS)
        if pod is None or pod.requests is None:
            return SUCCESS
        try:
            allocations = pod.allocations_on(node)
        except AllocationError as problem:
            return error(str(problem))
        if allocations is None:
            return error("claim allocation not found for node") if pod.requests.claims else SUCCESS
        for claim, allocation in allocations:
            self._binding.reserve(pod, claim, allocation)
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pod = state.get(CLAIMS)
        if pod is not None:
            self._binding.unreserve(pod)

    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        return SKIP if state.read(CLAIMS) is None else PreBindPreFlightResult(True)

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        pod = state.read(CLAIMS)
        return SUCCESS if pod is None else await self._binding.bind(pod, node)

    async def roll_back(self, state: CycleState, info: PodInfo, node: str) -> None:
        pod = state.get(CLAIMS)
        if pod is not None:
            await self._binding.roll_back(pod)

    # ----------------------------------------------------------------------------------- the queue

    def events_to_register(self) -> Sequence[Registration]:
        return registrations(
            lambda pod: self._claims_of(pod, self.handle.objects),
            self._other_kinds,
            with_rules=self._features.device_taint_rules,
        )


def _number_unready(
    allocations: NodeAllocations, requests: PodRequests, keys: Ints, nodes: NodeView
) -> list[str]:
    """Gives the nodes whose pools are not ready a key for each message, and returns the messages
    in the order of the keys.
    """
    positions = np.flatnonzero(keys == AllocationStatus.UNREADY_POOL)
    if not len(positions):
        return []
    rows = [nodes.row(position) for position in positions.tolist()]
    messages = allocations.unready_messages(rows, requests)
    numbers = {message: number for number, message in enumerate(dict.fromkeys(messages))}
    keys[positions] = [_UNREADY + numbers[message] for message in messages]
    return [*numbers]


def _check_allocated(claim: ResourceClaim) -> Status | None:
    """Returns the reason why an allocated claim cannot be judged; None if it can."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return None
    problem = selector_error(allocation.node_selector)
    return error(problem) if problem else None


def _deallocation(claim: ResourceClaim) -> Patch:
    metadata = claim.metadata
    return Patch(
        ResourceClaim,
        metadata.name,
        {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": {"reservedFor": None, "allocation": None, "devices": None},
        },
        metadata.namespace,
        "status",
    )


def _removal(claim: ResourceClaim) -> tuple[Patch | Deletion, ...]:
    """Returns the changes that delete a claim that the scheduler made, and first its finalizer."""
    metadata = claim.metadata
    unprotected = Patch(
        ResourceClaim,
        metadata.name,
        {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "finalizers": without_finalizer(claim),
            }
        },
        metadata.namespace,
    )
    deletion = Deletion(ResourceClaim, metadata.name, metadata.uid, metadata.namespace)
    return unprotected, deletion
