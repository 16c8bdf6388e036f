"""NodeDeclaredFeatures: rejects nodes whose kubelet does not declare a feature the pod needs.

It does nothing without the feature gate of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    FilterPlugin,
    Handle,
    Hint,
    Node,
    NodeView,
    Pod,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    Registration,
    Resource,
    Snapshot,
    StateKey,
    Status,
    Verdicts,
)

REASON = "node(s) didn't match Pod's required features"


def _restarts_all_containers(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any(
        rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules
    )


def _maps_users_on_host_network(pod: Pod) -> bool:
    return pod.spec.host_network and pod.spec.host_users is False


# The features of Kubernetes 1.36 that a pod can need, each with a function that checks the pod.
NEEDED: Mapping[str, Callable[[Pod], bool]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _maps_users_on_host_network,
}


def needed_features(pod: Pod) -> frozenset[str]:
    return frozenset(feature for feature, needs in NEEDED.items() if needs(pod))


_NEEDED: StateKey[frozenset[str]] = StateKey(
    "PreFilterNodeDeclaredFeatures",
    'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
)


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    name = "NodeDeclaredFeatures"
    depends_on = DependsOn.NODE

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self._enabled = handle.feature_gates[self.name]

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        needed = needed_features(info.pod)
        if not self._enabled or not needed:
            return SKIP
        state.write(_NEEDED, needed)
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        needed = state.read(_NEEDED)
        lacks = np.fromiter(
            (not needed <= features for features in nodes.columns.feature_classes), dtype=np.bool_
        )
        rejected = lacks[nodes.columns.features[nodes.rows]]
        return Verdicts.rejecting(rejected, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def events_to_register(self) -> Sequence[Registration]:
        if not self._enabled:
            return ()

        def node_changed(_pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Node)
            same = isinstance(old, Node) and _declared(old) == _declared(new)
            return Hint.SKIP if same else Hint.QUEUE

        def pod_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(old, Pod)
            assert isinstance(new, Pod)
            if new.metadata.uid != pod.metadata.uid:
                return Hint.SKIP
            return Hint.SKIP if needed_features(old) == needed_features(new) else Hint.QUEUE

        nodes = Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE
        return (
            Registration(ClusterEvent(Resource.NODE, nodes), node_changed),
            Registration(ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE), pod_changed),
        )


def _declared(node: Node) -> frozenset[str]:
    return frozenset(node.status.declared_features)
