"""Where a pod fits: PreFilter and Filter over many nodes, with the pods nominated to them taken into account."""

from __future__ import annotations

import msgspec
import numpy as np

from actors.framework.cycle_state import CycleState
from actors.framework.rules import PreFiltered, Rules
from actors.framework.status import Status
from actors.framework.verdicts import Diagnosis
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot
from actors.model.vectors import Bools
from actors.model.what_if import supposing


class Evaluation(msgspec.Struct, frozen=True):
    """Everything the filters had to say. `diagnosis` covers a view; `live` are its positions that are nodes.

    `diagnosis` and `live` are None if PreFilter rejected the pod for all nodes.
    """

    prefilter: PreFiltered
    diagnosis: Diagnosis | None = None
    live: Bools | None = None


def evaluate(rules: Rules, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Evaluation:
    """Run PreFilter and the filters over every node that PreFilter leaves. Raises PluginError."""
    prefilter = rules.pre_filter(state, info, snapshot)
    if not prefilter.status.ok:
        return Evaluation(prefilter)
    columns = snapshot.columns
    if prefilter.node_names is None:
        view = snapshot.all()
        live = np.zeros(view.size, dtype=np.bool_)
        live[columns.order] = True
    else:
        known = sorted(prefilter.node_names & columns.row_of.keys())
        view = snapshot.rows(np.array([columns.row_of[name] for name in known], dtype=np.int64))
        live = np.ones(view.size, dtype=np.bool_)
    return Evaluation(prefilter, filter_nodes(rules, state, info, view), live)


def filter_nodes(rules: Rules, state: CycleState, info: PodInfo, nodes: NodeView) -> Diagnosis:
    """Run the filters; a node must pass with the pods nominated to it ahead of this one, and without them."""
    diagnosis = rules.filter(state, info, nodes)
    if nodes.snapshot.nominations:
        for position, status in reject_for_nominated(rules, state, info, nodes).items():
            diagnosis.reject(position, status)
    return diagnosis


def reject_for_nominated(rules: Rules, state: CycleState, info: PodInfo, nodes: NodeView) -> dict[int, Status]:
    """The nodes, by position, that would not let the pod in if the pods nominated to them ahead of it ran there."""
    snapshot = nodes.snapshot
    rejected = {}
    for name, ahead in snapshot.nominations.ahead_of(info).items():
        row = snapshot.columns.row_of.get(name)
        position = None if row is None else nodes.position(row)
        if row is None or position is None:
            continue
        with supposing(snapshot) as supposition:
            for pod in ahead:
                supposition.add(row, pod)
            supposition.settle()
            supposed = rules.supposed_state(state, info, snapshot)
            status = rules.filter(supposed, info, snapshot.rows(np.array([row]))).status(0)
        if not status.ok:
            rejected[position] = status
    return rejected
