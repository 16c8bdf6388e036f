"""The VolumeBinding plugin: its arguments, extension points, events and hints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from berth.config.types import (
    MAX_INT64,
    described,
)
from berth.plugin import (
    PAUSE,
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Handle,
    Hint,
    Ints,
    NodeView,
    Plugin,
    PluginArgs,
    Pod,
    PodInfo,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreFilterResult,
    PreparingPlugin,
    PreScorePlugin,
    Registration,
    ReservePlugin,
    Resource,
    ScorePlugin,
    Snapshot,
    StateKey,
    Status,
    Steps,
    Verdicts,
    error,
    read_args,
    unresolvable,
)

from ...kube.claims import class_of, uses
from ...kube.csi_translation import MIGRATED_PLUGINS
from ...kube.quantity import value
from ...kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from ..resource_args import ShapePoint, score_at, shape_problems
from ..steps import STEPS_PER_SECOND, StepBudget
from .binding import Binding, Reservation
from .pod_volumes import (
    FAILED,
    REASONS,
    ClaimProblem,
    NodeVolumes,
    PodVolumes,
    VolumeError,
    VolumeIndexes,
    claims_of,
)
from .provisioning import largest_volume

GATE = "StorageCapacityScoring"
PART = STEPS_PER_SECOND // 100  # between two pauses
# The emptier the storage of a node, the higher the score.
DEFAULT_SHAPE = (ShapePoint(0, 10), ShapePoint(100, 0))

# The pod's volumes; None for a pod without claims.
_VOLUMES: StateKey[PodVolumes | None] = StateKey("VolumeBinding", "not found")
# The volumes of the chosen node for the claims that are not bound yet, from Reserve on; None if all
# claims are bound.
_RESERVED: StateKey[Reservation | None] = StateKey("VolumeBinding's reservation")


class VolumeBindingArgs(PluginArgs, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of VolumeBinding."""

    bind_timeout_seconds: Annotated[
        int,
        msgspec.Meta(ge=0, le=MAX_INT64),
        described("How long PreBind waits for the volumes, in seconds."),
    ] = 600
    shape: Annotated[
        tuple[ShapePoint, ...] | None,
        described(f"Scores by the use of storage; only with the feature gate {GATE}."),
    ] = None

    def completed(self, gates: Mapping[str, bool]) -> VolumeBindingArgs:
        if not gates[GATE]:
            return self
        return msgspec.structs.replace(self, shape=self.shape or DEFAULT_SHAPE)

    def problems(self, gates: Mapping[str, bool]) -> Iterable[str]:
        if gates[GATE]:
            yield from shape_problems(self.shape or (), "shape")
        elif self.shape is not None:
            yield f"shape: expected none without the feature gate {GATE}"


class VolumeBinding(
    PreparingPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin
):
    """The plugin. It needs PreFilter at every other extension point, as kube-scheduler's plugin
    does.
    """

    name = "VolumeBinding"
    args_type = VolumeBindingArgs
    depends_on = DependsOn.CLAIMS
    only_own_values = True
    lookups = (
        PersistentVolumeClaim,
        PersistentVolume,
        StorageClass,
        CSINode,
        CSIDriver,
        CSIStorageCapacity,
    )

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        arguments = read_args(args, VolumeBindingArgs, handle.feature_gates)
        self._shape = arguments.shape
        self._binding = Binding(handle, float(arguments.bind_timeout_seconds))
        self._indexes = VolumeIndexes()
        self._budget = StepBudget(handle.now)

    # ------------------------------------------------------------------------------- in a decision

    def prepares_for(self, info: PodInfo) -> bool:
        return info.template.attaches

    def prepare(self, info: PodInfo, snapshot: Snapshot) -> Steps[Status]:
        """Reads the changed volumes and room, within the steps of the pod's namespace."""
        left = self._budget.attempt(info.pod.metadata.namespace, STEPS_PER_SECOND)
        since_pause = 0
        for taken in self._indexes.follow(info.pod, snapshot):
            if left.take(taken):
                return error("timed out looking for volumes")
            since_pause += taken
            if since_pause > PART:
                since_pause = 0
                yield PAUSE
        return SUCCESS

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        if not info.template.attaches:
            state.write(_VOLUMES, None)
            return SKIP
        try:
            claims = claims_of(info.pod, snapshot.objects)
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        except VolumeError as failure:
            return error(str(failure))
        if claims is None:
            state.write(_VOLUMES, None)
            return SKIP
        volumes = PodVolumes(claims, snapshot, self._indexes)
        state.write(_VOLUMES, volumes)
        return PreFilterResult(passes_all=volumes.are_usable_anywhere())

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        volumes = state.read(_VOLUMES)
        if volumes is None:
            return None
        volumes.is_filtered = True
        keys = volumes.conflicts(nodes)
        if keys is None:
            return None
        codes = np.where(keys != 0, np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.int8(0))
        failure = volumes.failure
        if not failure:
            return Verdicts(codes, keys, _reasons)
        self.handle.measures.volumes_failed("predicate")
        codes[keys & FAILED != 0] = Code.ERROR
        return Verdicts(codes, keys, lambda key: (failure,) if key & FAILED else _reasons(key))

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        if self._shape is None:
            return SKIP
        state.read(_VOLUMES)
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        scores = np.zeros(nodes.size, dtype=np.int64)
        volumes = None if self._shape is None else state.read(_VOLUMES)
        if volumes is None or self._shape is None or not volumes.is_filtered:
            return scores
        for position in range(nodes.size):
            if nodes.node(position) is not None:
                on_node = volumes.on(nodes.name(position))
                scores[position] = _score(self._shape, on_node)
        return scores

    # ----------------------------------------------------------------------------- after a decision

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        volumes = state.read(_VOLUMES)
        reserved = None
        if volumes is not None and volumes.is_filtered and volumes.claims.delayed:
            reserved = self._binding.reserve(volumes.on(node), node)
        state.write(_RESERVED, reserved)
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        reserved = state.get(_RESERVED)
        if reserved is not None:
            self._binding.unreserve(reserved)

    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        volumes = state.read(_VOLUMES)
        if _RESERVED not in state:
            status = self._without_reserve(state, volumes, node)
            return PreBindPreFlightResult(True) if status.ok else status
        return SKIP if state.read(_RESERVED) is None else PreBindPreFlightResult(True)

    def _without_reserve(self, state: CycleState, volumes: PodVolumes | None, node: str) -> Status:
        """Returns an error unless Filter has judged the node. Without Reserve, no pod can be bound,
        as in kube-scheduler.
        """
        is_filtered = volumes is not None and volumes.is_filtered
        if is_filtered or self.name in state.passes_filter:
            return SUCCESS
        return error(f'no pod volume found for node "{node}"')

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        volumes = state.read(_VOLUMES)
        if _RESERVED not in state:
            status = self._without_reserve(state, volumes, node)
            return _not_reserved_error(volumes, info, node) if status.ok else status
        reserved = state.read(_RESERVED)
        if reserved is None:
            return SUCCESS
        status = await self._binding.bind(reserved, info.pod, node)
        if not status.ok:
            self.handle.measures.volumes_failed("bind")
        return status

    # ----------------------------------------------------------------------------------- the queue

    def events_to_register(self) -> Sequence[Registration]:
        changed = Action.ADD | Action.UPDATE
        return (
            Registration(ClusterEvent(Resource.STORAGE_CLASS, changed), _storage_class_changed),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, changed), _claim_changed),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME, changed)),
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            Registration(ClusterEvent(Resource.CSI_NODE, changed), _csi_node_changed),
            Registration(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), _csi_driver_changed),
            Registration(ClusterEvent(Resource.CSI_STORAGE_CAPACITY, changed), _capacity_changed),
        )


def _not_reserved_error(volumes: PodVolumes | None, info: PodInfo, node: str) -> Status:
    """Returns the error of PreBind for a pod that was not reserved."""
    bindings = () if volumes is None else volumes.on(node).bindings
    if not bindings:
        return error(f'failed to get cached bindings for pod "{info.key}"')
    volume, _ = bindings[0]
    return error(f'binding volumes: ClaimRef got reset for pv "{volume.metadata.name}"')


def _reasons(key: int) -> tuple[str, ...]:
    return tuple(reason for bit, reason in REASONS.items() if key & bit)


def _score(shape: Sequence[ShapePoint], volumes: NodeVolumes) -> int:
    """Returns the mean score of the utilization of the storage classes; 0 without any.

    Existing volumes count by the part that the claims request. Without existing volumes, new
    volumes count by the node's capacity for their class.
    """
    used: dict[str, tuple[int, int]] = {}  # class -> requested and capacity, in bytes
    for volume, claim in volumes.bindings:
        requested, capacity = used.get(volume.spec.storage_class_name, (0, 0))
        used[volume.spec.storage_class_name] = (
            requested + value(claim.spec.resources.requests.get("storage", 0)),
            capacity + value(volume.spec.capacity.get("storage", 0)),
        )
    for provision in () if volumes.bindings else volumes.provisions:
        if provision.capacity is not None:
            name = class_of(provision.claim)
            requested, _ = used.get(name, (0, 0))
            used[name] = (
                requested + value(provision.claim.spec.resources.requests.get("storage", 0)),
                value(provision.capacity.capacity or 0),
            )
    if not used:
        return 0
    total = sum(
        score_at(shape, 100 if not 0 < capacity >= requested else requested * 100 // capacity)
        for requested, capacity in used.values()
    )
    return (2 * total + len(used)) // (2 * len(used))  # rounds halves up, as Go does


def _queue_if(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP


def _storage_class_changed(_: Pod, old: object | None, new: object | None) -> Hint:
    """Returns QUEUE if the allowed topologies changed, as nothing else in a class can help."""
    assert isinstance(new, StorageClass)
    if not isinstance(old, StorageClass):
        return Hint.QUEUE
    return _queue_if(old.allowed_topologies != new.allowed_topologies)


def _claim_changed(pod: Pod, _: object | None, new: object | None) -> Hint:
    assert isinstance(new, PersistentVolumeClaim)
    return _queue_if(uses(pod, new))


def _csi_node_changed(_: Pod, old: object | None, new: object | None) -> Hint:
    assert isinstance(new, CSINode)
    if not isinstance(old, CSINode):
        return Hint.QUEUE
    before, after = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (old, new))
    return _queue_if(before != after)


def _csi_driver_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
    """Returns QUEUE if the driver of the pod's volume no longer limits the room for volumes."""
    assert isinstance(new, CSIDriver)
    assert isinstance(old, CSIDriver)
    used = any(v.csi is not None and v.csi.driver == new.metadata.name for v in pod.spec.volumes)
    return _queue_if(used and bool(old.spec.storage_capacity) and not new.spec.storage_capacity)


def _capacity_changed(_: Pod, old: object | None, new: object | None) -> Hint:
    assert isinstance(new, CSIStorageCapacity)
    if not isinstance(old, CSIStorageCapacity):
        return Hint.QUEUE
    before, after = largest_volume(old), largest_volume(new)
    return _queue_if(after is not None and (before is None or after > before))
