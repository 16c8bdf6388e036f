"""The NodeResourceTopologyMatch plugin: no pod goes where its kubelet would refuse it, because what
it requests is not in one NUMA node.

An agent on each node writes what is available in each NUMA node, some time after the kubelet has
given it away. Until then the plugin counts the pods that it has placed itself: it plays the
kubelet's choices for them, in their order, and looks into what is left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    CycleState,
    Handle,
    Hint,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    PluginScope,
    Pod,
    PodInfo,
    PreFilterPlugin,
    PreScorePlugin,
    Registration,
    ReservePlugin,
    Resource,
    Snapshot,
    StateKey,
    Status,
    read_args,
    unschedulable,
)

from .alignment import Room, room_of, unaligned
from .demand import PodDemand, demand_of
from .topologies import TOPOLOGIES, NodeResourceTopology, NumaNodes, numa_nodes
from .zone_scores import (
    Strategy,
    balanced_allocation,
    by_strategy,
    fewest_numa_nodes,
    least_allocated,
    most_allocated,
)

STRATEGIES: dict[str, Strategy] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}


class WeightedResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    weight: int = 1


class ZoneStrategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"] = (
        "LeastAllocated"
    )
    resources: tuple[WeightedResource, ...] = ()


class MatchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    scoring_strategy: ZoneStrategy = ZoneStrategy()


class _Attempt(msgspec.Struct, frozen=True):
    """What the pod needs, and the objects of the nodes."""

    demand: PodDemand
    topologies: Mapping[str, NodeResourceTopology]


class _Placed(msgspec.Struct):
    """The pods that were placed on a node since an agent wrote this version, by key."""

    version: str
    demands: dict[str, PodDemand] = {}


FORGET_SECONDS = 60.0
ATTEMPT: StateKey[_Attempt] = StateKey("NodeResourceTopologyMatch")


class NodeResourceTopologyMatch(
    PreFilterPlugin, NodeFilterPlugin, PreScorePlugin, NodeScorePlugin, ReservePlugin
):
    name = "NodeResourceTopologyMatch"
    args_type = MatchArgs
    lookups = (TOPOLOGIES,)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__({}, handle)
        strategy = read_args(args, MatchArgs).scoring_strategy
        self._strategy = STRATEGIES.get(strategy.type)
        self._weights = {each.name: each.weight for each in strategy.resources}
        self._read: dict[str, tuple[NodeResourceTopology, NumaNodes]] = {}
        self._placed: dict[str, _Placed] = {}

    async def start(self, scope: PluginScope) -> None:
        scope.every(FORGET_SECONDS, self._forget)

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        demand = demand_of(info)
        if demand.needs_no_numa_node:
            return SKIP
        topologies = snapshot.objects.within(NodeResourceTopology, "")
        state.write(ATTEMPT, _Attempt(demand, topologies))
        return SUCCESS

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        attempt = state.read(ATTEMPT)
        topology = attempt.topologies.get(node.name)
        if topology is None or not self._numa_nodes(topology).is_single:
            return SUCCESS
        nodes, room = self._left(topology, node.pods)
        what = unaligned(attempt.demand, nodes.by_pod, room)
        return unschedulable(f"cannot align {what}") if what else SUCCESS

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        attempt = state.get(ATTEMPT)
        return SKIP if attempt is None or not attempt.demand.is_guaranteed else SUCCESS

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        attempt = state.read(ATTEMPT)
        topology = attempt.topologies.get(node.name)
        if topology is None:
            return 0
        nodes, room = self._left(topology, node.pods)
        left = msgspec.structs.replace(nodes, available=room)
        if self._strategy is None:
            return fewest_numa_nodes(attempt.demand, left)
        if not nodes.is_single:
            return 0
        return by_strategy(self._strategy, attempt.demand, left, self._weights)

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        attempt, topology = state.get(ATTEMPT), self.handle.objects.get(NodeResourceTopology, node)
        if attempt is not None and topology is not None:
            version = topology.metadata.resource_version
            placed = self._placed.get(node)
            if placed is None or placed.version != version:
                placed = self._placed[node] = _Placed(version)
            placed.demands[info.key] = attempt.demand
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        if node in self._placed:
            self._placed[node].demands.pop(info.key, None)

    def events_to_register(self) -> Sequence[Registration]:
        written = ClusterEvent("NodeResourceTopology", Action.ADD | Action.UPDATE | Action.DELETE)
        return (
            Registration(written, self._may_have_room),
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)),
        )

    def _may_have_room(self, _: Pod, old: object | None, new: object | None) -> Hint:
        """Agents write again and again: pods are tried again if there is more of anything."""
        if not isinstance(old, NodeResourceTopology) or not isinstance(new, NodeResourceTopology):
            return Hint.QUEUE
        before, had = self._left(old)
        after, has = self._left(new)
        more = any(
            amount > had.get(number, {}).get(name, 0)
            for number, amounts in has.items()
            for name, amount in amounts.items()
        )
        alike = (before.is_single, before.by_pod) == (after.is_single, after.by_pod)
        return Hint.QUEUE if more or not alike else Hint.SKIP

    def _left(
        self, topology: NodeResourceTopology, there: Collection[str] | None = None
    ) -> tuple[NumaNodes, Room]:
        """Returns the NUMA nodes of a node, and what is left there by the pods that its agent does
        not know yet; with `there`, only pods with these keys count.
        """
        nodes = self._numa_nodes(topology)
        room = room_of(nodes)
        placed = self._placed.get(topology.metadata.name)
        if placed is not None and placed.version == topology.metadata.resource_version:
            for key, demand in placed.demands.items():
                if there is None or key in there:
                    unaligned(demand, nodes.by_pod, room)
        return nodes, room

    def _numa_nodes(self, topology: NodeResourceTopology) -> NumaNodes:
        name = topology.metadata.name
        known, nodes = self._read.get(name, (None, None))
        if nodes is None or known is not topology:
            nodes = numa_nodes(topology)
            self._read[name] = topology, nodes
        return nodes

    def _forget(self) -> None:
        """Forgets the nodes without an object."""
        names = {each.metadata.name for each in self.handle.objects.every(NodeResourceTopology)}
        self._read = {name: read for name, read in self._read.items() if name in names}
        self._placed = {name: placed for name, placed in self._placed.items() if name in names}
