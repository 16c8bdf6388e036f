"""The scheduling algorithm: from PreFilter to the node that is chosen for a pod.

Pure: the caller passes the candidates, the search and the rng. Where extenders take part, the
decision yields questions to them and is sent their answers. Mirrors schedulePod, and PostFilter in
schedulingCycle.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..framework.measuring import FILTER, PRE_SCORE, SCORE
from ..framework.post_filter import Rng
from ..framework.questions import FilteredNodes, FilterNodes, PrioritizeNodes, Steps
from ..framework.status import Status
from ..model.vectors import Rows, highest
from .candidates import Candidates
from .failed_attempt import Attempt
from .observer import DecisionObserver
from .outcome import Choice, DecisionFailure, Outcome, Unfit

# Finds the positions of feasible nodes to score, and returns how many nodes it looked at.
Search = Callable[[Candidates], tuple[Rows, int]]


def schedule_pod(
    candidates: Candidates,
    search: Search,
    rng: Rng,
    observer: DecisionObserver | None = None,
    *,
    extended: bool,
) -> Steps[Outcome]:
    """Chooses a node; `extended` if there are extenders to ask. Raises PluginError."""
    record = candidates.state.record
    detailed = observer if observer is not None and observer.wants_scores else None
    positions: Rows = slice(0, 0)
    evaluated = 0
    filtered: FilteredNodes | None = None
    if candidates.rejected:
        record.leave(candidates.evaluation().prefilter.status.code)
    else:
        record.enter(FILTER)
        nominated = candidates.snapshot.nominations.node_of(candidates.info.key)
        if nominated:
            fits = yield from _still_fits(candidates, nominated, extended)
            if fits:
                return Choice(nominated, candidates.state, 1, 1)
            record.enter(FILTER)
        positions, evaluated = search(candidates)
        if detailed is not None:
            detailed.searched(positions)
    rows = candidates.order[positions]
    number = len(rows)
    if extended or number == 1:
        record.leave()  # Next comes PreScore, or an extender.
    if extended and number:
        answer = yield FilterNodes(candidates.snapshot.rows(rows))
        if isinstance(answer, Status):
            return DecisionFailure(answer)
        assert isinstance(answer, FilteredNodes)
        filtered = answer
        if observer is not None:
            observer.filtered(filtered)
        positions = np.arange(len(candidates.order))[positions][np.isin(rows, filtered.rows)]
        rows = candidates.order[positions]
        number = len(rows)
    if not number:
        return (yield from _no_node(candidates, filtered, rng, observer, extended))
    best = 0
    if number > 1:
        nodes = candidates.snapshot.rows(rows)
        record.enter(PRE_SCORE)
        candidates.pre_score(nodes)
        record.enter(SCORE)
        totals = candidates.totals(nodes, positions)
        record.leave()
        if detailed is not None:
            detailed.scored(candidates.info, nodes, candidates.scores_by_plugin)
        if extended:
            answer = yield PrioritizeNodes(nodes)
            assert isinstance(answer, np.ndarray)
            if detailed is not None:
                detailed.prioritized(answer)
            totals = totals + answer
        most = highest(totals)
        ties = (totals == most).nonzero()[0]
        if observer is not None:
            observer.compared(rows, totals, most, ties, candidates.snapshot)
        tied = len(ties)
        best = ties.item(rng.randrange(tied) if tied > 1 else 0)
    node = candidates.snapshot.columns.names[rows.item(best)]
    return Choice(node, candidates.state, evaluated, number)


def _still_fits(candidates: Candidates, node: str, extended: bool) -> Steps[bool]:
    """True if the pod fits on the node to which it is nominated. That node is then chosen at
    once.
    """
    row = candidates.snapshot.columns.row_of.get(node)
    fits = row is not None and candidates.fits_on(row)
    record = candidates.state.record
    record.leave()
    if row is None or not fits:
        return False
    if not extended:
        return True
    answer = yield FilterNodes(candidates.snapshot.rows(np.array([row])))
    # After an error of an extender, all nodes are tried.
    return isinstance(answer, FilteredNodes) and len(answer.rows) > 0


def _no_node(
    candidates: Candidates,
    filtered: FilteredNodes | None,
    rng: Rng,
    observer: DecisionObserver | None,
    extended: bool,
) -> Steps[Unfit]:
    """Returns why no node is left, and the result of PostFilter."""
    evaluation, snapshot = candidates.evaluation(), candidates.snapshot
    candidates.state.record.leave()
    if observer is not None:
        observer.rejected(candidates.info, evaluation, filtered, snapshot)
    if filtered is not None:
        evaluation = evaluation.besides(filtered)
    attempt = Attempt(
        candidates.profile, candidates.info, snapshot, evaluation, rng, extended=extended
    )
    post_filtered = yield from candidates.profile.post_filter(attempt)
    message = evaluation.message(len(snapshot))
    if post_filtered is not None and post_filtered.status.message:
        message = f"{message} {post_filtered.status.message}"
    if post_filtered is not None and post_filtered.again:
        return Unfit(message, frozenset(), post_filtered=post_filtered)
    rejected_by = evaluation.rejected_by()
    if post_filtered is not None:
        rejected_by |= post_filtered.rejected_by
    return Unfit(message, rejected_by, evaluation.pending(), post_filtered)
