"""TaintToleration: rejects nodes whose taints the pod does not tolerate.

Its score prefers nodes with fewer PreferNoSchedule taints that the pod does not tolerate. Nodes
with equal taints share a class: a rule is decided once for each class, and each node takes the
result of its class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.plugin import (
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Hint,
    Ints,
    Node,
    NodeView,
    Pod,
    PodInfo,
    PreScorePlugin,
    Registration,
    Resource,
    ScorePlugin,
    StateKey,
    Status,
    Verdicts,
    default_normalize,
)

from ..kube.core import Taint
from ..kube.taints import Tolerations, lets_in
from ..model.pod_template import PerTemplate

REASON = "node(s) had untolerated taint(s)"

_SOFT: StateKey[Tolerations] = StateKey(
    "PreScoreTaintToleration", 'failed to read "PreScoreTaintToleration" from cycleState: not found'
)


def _soft_tolerations(pod: Pod) -> Tolerations:
    return Tolerations(t for t in pod.spec.tolerations if t.effect in ("", "PreferNoSchedule"))


_SOFT_OF = PerTemplate(_soft_tolerations)


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "TaintToleration"
    depends_on = DependsOn.NODE

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        classes = nodes.columns.taint_classes
        let_in = info.template.tolerations.let_in
        rejects = np.fromiter((not let_in(taints) for taints in classes), dtype=np.bool_)
        if not rejects.any():
            return None
        rejected = rejects[nodes.columns.taints[nodes.rows]]
        return Verdicts.rejecting(rejected, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        state.write(_SOFT, _SOFT_OF(info.template, info.pod))
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        soft = state.read(_SOFT)
        counts = np.fromiter(
            (_untolerated_soft(soft, taints) for taints in nodes.columns.taint_classes),
            dtype=np.int64,
        )
        return counts[nodes.columns.taints[nodes.rows]]

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> Sequence[Registration]:
        def node_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Node)
            tolerations = pod.spec.tolerations
            if not lets_in(tolerations, new.spec.taints):
                return Hint.SKIP
            was = isinstance(old, Node) and lets_in(tolerations, old.spec.taints)
            return Hint.SKIP if was else Hint.QUEUE

        def pod_changed(pod: Pod, _old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Pod)
            return Hint.QUEUE if new.metadata.uid == pod.metadata.uid else Hint.SKIP

        return (
            Registration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), node_changed
            ),
            Registration(ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION), pod_changed),
        )


def _untolerated_soft(tolerations: Tolerations, taints: Sequence[Taint]) -> int:
    return sum(t.effect == "PreferNoSchedule" and not tolerations.tolerate(t) for t in taints)
