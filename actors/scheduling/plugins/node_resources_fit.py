"""NodeResourcesFit: rejects nodes without enough free resources, and scores nodes by their use.

The filter compares the pod's requests with allocatable minus requested, column by column. The score
follows one of three strategies over a set of weighted resources: LeastAllocated, MostAllocated, or
RequestedToCapacityRatio. All arithmetic is int64 with truncating division, as in kube-scheduler,
and is written so that no amount can overflow.

A node that has no amount of an extended resource may have devices of a class that provides it: such
a resource is left to DynamicResources. For the score of such a node its devices count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    MAX_NODE_SCORE,
    SUCCESS,
    Action,
    Bools,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    DeviceClass,
    FilterPlugin,
    Handle,
    Hint,
    Ints,
    Node,
    NodeView,
    Plugin,
    Pod,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Registration,
    Resource,
    ScorePlugin,
    Snapshot,
    StateKey,
    Status,
    Verdicts,
    read_args,
)

from ..kube.devices import DEVICE_CLASS_PREFIX, may_be_devices
from ..kube.quantity import milli_value, value
from ..model.amounts import CPU, MEMORY, PODS
from ..model.cluster_objects import ClusterObjects
from ..model.pod_info import LatestPodInfos
from ..model.vectors import any_true, lowest
from .dynamic_resources.extended import ClassesByResource, any_provides
from .dynamic_resources.features import features_of
from .dynamic_resources.totals import DeviceTotals
from .resource_args import NodeResourcesFitArgs, ShapePoint, score_at

MAX_BITS = 62  # of a key, which is never negative
# The codes for a node where removing pods can help, and for one that would be too small even if it
# were empty. The greater code counts.
_RESOLVABLE, _UNRESOLVABLE = (
    np.int8(Code.UNSCHEDULABLE),
    np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
)
NATIVE = frozenset((CPU, MEMORY, "ephemeral-storage"))
NO_NAMES: frozenset[str] = frozenset()

# (part, whole > 0) -> percentage, each int64[n]
Percent = Callable[[Ints, Ints], Ints]
# (free <= allocatable, allocatable > 0, function for percentages) -> score 0..100, each int64[n]
Scorer = Callable[[Ints, Ints, Percent], Ints]


class _Requests(msgspec.Struct, frozen=True):
    """The requests of a pod. A device class provides `devices` on nodes that have no amount of them
    themselves.
    """

    amounts: dict[str, int]
    devices: frozenset[str]


_REQUESTS: StateKey[_Requests] = StateKey(
    "PreFilterNodeResourcesFit",
    'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
)


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "NodeResourcesFit"
    args_type = NodeResourcesFitArgs
    depends_on = DependsOn.NODE_AND_PODS
    only_own_values = True

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        self._with_devices = features_of(handle.feature_gates).extended_resources
        self.lookups = (DeviceClass,) if self._with_devices else ()
        self._classes = ClassesByResource()
        self._hinted = LatestPodInfos()
        parsed = read_args(args, NodeResourcesFitArgs, handle.feature_gates)
        self._ignored = frozenset(parsed.ignored_resources)
        self._ignored_groups = frozenset(parsed.ignored_resource_groups)
        strategy = parsed.scoring_strategy
        assert strategy is not None
        self._resources = strategy.resources
        self._totals = device_totals((r.name for r in self._resources), handle)
        if self._totals is not None:
            self.depends_on, self.lookups = DependsOn.CLUSTER, DeviceTotals.LOOKUPS
        self._drop_zero = False
        ratio = strategy.requested_to_capacity_ratio
        if ratio is not None:
            self._scorer: Scorer = _ratio_scorer(ratio.shape)
            self._drop_zero = True
        else:
            least = strategy.type == "LeastAllocated"
            self._scorer = least_allocated if least else most_allocated

    def pre_filter(
        self,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
    ) -> Status | PreFilterResult:
        amounts = self._requests_of(info)
        state.write(_REQUESTS, _Requests(amounts, self._devices(amounts, snapshot.objects)))
        return SUCCESS

    def _devices(self, names: Iterable[str], objects: ClusterObjects) -> frozenset[str]:
        """Returns the requested resources that a device class provides. Looks up classes only if
        one might.
        """
        extended = [name for name in names if may_be_devices(name)] if self._with_devices else ()
        if not extended:
            return NO_NAMES
        classes = self._classes.refresh(objects)
        return frozenset(name for name in extended if classes.get(name) is not None)

    def _ignores(self, resource: str) -> bool:
        if resource in NATIVE or "/" not in resource:
            return False
        return resource in self._ignored or resource.split("/", 1)[0] in self._ignored_groups

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        columns, rows = nodes.columns, nodes.rows
        where: dict[str, Bools] = {}  # reason -> the nodes that it rejects
        everywhere: list[str] = []
        codes: list[NDArray[np.int8]] = []
        full = columns.pods[rows] >= columns.allocatable(PODS)[rows]
        if any_true(full):
            where["Too many pods"] = full
            codes.append(full * _RESOLVABLE)
        requests = state.read(_REQUESTS)
        for name, amount in requests.amounts.items():
            if name not in columns.allocatable:
                if name not in requests.devices:
                    everywhere.append(f"Insufficient {name}")
                continue
            have = columns.allocatable(name)[rows]
            lacks = have - columns.requested(name)[rows] < amount
            too_small = have < amount
            if name in requests.devices:
                lacks &= have > 0
                too_small &= have > 0
            if any_true(lacks):
                where[f"Insufficient {name}"] = lacks
                codes.append(np.maximum(lacks * _RESOLVABLE, too_small * _UNRESOLVABLE))
        if everywhere:
            keys, explain = _reason_keys(where, nodes.size)
            return Verdicts(
                np.full(nodes.size, _UNRESOLVABLE), keys, lambda key: (*explain(key), *everywhere)
            )
        if not where:
            return None
        return Verdicts(reduce(np.maximum, codes), *_reason_keys(where, nodes.size))

    def passing(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Bools | None:
        columns, rows = nodes.columns, nodes.rows
        passing: Bools = columns.pods[rows] < columns.allocatable(PODS)[rows]
        requests = state.read(_REQUESTS)
        for name, amount in requests.amounts.items():
            have = columns.allocatable(name)[rows]
            enough = have - columns.requested(name)[rows] >= amount
            passing &= enough | (have <= 0) if name in requests.devices else enough
        return passing

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        total = np.zeros(nodes.size, dtype=np.int64)
        divisor: Ints | int = 0
        percent = _exact_percent if nodes.columns.allocatable.huge else _percent
        for resource in self._resources:
            amounts = _amounts(info, nodes, resource.name, self._totals)
            if amounts is None:
                continue
            free, allocatable = amounts
            weight: Ints | int = resource.weight
            if self._drop_zero or lowest(allocatable) <= 0:
                counts = allocatable > 0
                scores = self._scorer(free, np.maximum(allocatable, 1), percent)
                if self._drop_zero:
                    counts &= scores > 0
                weight = counts * weight
            else:
                scores = self._scorer(free, allocatable, percent)
            total += scores * weight
            divisor = divisor + weight
        divisor = max(divisor, 1) if isinstance(divisor, int) else np.maximum(divisor, 1)
        if self._drop_zero:
            # Go's math.Round, half away from zero; scores are never negative.
            return np.asarray(np.floor(total / divisor + 0.5).astype(np.int64))
        return np.asarray(total // divisor)

    def events_to_register(self) -> Sequence[Registration]:
        pods, nodes = (
            Action.DELETE | Action.UPDATE_POD_SCALE_DOWN,
            Action.ADD | Action.UPDATE_NODE_ALLOCATABLE,
        )
        registrations = (
            Registration(ClusterEvent(Resource.POD, pods), self._room_freed),
            Registration(ClusterEvent(Resource.NODE, nodes), self._node_changed),
        )
        if not self._with_devices:
            return registrations
        classes = ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
        return (*registrations, Registration(classes, self._class_changed))

    def _requests_of(self, info: PodInfo) -> dict[str, int]:
        requests = info.template.spec_requests.items()
        return {name: a for name, a in requests if a > 0 and not self._ignores(name)}

    def _room_freed(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        """Returns QUEUE if a pod is gone, or frees a resource that the parked pod requests."""
        assert isinstance(old, Pod)
        if new is None:
            # A nominated pod occupied its node as if it ran there.
            return Hint.QUEUE if old.spec.node_name or old.status.nominated_node_name else Hint.SKIP
        assert isinstance(new, Pod)
        if new.metadata.uid == pod.metadata.uid:
            return Hint.QUEUE
        if not new.spec.node_name:
            return Hint.SKIP
        before, after = self._hinted.of(old).requests, self._hinted.of(new).requests
        requests = self._hinted.of(pod).template.spec_requests
        helps = any(
            amount > after.get(name, 0) and requests.get(name, 0) > 0 and not self._ignores(name)
            for name, amount in before.items()
        )
        return Hint.QUEUE if helps else Hint.SKIP

    def _node_changed(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        """Returns QUEUE if the node is large enough for the pod.

        A known node must also have grown in a resource that the pod requests, or in pods, or may
        have devices for the pod.
        """
        assert isinstance(new, Node)
        requests = self._hinted.of(pod).template.spec_requests
        now = _allocatable(new)
        if now.get(PODS, 0) < 1:
            return Hint.SKIP
        short = False
        for name, amount in requests.items():
            if now.get(name, 0) < amount and amount > 0 and not self._ignores(name):
                if not self._may_have_devices(now, name):
                    return Hint.SKIP
                short = True
        if short or not isinstance(old, Node):
            return Hint.QUEUE
        before = _allocatable(old)
        grown = any(
            amount > before.get(name, 0)
            and (name == PODS or (requests.get(name, 0) > 0 and not self._ignores(name)))
            for name, amount in now.items()
        )
        return Hint.QUEUE if grown else Hint.SKIP

    def _may_have_devices(self, allocatable: Mapping[str, int], resource: str) -> bool:
        """True if a node has no amount of a resource that a class provides."""
        return (
            self._with_devices
            and allocatable.get(resource, 0) <= 0
            and may_be_devices(resource)
            and any_provides(resource, self.handle.objects.every(DeviceClass))
        )

    def _class_changed(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        """Returns QUEUE if the class begins to provide a resource that the pod requests."""
        assert isinstance(new, DeviceClass)
        requested, resource = (
            self._hinted.of(pod).template.spec_requests,
            new.spec.extended_resource_name,
        )
        if isinstance(old, DeviceClass):
            if (old.spec.extended_resource_name or "") == (resource or ""):
                return Hint.SKIP
        elif f"{DEVICE_CLASS_PREFIX}{new.metadata.name}" in requested:
            return Hint.QUEUE
        return Hint.QUEUE if resource in requested else Hint.SKIP


def _reason_keys(
    where: Mapping[str, Bools], size: int
) -> tuple[Ints, Callable[[int], tuple[str, ...]]]:
    """Returns a key for each node, and the function that turns a key into reasons.

    A key has one bit for each reason. If there are too many reasons, it is the number of their
    combination.
    """
    reasons = tuple(where)
    if not reasons:
        return np.zeros(size, dtype=np.int64), lambda _: ()
    if len(reasons) <= MAX_BITS:
        keys = [nodes * (1 << bit) for bit, nodes in enumerate(where.values())]
        return sum(keys[1:], keys[0]), lambda key: tuple(
            r for bit, r in enumerate(reasons) if key >> bit & 1
        )
    bits = np.packbits(np.array([*where.values()]), axis=0)
    combinations, numbers = np.unique(bits, axis=1, return_inverse=True)
    holds = np.unpackbits(combinations, axis=0, count=len(reasons)).astype(np.bool_)
    return numbers.astype(np.int64), lambda key: tuple(
        reason for reason, held in zip(reasons, holds[:, key], strict=True) if held
    )


def _allocatable(node: Node) -> dict[str, int]:
    amounts = node.status.allocatable.items()
    return {name: milli_value(text) if name == CPU else value(text) for name, text in amounts}


def device_totals(scored: Iterable[str], handle: Handle) -> DeviceTotals | None:
    """Returns the counts of devices for scores; None if devices can provide no scored resource."""
    features = features_of(handle.feature_gates)
    if not features.extended_resources:
        return None
    return DeviceTotals(features) if any(map(may_be_devices, scored)) else None


def _amounts(
    info: PodInfo, nodes: NodeView, resource: str, totals: DeviceTotals | None
) -> tuple[Ints, Ints] | None:
    """Returns the free amount of a resource after placing the pod, and the allocatable amount.

    Returns None for an extended resource that the pod does not request. For cpu and memory the
    non-zero requests count: 100m and 200Mi for a container without a request. An over-requested
    node has nothing free.
    """
    columns, rows = nodes.columns, nodes.rows
    match resource:
        case "cpu":
            used, request = columns.nonzero[0, rows], info.template.scoring_requests[0]
        case "memory":
            used, request = columns.nonzero[1, rows], info.template.scoring_requests[1]
        case _:
            request = info.template.container_requests.get(resource, 0)
            if request == 0 and resource not in NATIVE:
                return None
            used = columns.requested(resource)[rows]
    allocatable = columns.allocatable(resource)[rows]
    if totals is not None and may_be_devices(resource):
        allocatable, used = totals.in_place(resource, nodes, allocatable, used)
    return np.maximum(allocatable - used, request) - request, allocatable


def _percent(part: Ints, whole: Ints) -> Ints:
    return np.asarray(part * MAX_NODE_SCORE // whole)


def _exact_percent(part: Ints, whole: Ints) -> Ints:
    """Returns the same as `_percent` where 100 times an amount may exceed an int64."""
    return np.asarray((part.astype(object) * MAX_NODE_SCORE // whole).astype(np.int64))


def least_allocated(free: Ints, allocatable: Ints, percent: Percent) -> Ints:
    """Returns 100 for an empty node, 0 for a full or over-requested one."""
    return percent(free, allocatable)


def most_allocated(free: Ints, allocatable: Ints, percent: Percent) -> Ints:
    """Returns 100 for a full or over-requested node, 0 for an empty one."""
    return percent(allocatable - free, allocatable)


def _ratio_scorer(shape: Sequence[ShapePoint]) -> Scorer:
    """Returns a scorer by a line through the points of the shape, tabulated by whole percent."""
    table = np.array([score_at(shape, percent) for percent in range(101)], dtype=np.int64)

    def score(free: Ints, allocatable: Ints, percent: Percent) -> Ints:
        return np.asarray(table[percent(allocatable - free, allocatable)])

    return score
