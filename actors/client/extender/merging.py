"""Combines the answers of several extenders: the remaining nodes, the summed scores, the victims.

Rejected nodes keep the extender's reason for the diagnosis. Scores are weighted and scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from berth.config.types import Extender

from ...scheduling.framework.interface import MAX_NODE_SCORE
from ...scheduling.framework.questions import FilteredNodes, Victims
from ...scheduling.framework.status import Status, unresolvable, unschedulable
from ...scheduling.model.pod_info import PodInfo
from ...scheduling.model.snapshot import NodeView
from ...scheduling.model.vectors import Ints
from ...telemetry.klog import quoted
from .wire import ExtenderError, ExtenderFilterResult, ExtenderPreemptionResult, HostPriorityList

MAX_EXTENDER_PRIORITY = 10
MAX_SUM = 1 << 62  # of scores; with it, any total fits in an int64


class RemainingNodes:
    """The nodes of a view that no extender has rejected so far."""

    def __init__(self, nodes: NodeView) -> None:
        self.left = nodes
        self._rejected: dict[int, Status] = {}

    def take(self, extender: Extender, result: ExtenderFilterResult) -> None:
        """Removes the nodes that the extender rejects.

        Raises ExtenderError, and changes nothing, if the answer cannot be used. A node that is
        rejected without a reason counts as unresolvable, so that preemption does not consider it,
        as in kube-scheduler.
        """
        if result.error:
            raise ExtenderError(result.error)
        kept: set[str] = set()
        if extender.node_cache_capable and result.node_names is not None:
            kept.update(result.node_names)
        elif result.nodes is not None:
            kept.update(node.metadata.name for node in result.nodes.items)
        names = [self.left.name(i) for i in range(self.left.size)]
        unknown = kept.difference(names)
        if unknown:
            raise ExtenderError(
                f"extender {quoted(extender.url_prefix)} claims a filtered node "
                f"{quoted(min(unknown))} which is not found in the input node list"
            )
        rows = [self.left.row(i) for i in range(self.left.size)]
        for name, row in zip(names, rows, strict=True):
            if name not in kept:
                self._rejected[row] = _rejection(name, result)
        left = [row for name, row in zip(names, rows, strict=True) if name in kept]
        self.left = self.left.snapshot.rows(np.array(left, dtype=np.int64))

    def result(self) -> FilteredNodes:
        return FilteredNodes(
            np.array([self.left.row(i) for i in range(self.left.size)], dtype=np.int64),
            self._rejected,
        )


def _rejection(node: str, result: ExtenderFilterResult) -> Status:
    reason = result.failed_and_unresolvable_nodes.get(node)
    if reason is not None:
        return unresolvable(reason)
    reason = result.failed_nodes.get(node)
    return unresolvable() if reason is None else unschedulable(reason)


# --------------------------------------------------------------------------------------- prioritize


def merged_scores(answers: Iterable[tuple[Extender, HostPriorityList]], nodes: NodeView) -> Ints:
    """Returns int64[nodes.size]: the sums of the scores, each times the weight of its extender.

    The scores are scaled from the range of extenders, 0..10, to the range of plugins, 0..100.
    """
    sums: dict[str, int] = {}
    for extender, priorities in answers:
        scale = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
        for priority in priorities:
            sums[priority.host] = sums.get(priority.host, 0) + priority.score * scale
    scores = (max(-MAX_SUM, min(sums.get(nodes.name(i), 0), MAX_SUM)) for i in range(nodes.size))
    return np.fromiter(scores, dtype=np.int64, count=nodes.size)


# ------------------------------------------------------------------------------------------ preempt


def remaining_victims(
    extender: Extender,
    result: ExtenderPreemptionResult,
    pods_on: Callable[[str], Sequence[PodInfo] | None],
) -> dict[str, Victims]:
    """Returns the victims that an extender keeps, by node, in the order of the nodes' names.

    `pods_on` returns the pods of a node, or None for an unknown node; an extender may name any of
    them as victims. Raises ExtenderError for an unknown node or pod. A node without victims is left
    out if the extender is ignorable; otherwise it raises ExtenderError as well.
    """
    remaining = {}
    for node, meta in sorted(result.node_name_to_meta_victims.items()):
        pods = pods_on(node)
        if pods is None:
            raise ExtenderError(f"nodeinfo not found for node name {quoted(node)}")
        by_uid = {info.uid: info for info in pods}
        missing = [pod.uid for pod in meta.pods if pod.uid not in by_uid]
        if missing:
            raise ExtenderError(
                f"extender: {extender.url_prefix} claims to preempt pod (UID: &{{{missing[0]}}}) "
                f"on node: {node}, but the pod is not found on that node"
            )
        if meta.pods:
            remaining[node] = Victims(
                tuple(by_uid[pod.uid] for pod in meta.pods), meta.pdb_violations
            )
        elif not extender.ignorable:
            raise ExtenderError(f"expected at least one victim pod on node {quoted(node)}")
    return remaining
