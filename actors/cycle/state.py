"""The scheduling cycle's decision: from a pod and a snapshot to a node, or to why there is none.

Pure: the snapshot, the start index and the rng are given. All nodes are filtered at once; which of the feasible ones
are scored follows kube-scheduler's sampling, in the node tree's order from a start index that rotates. Where extenders
have a say the decision is a generator: it yields what to ask them, and is sent the answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Protocol, TypeVar

import msgspec
import numpy as np

from actors.framework.cycle_state import CycleState
from actors.framework.extender import Filtered, FilterNodes, PrioritizeNodes, Question
from actors.framework.runner import NODE_SET_REASON, PluginError, PluginScores, PreFiltered, Profile
from actors.framework.status import Status
from actors.framework.verdicts import Diagnosis
from actors.model.columns import Bools, Ints
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot
from actors.model.what_if import supposing

MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENT = 5
NO_NODES = "no nodes available to schedule pods"


class Rng(Protocol):
    def randrange(self, stop: int, /) -> int: ...


class Chosen(msgspec.Struct, frozen=True):
    """The node for the pod, and what the plugins remember of the attempt."""

    node: str
    state: CycleState
    evaluated: int
    feasible: int


class Unfit(msgspec.Struct, frozen=True):
    """No node fits. `message` is what the user reads; `rejected_by` are the plugins whose events may help."""

    message: str
    rejected_by: frozenset[str]


class Failed(msgspec.Struct, frozen=True):
    """The attempt ended with an error, not with a verdict on the nodes."""

    status: Status


Outcome = Chosen | Unfit | Failed
Answer = Filtered | Status | Ints  # to a FilterNodes the first or the second, to a PrioritizeNodes the last
R = TypeVar("R")
Steps = Generator[Question, Answer, R]


class Evaluation(msgspec.Struct, frozen=True):
    """Everything the filters had to say. `diagnosis` covers a view; `live` are its positions that are nodes.

    `diagnosis` and `live` are None if PreFilter rejected the pod for all nodes.
    """

    prefilter: PreFiltered
    diagnosis: Diagnosis | None = None
    live: Bools | None = None


def sample_size(percentage: int, nodes: int) -> int:
    """How many feasible nodes are enough. A percentage of 0 adapts: 50 - nodes/125, at least 5; 100 nodes at least."""
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, MIN_FEASIBLE_PERCENT)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)


def evaluate(profile: Profile, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Evaluation:
    """Run PreFilter and the filters over every node that PreFilter leaves. Raises PluginError."""
    prefilter = profile.pre_filter(state, info, snapshot)
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
    return Evaluation(prefilter, filter_nodes(profile, state, info, view), live)


def filter_nodes(profile: Profile, state: CycleState, info: PodInfo, nodes: NodeView) -> Diagnosis:
    """Run the filters; a node must pass with the pods nominated to it ahead of this one, and without them."""
    diagnosis = profile.filter(state, info, nodes)
    snapshot = nodes.snapshot
    for name, ahead in snapshot.nominations.ahead_of(info).items() if snapshot.nominations else ():
        row = snapshot.columns.row_of.get(name)
        position = None if row is None else nodes.position(row)
        if row is None or position is None:
            continue
        with supposing(snapshot, row, ahead):
            supposed = profile.supposed_state(state, info, snapshot)
            status = profile.filter(supposed, info, snapshot.rows(np.array([row]))).status(0)
        if not status.ok:
            diagnosis.reject(position, status)
    return diagnosis


def score(profile: Profile, state: CycleState, info: PodInfo, nodes: NodeView) -> list[PluginScores]:
    """Run PreScore and Score on feasible nodes. Raises PluginError."""
    if profile.scores_nothing:
        return []
    profile.pre_score(state, info, nodes)
    return profile.score(state, info, nodes)


def total(scores: list[PluginScores], nodes: NodeView) -> Ints:
    """The sum of all plugins' scores; 1 for every node if no plugin scores."""
    if not scores:
        return np.ones(nodes.size, dtype=np.int64)
    return np.asarray(np.sum([s.scores for s in scores], axis=0))


def fit_error(evaluation: Evaluation, nodes: int) -> str:
    """`0/N nodes are available: ...`, as users of kube-scheduler know it."""
    head = f"0/{nodes} nodes are available:"
    if evaluation.diagnosis is None or evaluation.live is None:
        return f"{head} {evaluation.prefilter.status.message}."
    counts: Counter[str] = evaluation.diagnosis.reasons(evaluation.live)
    outside = nodes - int(evaluation.live.sum())
    if outside:
        counts[NODE_SET_REASON.format(" ".join(sorted(evaluation.prefilter.restricted_by)))] += outside
    return f"{head} {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."


def _filtered(nodes: NodeView) -> Steps[Filtered]:
    """What the extenders leave of the nodes. Raises PluginError with what went wrong."""
    answer = yield FilterNodes(nodes)
    if isinstance(answer, Status):
        raise PluginError(answer)
    assert isinstance(answer, Filtered)
    return answer


class Scheduler:
    """Decides pod after pod; between pods it only remembers where the next search for nodes starts."""

    def __init__(self, rng: Rng, percentage_of_nodes_to_score: int = 0) -> None:
        self._rng = rng
        self._percentage = percentage_of_nodes_to_score
        self._start = 0

    def schedule(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> Outcome:
        """Choose a node for the pod, with no extender to ask."""
        try:
            question = next(self.steps(profile, info, snapshot, extended=False))
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome
        raise AssertionError(question)

    def steps(self, profile: Profile, info: PodInfo, snapshot: Snapshot, *, extended: bool) -> Steps[Outcome]:
        """Choose a node for the pod; `extended` if there are extenders to ask."""
        nodes = len(snapshot)
        if not nodes:
            return Unfit(NO_NODES, frozenset())
        state = CycleState()
        try:
            evaluation = evaluate(profile, state, info, snapshot)
            if evaluation.diagnosis is None or evaluation.live is None:
                return Unfit(fit_error(evaluation, nodes), frozenset((evaluation.prefilter.status.plugin,)) - {""})
            nominated = yield from self._nominated(profile, state, info, snapshot, extended)
            if nominated is not None:
                return Chosen(nominated, state, 1, 1)
            rows, evaluated = self._sample(profile, evaluation, snapshot)
            if extended and len(rows):
                filtered = yield from _filtered(snapshot.rows(rows))
                filtered.explain_to(evaluation.diagnosis)
                rows = filtered.rows
            if not len(rows):
                rejected_by = evaluation.diagnosis.rejecting_plugins(evaluation.live)
                return Unfit(fit_error(evaluation, nodes), rejected_by | set(evaluation.prefilter.restricted_by))
            chosen = int(rows[0])
            if len(rows) > 1:
                chosen = yield from self._best(profile, state, info, snapshot.rows(rows), extended)
        except PluginError as failure:
            return Failed(failure.status)
        return Chosen(snapshot.columns.names[chosen], state, evaluated, len(rows))

    @staticmethod
    def _nominated(
        profile: Profile, state: CycleState, info: PodInfo, snapshot: Snapshot, extended: bool
    ) -> Steps[str | None]:
        """The node that the pod is nominated to, if it fits there, even where PreFilter leaves other nodes only."""
        name = snapshot.nominations.node_of(info.key) or info.pod.status.nominated_node_name
        row = snapshot.columns.row_of.get(name)
        if row is None:
            return None
        view = snapshot.rows(np.array([row]))
        fits = bool(filter_nodes(profile, state, info, view).feasible()[0])
        if fits and extended:
            answer = yield FilterNodes(view)
            fits = isinstance(answer, Filtered) and len(answer.rows) > 0  # after an error, all nodes are tried
        return name if fits else None

    def _sample(self, profile: Profile, evaluation: Evaluation, snapshot: Snapshot) -> tuple[Ints, int]:
        """The feasible rows to score, and how many nodes a search one by one would have looked at."""
        diagnosis, live = evaluation.diagnosis, evaluation.live
        assert diagnosis is not None
        assert live is not None
        order = snapshot.columns.order
        fits = np.zeros(snapshot.columns.size, dtype=np.bool_)
        fits[diagnosis.view.rows] = diagnosis.feasible() & live
        if evaluation.prefilter.node_names is not None:
            considered = np.zeros(snapshot.columns.size, dtype=np.bool_)
            considered[diagnosis.view.rows] = True
            order = order[considered[order]]
        if not len(order):
            return order, 0
        percentage = profile.percentage_of_nodes_to_score
        wanted = sample_size(self._percentage if percentage is None else percentage, len(order))
        start = self._start % len(order)
        rotated = np.concatenate((order[start:], order[:start]))
        positions = np.flatnonzero(fits[rotated])
        looked_at = len(order) if len(positions) <= wanted else int(positions[wanted - 1]) + 1
        self._start = (start + looked_at) % len(order)
        return rotated[positions[:wanted]], looked_at

    def _best(self, profile: Profile, state: CycleState, info: PodInfo, nodes: NodeView, extended: bool) -> Steps[int]:
        """The row with the highest total; ties are broken by the rng."""
        totals = total(score(profile, state, info, nodes), nodes)
        if extended:
            answer = yield PrioritizeNodes(nodes)
            assert isinstance(answer, np.ndarray)
            totals = totals + answer
        ties = np.flatnonzero(totals == totals.max())
        return nodes.row(int(ties[self._rng.randrange(len(ties))] if len(ties) > 1 else ties[0]))
