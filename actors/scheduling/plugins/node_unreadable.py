"""NodeUnreadable: the first filter of every profile, which no profile can disable.

It rejects nodes whose latest state could not be read. kube-scheduler has no such nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from berth.plugin import (
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Hint,
    NodeView,
    Pod,
    PodInfo,
    Registration,
    Resource,
    Verdicts,
)

REASON = "node(s) could not be read"


class NodeUnreadable(FilterPlugin):
    name = "NodeUnreadable"
    depends_on = DependsOn.NODE

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        columns = nodes.columns
        if not columns.stale_nodes:
            return None
        return Verdicts.rejecting(
            columns.stale[nodes.rows], Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON
        )

    def events_to_register(self) -> Sequence[Registration]:
        """Registers new nodes: a node that can be read again is reported as one."""

        def is_new(_pod: Pod, old: object | None, _new: object | None) -> Hint:
            return Hint.QUEUE if old is None else Hint.SKIP

        return (
            Registration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), is_new
            ),
        )
