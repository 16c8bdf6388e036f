"""Finds where a pod fits: PreFilter and Filter over many nodes, taking the pods nominated to them
into account.
"""

from __future__ import annotations

import msgspec
import numpy as np

from ..framework.cycle_state import CycleState
from ..framework.questions import FilteredNodes
from ..framework.status import Status, fit_error
from ..framework.verdicts import Diagnosis
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import Bools
from ..model.what_if import supposing
from .rules import PreFiltered, Rules

# In a view of fewer nodes, each node is checked for nominations.
FEW = 64


class Evaluation(msgspec.Struct, frozen=True):
    """The answers of PreFilter and the filters about a pod, and the CycleState after them.

    `diagnosis` covers a view of nodes, `live` marks the positions of the view that are nodes. Both
    are None if PreFilter rejected the pod for all nodes.
    """

    state: CycleState
    prefilter: PreFiltered
    diagnosis: Diagnosis | None = None
    live: Bools | None = None

    def besides(self, filtered: FilteredNodes) -> Evaluation:
        """Returns this evaluation with the nodes that extenders rejected."""
        assert self.diagnosis is not None
        return msgspec.structs.replace(self, diagnosis=filtered.added_to(self.diagnosis))

    def message(self, nodes: int) -> str:
        """Returns why none of all `nodes` was left: `0/N nodes are available: ...`."""
        if self.diagnosis is None or self.live is None:
            message = self.prefilter.status.message
            return f"0/{nodes} nodes are available: {message}." if message else fit_error(nodes, ())
        counts = self.diagnosis.reasons(self.live)
        outside = nodes - int(np.count_nonzero(self.live))
        if outside:
            counts[self.prefilter.reason_outside] += outside
        return fit_error(nodes, counts)

    def rejected_by(self) -> frozenset[str]:
        """Returns the plugins that rejected the pod or restricted it to some nodes."""
        restricted_by = frozenset(self.prefilter.restricted_by)
        if self.diagnosis is None or self.live is None:
            return (restricted_by | {self.prefilter.status.plugin}) - {""}
        return restricted_by | self.diagnosis.rejecting_plugins(self.live)

    def pending(self) -> frozenset[str]:
        """Returns the rejecting plugins that only wait for something to happen."""
        if self.diagnosis is None or self.live is None:
            return frozenset()
        return self.diagnosis.pending_plugins(self.live)


def evaluate(rules: Rules, info: PodInfo, snapshot: Snapshot) -> Evaluation:
    """Runs PreFilter and the filters over every node that PreFilter leaves. Raises PluginError."""
    state = CycleState()
    return filtered(rules, state, info, snapshot, rules.pre_filter(state, info, snapshot))


def filtered(
    rules: Rules, state: CycleState, info: PodInfo, snapshot: Snapshot, prefilter: PreFiltered
) -> Evaluation:
    """Runs the filters over every node that PreFilter left. Raises PluginError."""
    if not prefilter.status.ok:
        return Evaluation(state, prefilter)
    columns = snapshot.columns
    if prefilter.node_names is None:
        view = snapshot.all()
        live = np.zeros(view.size, dtype=np.bool_)
        live[columns.order] = True
    else:
        view = snapshot.rows(columns.rows_of(prefilter.node_names))
        live = np.ones(view.size, dtype=np.bool_)
    return Evaluation(state, prefilter, filter_nodes(rules, state, info, view), live)


def filter_nodes(rules: Rules, state: CycleState, info: PodInfo, nodes: NodeView) -> Diagnosis:
    """Runs the filters. A node must pass both with and without the pods that are nominated to it
    ahead of this one.
    """
    rejected = reject_for_nominated(rules, state, info, nodes) if nodes.snapshot.nominations else {}
    return rules.filter(state, info, nodes, rejected)


def fits_on(rules: Rules, state: CycleState, info: PodInfo, node: NodeView) -> bool:
    """True if a single node passes as in `filter_nodes`; gives no reasons."""
    passing = rules.passing(state, info, node)
    if passing is not None and not passing[0]:
        return False
    return not (node.snapshot.nominations and reject_for_nominated(rules, state, info, node))


def reject_for_nominated(
    rules: Rules, state: CycleState, info: PodInfo, nodes: NodeView
) -> dict[int, Status]:
    """Returns the nodes, by position, that reject the pod once the pods nominated to them ahead of
    it run there.
    """
    snapshot = nodes.snapshot
    ahead = _nominated_ahead(info, nodes)
    positions = list(ahead)
    rejected = {}
    together = len(positions) if rules.filters_row_by_row(state) else 1
    for start in range(0, len(positions), max(together, 1)):
        some = positions[start : start + together]
        rows = [nodes.row(position) for position in some]
        with supposing(snapshot) as supposition:
            for position, row in zip(some, rows, strict=True):
                for pod in ahead[position]:
                    supposition.add(row, pod)
            supposition.settle()
            supposed = rules.supposed_state(state, info, snapshot)
            diagnosis = rules.filter(supposed, info, snapshot.rows(np.array(rows)))
        for i in np.flatnonzero(~diagnosis.feasible()).tolist():
            rejected[some[i]] = diagnosis.status(i)
    return rejected


def _nominated_ahead(info: PodInfo, nodes: NodeView) -> dict[int, list[PodInfo]]:
    """Returns the nominated pods that the pod must leave room for, by position in the view.
    Positions without such pods are left out.
    """
    nominations, row_of = nodes.snapshot.nominations, nodes.columns.row_of
    named = nominations.nodes()
    if nodes.size < max(len(named), FEW):
        ahead = {
            position: nominations.ahead_of(info, nodes.name(position))
            for position in range(nodes.size)
        }
    else:
        rows = np.array([row_of[name] for name in named if name in row_of], dtype=np.int64)
        names = [nodes.columns.names[row] for row in rows.tolist()]
        positions = nodes.positions(rows).tolist()
        ahead = {
            p: nominations.ahead_of(info, name)
            for p, name in zip(positions, names, strict=True)
            if p >= 0
        }
    return {position: pods for position, pods in ahead.items() if pods}
