"""A decision in full: what every plugin said of every node, as the recorded decisions of
kube-scheduler put it.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec
import numpy as np
from berth.actors.scheduling.decision.algorithm import score, total, unfit_message
from berth.actors.scheduling.decision.failed_attempt import Attempt
from berth.actors.scheduling.decision.feasibility import Evaluation, evaluate, filter_nodes
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.rules import NODE_SET_REASON, PluginError, PluginScores
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.post_filter import FailedAttempt, PostFiltered, Rng
from berth.actors.scheduling.framework.questions import (
    EXTENDER,
    Filtered,
    FilterNodes,
    PrioritizeNodes,
    Steps,
    Victims,
    unasked,
)
from berth.actors.scheduling.framework.status import Status, unresolvable
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import NodeView, Snapshot
from berth.actors.scheduling.plugins.default_preemption.plugin import DefaultPreemption
from berth.actors.scheduling.plugins.default_preemption.victims import Candidate
from berth.tools.explain.contest import Contest, contest_of


class Verdict(msgspec.Struct, frozen=True):
    """A plugin's word on a node; plugin "" and no reasons for a node that passes."""

    code: str
    plugin: str
    reasons: list[str]


class Skipped(msgspec.Struct, frozen=True):
    """Plugins that asked to be skipped, sorted; None where the phase did not end."""

    filter: list[str] | None = None
    score: list[str] | None = None


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """The pods, as namespace/name, that would have to go from a node, and how many budgets that
    would break.
    """

    victims: list[str]
    pdb_violations: int


class Preemption(msgspec.Struct, frozen=True, rename="camel"):
    """Every node where preemption would help; any of the `alternatives` may be nominated, for they
    cost the same.
    """

    nominated_node: str
    victims: list[str]
    alternatives: list[str]
    candidates: dict[str, Cost]


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
    preemption: Preemption | None = None
    preemption_message: str | None = None
    skipped: Skipped = Skipped()
    allocations: None = None


class Failure(msgspec.Struct, frozen=True):
    """The attempt would end with an error."""

    error: str


class Explained(msgspec.Struct, frozen=True):
    """The decision, and what a person may want to know besides of how a node was chosen for
    preemption.

    `post_filtered` is what came of this one attempt, chance included.
    """

    decision: Decision | Failure
    contest: Contest | None = None
    post_filtered: PostFiltered | None = None


class First:
    """Chance that always falls on the first."""

    def randrange(self, stop: int, /) -> int:
        return 0


class Given(msgspec.Struct, frozen=True):
    """What a running scheduler goes by besides the cluster: where preemption starts to look, and
    its sample of nodes.

    Of the nodes that fit only those `among` these are scored; all if it is None.
    """

    chance: Rng = First()
    among: Set[str] | None = None


NOTHING = Given()


def decide(profile: Profile, info: PodInfo, snapshot: Snapshot) -> Decision | Failure:
    """What the scheduler would decide for the pod, with all nodes looked at and no extender to
    ask.
    """
    return unasked(steps(profile, info, snapshot, extended=False)).decision


def steps(
    profile: Profile, info: PodInfo, snapshot: Snapshot, *, extended: bool, given: Given = NOTHING
) -> Steps[Explained]:
    """The decision as `decide` makes it, and what lies behind it; `extended` if there are extenders
    to ask.
    """
    state = CycleState()
    try:
        evaluation = evaluate(profile, state, info, snapshot)
        return (yield from _decided(profile, state, info, snapshot, evaluation, extended, given))
    except PluginError as failure:
        return Explained(Failure(failure.status.message))


def _decided(
    profile: Profile,
    state: CycleState,
    info: PodInfo,
    snapshot: Snapshot,
    evaluation: Evaluation,
    extended: bool,
    given: Given,
) -> Steps[Explained]:
    prefilter, diagnosis, live = evaluation.prefilter, evaluation.diagnosis, evaluation.live
    if diagnosis is None or live is None:
        rejected = Decision(
            prefilter=_verdict(prefilter.status), message=unfit_message(evaluation, len(snapshot))
        )
        attempt = Attempt(profile, state, info, snapshot, evaluation, given.chance)
        return (yield from _post_filtered(profile, rejected, attempt))
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
    outside = _verdict(
        unresolvable(NODE_SET_REASON.format(" ".join(sorted(prefilter.restricted_by))))
    )
    verdicts |= {name: outside for name in snapshot.columns.row_of if name not in verdicts}
    skipped = sorted(state.skip_filter)
    if not len(positions):
        pending = Decision(prefilter_nodes=names, filter=verdicts, skipped=Skipped(skipped))
        if nominated is not None:
            return Explained(msgspec.structs.replace(pending, hosts=[nominated]))
        pending = msgspec.structs.replace(pending, message=unfit_message(evaluation, len(snapshot)))
        attempt = Attempt(profile, state, info, snapshot, evaluation, given.chance)
        return (yield from _post_filtered(profile, pending, attempt))
    if given.among is not None:
        positions = positions[[view.name(i) in given.among for i in positions.tolist()]]
    feasible = snapshot.rows(rows[positions])
    scores = score(profile, state, info, feasible)
    if extended:
        answer = yield PrioritizeNodes(feasible)
        assert isinstance(answer, np.ndarray)
        scores.append(PluginScores(EXTENDER, answer))
    totals = _by_node(total(profile, scores, feasible), feasible)
    highest = max(totals.values())
    best = sorted(name for name, sum_ in totals.items() if sum_ == highest)
    decision = Decision(
        prefilter_nodes=names,
        filter=verdicts,
        score={plugin.plugin: _by_node(plugin.scores, feasible) for plugin in scores},
        total=totals,
        best=best,
        hosts=best if nominated is None else [nominated],
        skipped=Skipped(skipped, None if profile.scores_nothing else sorted(state.skip_score)),
    )
    return Explained(decision)


def _post_filtered(profile: Profile, pending: Decision, attempt: FailedAttempt) -> Steps[Explained]:
    """The decision with what PostFilter makes of it."""
    found = yield from profile.post_filter(attempt)
    if found is None:
        return Explained(pending)
    if found.nomination is None:
        told = found.status.message
        message = f"{pending.message} {told}" if told else pending.message
        refused = msgspec.structs.replace(pending, message=message, preemption_message=told)
        return Explained(refused, post_filtered=found)
    plugin = next(
        (plugin for plugin in profile.plugins if plugin.name == found.status.plugin), None
    )
    if isinstance(plugin, DefaultPreemption):
        contest = yield from contest_of(attempt, plugin, found.nomination)
    else:
        only = Candidate(found.nomination.node, Victims(found.nomination.victims))
        contest = Contest(found.status.plugin, (only,))
    return Explained(msgspec.structs.replace(pending, preemption=_told(contest)), contest, found)


def _told(contest: Contest) -> Preemption:
    costs = {
        candidate.node: Cost(
            sorted(pod.key for pod in candidate.victims.pods), candidate.victims.pdb_violations
        )
        for candidate in contest.candidates
    }
    alternatives = [candidate.node for candidate in contest.candidates[: contest.ties]]
    return Preemption(alternatives[0], costs[alternatives[0]].victims, alternatives, costs)


def _nominated(
    profile: Profile, state: CycleState, info: PodInfo, snapshot: Snapshot, extended: bool
) -> Steps[str | None]:
    """The node that the pod is nominated to, if it passes."""
    name = snapshot.nominations.node_of(info.key)
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


def _by_node(
    values: np.ndarray[tuple[int, ...], np.dtype[np.int64]], nodes: NodeView
) -> dict[str, int]:
    return {nodes.name(i): value for i, value in enumerate(values.tolist())}
