"""The NetworkCost plugin: a pod goes where the way to the pods of its application is short, by the
costs between zones and regions in NetworkTopology objects.

Mirrors the kind of the NetworkOverhead plugin of kubernetes-sigs/scheduler-plugins, its arguments
and its scores: 0 on the same node, 1 in the same zone, the cost between the zones of a region or
between two regions, and 100 where none is known. Whom a pod talks to is not told: all pods with its
label count alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from berth.plugin import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    CycleState,
    Handle,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    ObjectMeta,
    PodInfo,
    PreScorePlugin,
    Snapshot,
    StateKey,
    Status,
    WatchedKind,
    read_args,
)

API_VERSION = "networktopology.diktyo.x-k8s.io/v1alpha1"
LABEL = "appgroup.diktyo.x-k8s.io"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
SAME_ZONE, UNKNOWN = 1, 100


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    """The base of the parts of a NetworkTopology: camelCase on the wire."""


class WayCost(_Object, frozen=True):
    destination: str
    network_cost: int = 0


class Origin(_Object, frozen=True):
    origin: str
    cost_list: tuple[WayCost, ...] = ()


class TopologyCosts(_Object, frozen=True):
    """The costs between the values of a node's label, such as zones."""

    topology_key: str
    origin_list: tuple[Origin, ...] = ()


class NamedCosts(_Object, frozen=True):
    name: str
    topology_list: tuple[TopologyCosts, ...] = ()


class NetworkTopologySpec(_Object, frozen=True):
    weights: tuple[NamedCosts, ...] = ()


class NetworkTopology(_Object, frozen=True):
    metadata: ObjectMeta
    spec: NetworkTopologySpec = NetworkTopologySpec()


TOPOLOGIES = WatchedKind(
    API_VERSION, "NetworkTopology", f"/apis/{API_VERSION}/networktopologies", NetworkTopology
)

Place = tuple[str, str, str]  # the node, its zone and its region
Costs = Mapping[tuple[str, str, str], int]  # by label, origin and destination


class NetworkCostArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The costs of the name `weights_name` count, in the NetworkTopology of this name in the first
    of the namespaces that has one.
    """

    namespaces: tuple[str, ...] = ("default",)
    weights_name: str = "UserDefined"
    network_topology_name: str = "nt-default"


class _Peers(msgspec.Struct):
    """How many pods of the application are at each place, and what the ways there cost."""

    at: Counter[Place]
    costs: Costs


PEERS: StateKey[_Peers] = StateKey("NetworkCost")


class NetworkCost(PreScorePlugin, NodeScorePlugin):
    name = "NetworkCost"
    args_type = NetworkCostArgs
    lookups = (TOPOLOGIES,)

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__({}, handle)
        self.args = read_args(args, NetworkCostArgs)

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        metadata, snapshot = info.pod.metadata, nodes.snapshot
        application = metadata.labels.get(LABEL)
        if not application:
            return SKIP
        at: Counter[Place] = Counter()
        for name, _ in snapshot.pods(metadata.namespace, {LABEL: application}):
            node = snapshot.info(name)
            if node is not None:
                at[_place(node)] += 1
        if not at:
            return SKIP
        state.write(PEERS, _Peers(at, self._costs(snapshot)))
        return SUCCESS

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        peers, here = state.read(PEERS), _place(node)
        return sum(_cost(here, there, peers.costs) * pods for there, pods in peers.at.items())

    def normalize_scores(self, state: CycleState, info: PodInfo, scores: list[int]) -> list[int]:
        lowest = min(scores, default=0)
        width = max(scores, default=0) - lowest or 1
        return [MAX_NODE_SCORE - MAX_NODE_SCORE * (cost - lowest) // width for cost in scores]

    def _costs(self, snapshot: Snapshot) -> Costs:
        args, objects = self.args, snapshot.objects
        found = (
            objects.get(NetworkTopology, args.network_topology_name, each)
            for each in args.namespaces
        )
        topology = next((each for each in found if each is not None), None)
        return {
            (of.topology_key, origin.origin, cost.destination): cost.network_cost
            for named in (() if topology is None else topology.spec.weights)
            if named.name == args.weights_name
            for of in named.topology_list
            for origin in of.origin_list
            for cost in origin.cost_list
        }


def _place(node: NodeInfo) -> Place:
    return node.name, node.labels.get(ZONE, ""), node.labels.get(REGION, "")


def _cost(here: Place, there: Place, costs: Costs) -> int:
    if here[0] == there[0]:
        return 0
    if there[1:] == ("", ""):
        return UNKNOWN
    if here[1:] == there[1:]:
        return SAME_ZONE
    label, at = (ZONE, 1) if here[2] == there[2] else (REGION, 2)
    return costs.get((label, here[at], there[at]), UNKNOWN)
