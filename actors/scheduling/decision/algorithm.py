"""The scheduling cycle's decision: from a pod and a snapshot to a node, or to why there is none.

Pure: the snapshot, the start index and the rng are given. All nodes are filtered at once, or
remembered (see memory); which of the feasible ones are scored follows kube-scheduler's sampling, in
the node tree's order from a start index that rotates. Where extenders have a say the decision is a
generator: it yields what to ask them, and is sent the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from berth.actors.scheduling.decision.failed_attempt import Attempt
from berth.actors.scheduling.decision.feasibility import Evaluation, evaluate, fits_on
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.recall.memory import Memories, Memory
from berth.actors.scheduling.decision.rules import NODE_SET_REASON, PluginError, PluginScores, Rules
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.post_filter import Nomination, Rng
from berth.actors.scheduling.framework.questions import (
    Filtered,
    FilterNodes,
    PrioritizeNodes,
    Steps,
    unasked,
)
from berth.actors.scheduling.framework.status import Status, fit_error
from berth.actors.scheduling.framework.verdicts import PASSES
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import NodeView, Snapshot
from berth.actors.scheduling.model.vectors import Bools, Ints, Rows, every, highest, some
from berth.config.types import Extender

MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENT = 5
NO_NODES = "no nodes available to schedule pods"


class Chosen(msgspec.Struct, frozen=True):
    """The node for the pod, and what the plugins remember of the attempt."""

    node: str
    state: CycleState
    evaluated: int
    feasible: int


class Unfit(msgspec.Struct, frozen=True):
    """No node fits. `message` is what the user reads; `rejected_by` are the plugins whose events
    may help.

    `pending` are those of them that only wait for something to happen: the pod need not back off
    once it has. `nomination` is the node that PostFilter promises; `denominate` says that an
    earlier promise is void, as it is without any PostFilter plugin.
    """

    message: str
    rejected_by: frozenset[str]
    pending: frozenset[str] = frozenset()
    nomination: Nomination | None = None
    denominate: bool = False


class Failed(msgspec.Struct, frozen=True):
    """The attempt ended with an error, not with a verdict on the nodes."""

    status: Status


Outcome = Chosen | Unfit | Failed


def sample_size(percentage: int, nodes: int) -> int:
    """How many feasible nodes are enough. A percentage of 0 adapts: 50 - nodes/125, at least 5; 100
    nodes at least.
    """
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, MIN_FEASIBLE_PERCENT)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)


def choose_nodes(extenders: Sequence[Extender]) -> bool:
    """True if one of the extenders filters nodes or scores them, for whatever pods."""
    return any(extender.filter_verb or extender.prioritize_verb for extender in extenders)


def score(rules: Rules, state: CycleState, info: PodInfo, nodes: NodeView) -> list[PluginScores]:
    """Run PreScore and Score on feasible nodes. Raises PluginError."""
    if rules.scores_nothing:
        return []
    rules.pre_score(state, info, nodes)
    return rules.score(state, info, nodes)


def total(rules: Rules, scores: list[PluginScores], nodes: NodeView) -> Ints:
    """The sum of all plugins' scores: 0 for every node if all asked to be skipped, 1 if there is
    none.
    """
    if not scores:
        return np.full(nodes.size, int(rules.scores_nothing), dtype=np.int64)
    return np.asarray(np.sum([s.scores for s in scores], axis=0))


def unfit_message(evaluation: Evaluation, nodes: int) -> str:
    """`0/N nodes are available: ...`: why not one of them was."""
    if evaluation.diagnosis is None or evaluation.live is None:
        message = evaluation.prefilter.status.message
        return f"0/{nodes} nodes are available: {message}." if message else fit_error(nodes, ())
    counts = evaluation.diagnosis.reasons(evaluation.live)
    outside = nodes - int(np.count_nonzero(evaluation.live))
    if outside:
        counts[NODE_SET_REASON.format(" ".join(sorted(evaluation.prefilter.restricted_by)))] += (
            outside
        )
    return fit_error(nodes, counts)


def _filtered(nodes: NodeView) -> Steps[Filtered]:
    """What the extenders leave of the nodes. Raises PluginError with what went wrong."""
    answer = yield FilterNodes(nodes)
    if isinstance(answer, Status):
        raise PluginError(answer)
    assert isinstance(answer, Filtered)
    return answer


class Search(msgspec.Struct, frozen=True):
    """Which nodes may be tried, in the node tree's order, and where the pod fits.

    `fits(start, stop)` is bool[stop - start] for these positions of the order, or None if it fits
    on all of them. `evaluation` is there if the filters have said why not; `memory` if what they
    say was remembered instead.
    """

    state: CycleState
    order: Ints
    fits: Callable[[int, int], Bools | None]
    evaluation: Evaluation | None = None
    memory: Memory | None = None


class Scheduler:
    """Decides pod after pod; between pods it remembers where the next search for nodes starts, and
    memories.
    """

    def __init__(
        self, rng: Rng, percentage_of_nodes_to_score: int = 0, extenders: Sequence[Extender] = ()
    ) -> None:
        """`extenders` are all that are configured, whichever pods they are interested in."""
        self._rng = rng
        self._extenders_choose = choose_nodes(extenders)
        self._percentage = percentage_of_nodes_to_score
        self._start = 0
        self._memories = Memories()

    def schedule(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> Outcome:
        """Choose a node for the pod, with no extender to ask."""
        return unasked(self.steps(profile, info, snapshot, extended=False))

    def steps(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, *, extended: bool
    ) -> Steps[Outcome]:
        """Choose a node for the pod; `extended` if there are extenders to ask."""
        if not len(snapshot):
            return Unfit(NO_NODES, frozenset(), denominate=True)
        start = self._start
        try:
            return (yield from self._decide(profile, info, snapshot, extended))
        except PluginError as failure:
            if not self._memories.drop(info.template):
                return Failed(failure.status)
        # More was asked than this decision needs, and what was kept is half written: without a
        # memory it may be made.
        self._start = start
        try:
            return (yield from self._decide(profile, info, snapshot, extended))
        except PluginError as failure:
            return Failed(failure.status)

    def _decide(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, extended: bool
    ) -> Steps[Outcome]:
        """Raises PluginError."""
        search = self._remembered(profile, info, snapshot, extended)
        if search is None:
            state = CycleState()
            evaluation = evaluate(profile, state, info, snapshot)
            if evaluation.diagnosis is None:
                return (
                    yield from _unfit(
                        profile, state, info, snapshot, evaluation, self._rng, extended
                    )
                )
            search = _searched(state, snapshot, evaluation)
        promised = snapshot.nominations.node_of(info.key)
        if promised and (
            yield from self._fits_on(promised, profile, search.state, info, snapshot, extended)
        ):
            return Chosen(promised, search.state, 1, 1)
        sample, evaluated = self._sample(profile, search, len(snapshot))
        rows = search.order[sample]
        filtered: Filtered | None = None
        if extended and len(rows):
            filtered = yield from _filtered(snapshot.rows(rows))
            sample, rows = snapshot.columns.position[filtered.rows], filtered.rows
        if not len(rows):
            return (yield from self._no_row(profile, info, snapshot, search, filtered, extended))
        if search.memory is not None:
            search.memory.unfit = False
        chosen = int(rows[0])
        if len(rows) > 1:
            totals = _totals(profile, search, info, snapshot.rows(rows), sample)
            if extended:
                answer = yield PrioritizeNodes(snapshot.rows(rows))
                assert isinstance(answer, np.ndarray)
                totals = totals + answer
            chosen = int(rows[self._best(totals)])
        return Chosen(snapshot.columns.names[chosen], search.state, evaluated, len(rows))

    def _remembered(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, extended: bool
    ) -> Search | None:
        """Where the pod fits, by what is remembered of pods like it and by the rules that are never
        remembered.
        """
        memory = self._memories.recall(profile, info, snapshot)
        if memory is None or (extended and memory.restricted):
            return None
        state, rules = memory.state.copy(), profile.of_cluster
        try:
            prefiltered = rules.pre_filter(state, info, snapshot)
        except PluginError:
            # What comes of it is for all rules in their order to say, and so it is with a
            # rejection.
            return None
        if not prefiltered.status.ok or prefiltered.node_names is not None:
            return None
        order, silent = memory.order, rules.filters_row_by_row(state)

        def fits(start: int, stop: int) -> Bools | None:
            evaluation = (
                memory.evaluation(state, info, snapshot) if memory.unfit and silent else None
            )
            if evaluation is not None and evaluation.diagnosis is not None:
                fitting = np.asarray(evaluation.diagnosis.codes[start:stop] == PASSES)
                if some(fitting):
                    memory.settle(info, snapshot, start, stop, fitting)
                return fitting
            passing = (
                None if silent else rules.passing(state, info, snapshot.rows(order[start:stop]))
            )
            memory.settle(info, snapshot, start, stop, passing)
            if passing is None and not snapshot.nominations and memory.fits.every(start, stop):
                return None
            fitting = memory.fits.bools[start:stop]
            if passing is not None:
                fitting = fitting & passing
            if snapshot.nominations:
                fitting = memory.besides_nominated(state, info, snapshot, start, fitting)
            return fitting

        return Search(state, order, fits, memory=memory)

    @staticmethod
    def _fits_on(
        name: str,
        profile: Profile,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
        extended: bool,
    ) -> Steps[bool]:
        """Whether the pod fits on the node that it is nominated to, even where PreFilter leaves
        other nodes only.
        """
        row = snapshot.columns.row_of.get(name)
        if row is None:
            return False
        view = snapshot.rows(np.array([row]))
        fits = fits_on(profile, state, info, view)
        if fits and extended:
            answer = yield FilterNodes(view)
            fits = (
                isinstance(answer, Filtered) and len(answer.rows) > 0
            )  # after an error, all nodes are tried
        return fits

    def _sample(self, profile: Profile, search: Search, all_nodes: int) -> tuple[Rows, int]:
        """The positions of the feasible nodes to score, and how many a search one by one would have
        looked at.

        Where the next search starts is a place among all nodes, wherever this one was restricted
        to. The first node will do if nothing is configured that could tell it from others, be it of
        use for this pod or not.
        """
        nodes = len(search.order)
        if not nodes:
            return slice(0, 0), 0
        percentage = profile.percentage_of_nodes_to_score
        wanted = sample_size(self._percentage if percentage is None else percentage, nodes)
        if profile.scores_nothing and not self._extenders_choose:
            wanted = 1
        start = self._start % nodes
        sample, looked_at = _first_fitting(search, start, wanted)
        self._start = (self._start + looked_at) % all_nodes
        return sample, looked_at

    def _no_row(
        self,
        profile: Profile,
        info: PodInfo,
        snapshot: Snapshot,
        search: Search,
        by_extenders: Filtered | None,
        extended: bool,
    ) -> Steps[Unfit]:
        """No node is left; unless it is remembered why, the filters are asked again."""
        state, evaluation = search.state, search.evaluation
        if evaluation is None and search.memory is not None and by_extenders is None:
            evaluation = search.memory.evaluation(state, info, snapshot)
            search.memory.unfit = evaluation is not None
        if evaluation is None:
            state = CycleState()
            evaluation = evaluate(profile, state, info, snapshot)
        assert evaluation.diagnosis is not None
        if by_extenders is not None:
            by_extenders.explain_to(evaluation.diagnosis)
        return (yield from _unfit(profile, state, info, snapshot, evaluation, self._rng, extended))

    def _best(self, totals: Ints) -> int:
        """The position of the highest total; ties are broken by the rng."""
        ties = (totals == highest(totals)).nonzero()[0]
        return int(ties[self._rng.randrange(len(ties))] if len(ties) > 1 else ties[0])


def _first_fitting(search: Search, start: int, wanted: int) -> tuple[Rows, int]:
    """The positions of the first `wanted` nodes that fit, from a start on and around, and how many
    were looked at.

    The search begins as wide as the last one of such pods had to be, and widens as it goes on. It
    goes on to the end unless there are more, or the first `wanted` all fit.
    """
    nodes = len(search.order)
    found: list[Ints] = []
    number = looked_at = 0
    width = wanted
    if search.memory is not None and search.memory.looked_at > wanted:
        width = search.memory.looked_at * 9 // 8
    while number <= wanted and looked_at < nodes:
        begin = (start + looked_at) % nodes
        end = min(begin + width, nodes if begin >= start else start)
        fits = search.fits(begin, end)
        if not looked_at and end - begin >= wanted and (fits is None or every(fits[:wanted])):
            looked_at = wanted
            found = []
            break
        where = np.arange(begin, end) if fits is None else fits.nonzero()[0] + begin
        found.append(where)
        number += len(where)
        looked_at += end - begin
        # As wide as it takes if the nodes to come are like those before, and some more.
        width = max((wanted + 1 - number) * looked_at // (number + 1) * 5 // 4, MIN_FEASIBLE_NODES)
    positions: Rows = slice(start, start + wanted)
    if found:
        positions = (np.concatenate(found) if len(found) > 1 else found[0])[:wanted]
        if number > wanted:
            looked_at = (int(positions[-1]) - start) % nodes + 1
    if search.memory is not None:
        search.memory.looked_at = looked_at
    return positions, looked_at


def _searched(state: CycleState, snapshot: Snapshot, evaluation: Evaluation) -> Search:
    """Where the pod fits, by what every rule said of every node."""
    diagnosis, columns, order = evaluation.diagnosis, snapshot.columns, snapshot.columns.order
    assert diagnosis is not None
    assert evaluation.live is not None
    fitting = diagnosis.feasible() & evaluation.live
    if evaluation.prefilter.node_names is None:
        fitting = fitting[order]  # of a view of all rows
    else:
        order = np.arange(columns.size)[diagnosis.view.rows]
    return Search(state, order, lambda start, stop: fitting[start:stop], evaluation)


def _unfit(
    profile: Profile,
    state: CycleState,
    info: PodInfo,
    snapshot: Snapshot,
    evaluation: Evaluation,
    rng: Rng,
    extended: bool,
) -> Steps[Unfit]:
    """Why no node is left, and what PostFilter makes of it."""
    message = unfit_message(evaluation, len(snapshot))
    if evaluation.diagnosis is None or evaluation.live is None:
        rejected_by = frozenset(
            (evaluation.prefilter.status.plugin, *evaluation.prefilter.restricted_by)
        ) - {""}
        pending: frozenset[str] = frozenset()
    else:
        rejected_by = evaluation.diagnosis.rejecting_plugins(evaluation.live)
        rejected_by |= set(evaluation.prefilter.restricted_by)
        pending = evaluation.diagnosis.pending_plugins(evaluation.live)
    attempt = Attempt(profile, state, info, snapshot, evaluation, rng, extended=extended)
    found = yield from profile.post_filter(attempt)
    if found is None:
        return Unfit(message, rejected_by, pending, denominate=True)
    if found.status.message:
        message = f"{message} {found.status.message}"
    return Unfit(message, rejected_by, pending, found.nomination, found.denominate)


def _totals(profile: Profile, search: Search, info: PodInfo, nodes: NodeView, sample: Rows) -> Ints:
    """The sum of all plugins' scores, up to a constant where some of it was remembered."""
    memory = search.memory
    if memory is None:
        return total(profile, score(profile, search.state, info, nodes), nodes)
    rules, totals = profile.of_cluster, memory.scores(info, nodes, sample)
    for scores in score(rules, search.state, info, nodes):
        totals = totals + scores.scores
    return totals
