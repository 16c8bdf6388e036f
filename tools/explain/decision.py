"""A decision in full: what every plugin said of every node, as the recorded decisions of kube-scheduler put it."""

from __future__ import annotations

import msgspec
import numpy as np

from actors.cycle.state import Evaluation, evaluate, filter_nodes, fit_error, score, total
from actors.framework.cycle_state import CycleState
from actors.framework.extender import NAME as EXTENDER
from actors.framework.extender import Filtered, FilterNodes, PrioritizeNodes, Steps
from actors.framework.rules import NODE_SET_REASON, PluginError, PluginScores
from actors.framework.runner import Profile
from actors.framework.status import Status, unresolvable
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot


class Verdict(msgspec.Struct, frozen=True):
    """A plugin's word on a node; plugin "" and no reasons for a node that passes."""

    code: str
    plugin: str
    reasons: list[str]


class Skipped(msgspec.Struct, frozen=True):
    """Plugins that asked to be skipped, sorted; None where the phase did not end."""

    filter: list[str] | None = None
    score: list[str] | None = None


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    """The decision for one pod. Scores are normalised and weighed."""

    prefilter: Verdict | None = None
    prefilter_nodes: list[str] | None = None
    filter: dict[str, Verdict] = {}
    score: dict[str, dict[str, int]] = {}
    total: dict[str, int] = {}
    best: list[str] = []
    hosts: list[str] = []
    message: str | None = None
    preemption: None = None
    preemption_message: str | None = None
    skipped: Skipped = Skipped()
    allocations: None = None


class Failure(msgspec.Struct, frozen=True):
    """The attempt would end with an error."""

    error: str


def decide(profile: Profile, info: PodInfo, snapshot: Snapshot) -> Decision | Failure:
    """What the scheduler would decide for the pod, with all nodes looked at and no extender to ask."""
    try:
        question = next(steps(profile, info, snapshot, extended=False))
    except StopIteration as done:
        decision: Decision | Failure = done.value
        return decision
    raise AssertionError(question)


def steps(profile: Profile, info: PodInfo, snapshot: Snapshot, *, extended: bool) -> Steps[Decision | Failure]:
    """As `decide`; `extended` if there are extenders to ask."""
    state = CycleState()
    try:
        evaluation = evaluate(profile, state, info, snapshot)
        return (yield from _decided(profile, state, info, snapshot, evaluation, extended))
    except PluginError as failure:
        return Failure(failure.status.message)


def _decided(
    profile: Profile, state: CycleState, info: PodInfo, snapshot: Snapshot, evaluation: Evaluation, extended: bool
) -> Steps[Decision]:
    prefilter, diagnosis, live = evaluation.prefilter, evaluation.diagnosis, evaluation.live
    if diagnosis is None or live is None:
        return Decision(prefilter=_verdict(prefilter.status), message=fit_error(evaluation, len(snapshot)))
    names = None if prefilter.node_names is None else sorted(prefilter.node_names)
    view = diagnosis.view
    rows = np.arange(snapshot.columns.size)[view.rows]
    nominated = yield from _nominated(profile, state, info, snapshot, extended)
    positions = np.flatnonzero(diagnosis.feasible() & live)
    if extended and len(positions):
        answer = yield FilterNodes(snapshot.rows(rows[positions]))
        if isinstance(answer, Status):
            raise PluginError(answer)
        assert isinstance(answer, Filtered)
        answer.explain_to(diagnosis)
        positions = np.flatnonzero(diagnosis.feasible() & live)
    verdicts = {view.name(i): _verdict(diagnosis.status(i)) for i in np.flatnonzero(live).tolist()}
    outside = _verdict(unresolvable(NODE_SET_REASON.format(" ".join(sorted(prefilter.restricted_by)))))
    verdicts |= {name: outside for name in snapshot.columns.row_of if name not in verdicts}
    skipped = sorted(state.skip_filter)
    if not len(positions):
        hosts = [] if nominated is None else [nominated]
        return Decision(
            prefilter_nodes=names,
            filter=verdicts,
            hosts=hosts,
            message=None if hosts else fit_error(evaluation, len(snapshot)),
            skipped=Skipped(skipped),
        )
    feasible = snapshot.rows(rows[positions])
    scores = score(profile, state, info, feasible)
    if extended:
        answer = yield PrioritizeNodes(feasible)
        assert isinstance(answer, np.ndarray)
        scores.append(PluginScores(EXTENDER, answer))
    totals = _by_node(total(scores, feasible), feasible)
    highest = max(totals.values())
    best = sorted(name for name, sum_ in totals.items() if sum_ == highest)
    return Decision(
        prefilter_nodes=names,
        filter=verdicts,
        score={plugin.plugin: _by_node(plugin.scores, feasible) for plugin in scores},
        total=totals,
        best=best,
        hosts=best if nominated is None else [nominated],
        skipped=Skipped(skipped, None if profile.scores_nothing else sorted(state.skip_score)),
    )


def _nominated(
    profile: Profile, state: CycleState, info: PodInfo, snapshot: Snapshot, extended: bool
) -> Steps[str | None]:
    """The node that the pod is nominated to, if it passes."""
    name = info.pod.status.nominated_node_name
    row = snapshot.columns.row_of.get(name)
    if row is None:
        return None
    view = snapshot.rows(np.array([row]))
    passes = bool(filter_nodes(profile, state, info, view).feasible()[0])
    if passes and extended:
        answer = yield FilterNodes(view)
        passes = isinstance(answer, Filtered) and len(answer.rows) > 0
    return name if passes else None


def _verdict(status: Status) -> Verdict:
    return Verdict(status.code.label, status.plugin, sorted(status.reasons))


def _by_node(values: np.ndarray[tuple[int, ...], np.dtype[np.int64]], nodes: NodeView) -> dict[str, int]:
    return {nodes.name(i): value for i, value in enumerate(values.tolist())}
