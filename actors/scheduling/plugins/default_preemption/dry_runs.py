"""Dry runs kept from pod to pod: the nodes where preemption helps pods of one template, and its
cost there.

A result is kept until something changes that its dry run looked at; if that includes the claims of
the pod, or more than the node, no result is kept. After a change of the budgets, a candidate is
kept if they protect the same pods of its node as before. The results lie in arrays, in the node
tree's order, so that a search over thousands of candidates is a few operations; only nodes without
a result are dry run. Keeping results never changes which candidates a search returns, or their
order, unless the search ends early, because it is too much work: the next search then goes on from
there.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    PAUSE,
    Bools,
    Code,
    FailedAttempt,
    Ints,
    Snapshot,
    Status,
    Steps,
    unschedulable,
)

from ...kube.aggregate import joined_errors
from ...model.bookmark import Bookmark
from ...model.vectors import Floats, any_true, highest, lowest
from .. import steps as counted
from .budgets import Budgets
from .lowest import LowestPriorities
from .victims import (
    ADDING,
    MOST_ON_NODE,
    MOST_STEPS,
    NO_VICTIMS,
    REMOVING,
    Candidate,
    dry_run,
    violators_on,
    work_on,
)

BUDGET_BROKEN = unschedulable("preemption would break a PodDisruptionBudget")
CRITERIA = 5  # the number in Candidate.cost
CHUNK = 256  # nodes that are dry run together, at most
FIRST_CHUNK = 8
FEW = 16  # a sixteenth of the nodes
ENOUGH_WORK = 30_000  # ends a search that has a candidate
MOST_WORK = 100_000  # ends a search that has none, unless its first node has more
# The results that a node can have; a candidate is doubtful once the budgets have changed.
_UNKNOWN, _DOUBTFUL, _REFUSED, _BREAKING, _SOUND = range(5)


class Search(msgspec.Struct, frozen=True):
    """The result of a search: the positions of the candidates, in the order of the search.

    If there is no candidate, `refused` is the number of nodes that can make no room, by reason, and
    `failure` has the errors. `early` means that nodes were left out, because they were too much
    work.
    """

    candidates: Ints
    refused: Counter[Status] = Counter()
    failure: str = ""
    early: bool = False


class DryRuns:
    """The results of the dry runs of nodes, by position in the node tree's order. A search pauses
    after each lot of nodes.

    The victims have the state of the time of the dry run; since then only their status may have
    changed.
    """

    def __init__(self) -> None:
        self._order: Ints | None = None
        self._limits = 0  # the version of the budgets
        self._bookmark: Bookmark | None = None
        self._own = ""
        self._versions: tuple[int, ...] | None = None  # None if the results may not be kept

    def search(
        self,
        attempt: FailedAttempt,
        start: int,
        enough: int,
        limits: Budgets,
        lowest: LowestPriorities,
        steps: counted.Steps,
        *,
        sound_only: bool = False,
    ) -> Steps[Search]:
        """Returns the first `enough` candidates, from `start` to the end and then from the
        beginning.

        At least one of them breaks no budget, if there is such a candidate; with `sound_only` none
        breaks a budget. Once the dry runs have become too much work, or no steps are left, returns
        the candidates so far. Raises PluginError.
        """
        potential, nodes, least = (
            attempt.helped,
            len(attempt.snapshot),
            _SOUND if sound_only else _BREAKING,
        )
        if not any_true(potential):
            return Search(np.zeros(0, dtype=np.int64))
        versions = attempt.versions
        if versions is None or versions != self._versions or not self._refresh(attempt, limits):
            self._forget(attempt.snapshot, limits)
        self._versions, self._own = versions, attempt.snapshot.nominations.node_of(attempt.info.key)
        self._refuse_without_victims(attempt, lowest)
        together, at_once = (CHUNK, FIRST_CHUNK) if attempt.row_by_row else (1, 1)
        spans: list[Ints] = []
        number = looked_at = first_sound = 0
        sound = none_left = False
        self._work = 0
        while looked_at < nodes and not (sound and number >= enough):
            begin = (start + looked_at) % nodes
            most = max(enough - number, together)
            end = min(begin + max(most, looked_at), nodes if begin >= start else start)
            unknown = (potential[begin:end] & (self._results[begin:end] <= _DOUBTFUL)).nonzero()[
                0
            ] + begin
            if len(unknown) > most:  # Reading results is cheap, dry runs are not.
                end, unknown = int(unknown[most]), unknown[:most]
            while len(unknown):
                if none_left:
                    return self._early_result(potential, least, start)
                batch = unknown[:at_once]
                batch = batch[: self._within_steps(attempt, batch)]
                size = self._within_work(attempt, batch)
                yield from self._dry_run(attempt, batch[:size], limits, steps)
                yield PAUSE
                unknown = unknown[size:]
                at_once = min(at_once * FIRST_CHUNK, together)
                none_left = steps.take(0)
                if size < len(batch) or (self._work >= ENOUGH_WORK and len(unknown)):
                    so_far = self._early_result(potential, least, start)
                    if len(so_far.candidates) or not size:
                        return so_far
            where = (potential[begin:end] & (self._results[begin:end] >= least)).nonzero()[
                0
            ] + begin
            if not sound and len(where):
                marks = self._results[where] == _SOUND
                first = int(marks.argmax())
                sound, first_sound = bool(marks[first]), number + first
            spans.append(where)
            number += len(where)
            looked_at += end - begin
        if not number:
            return self._refusal(potential, start)
        candidates = np.concatenate(spans) if len(spans) > 1 else spans[0]
        return Search(candidates[: max(enough, first_sound + 1)] if sound else candidates)

    def _early_result(self, potential: Bools, least: int, start: int) -> Search:
        """Returns the candidates so far, as the result of a search that ends early."""
        where = (potential & (self._results >= least)).nonzero()[0]
        return Search(np.roll(where, -int(np.searchsorted(where, start))), early=True)

    def candidate(self, position: int) -> Candidate:
        candidate = self._candidates[position]
        assert candidate is not None, position
        return candidate

    def cheapest(self, positions: Ints) -> Ints:
        """Returns the candidates at these positions that cost as little as the cheapest."""
        for cost in self._costs:
            costs = cost[positions]
            least = costs[costs.argmin()]
            if costs[costs.argmax()] != least:
                positions = positions[costs == least]
        return positions

    def in_order(self, positions: Ints) -> list[Candidate]:
        """Returns the candidates at these positions in the order for extenders: first the
        candidates that violate no budget.
        """
        breaking = self._results[positions] == _BREAKING
        in_order = (*positions[~breaking].tolist(), *positions[breaking].tolist())
        return [self.candidate(position) for position in in_order]

    # -------------------------------------------------------------------------------------- results

    def _forget(self, snapshot: Snapshot, limits: Budgets) -> None:
        self._order, self._limits = snapshot.columns.order, limits.version
        nodes = len(self._order)
        self._results: NDArray[np.int8] = np.full(nodes, _UNKNOWN, dtype=np.int8)
        self._costs: Floats = np.zeros((CRITERIA, nodes))
        self._candidates: list[Candidate | None] = [None] * nodes
        self._refusals: Ints = np.zeros(nodes, dtype=np.int64)
        self._statuses: dict[Status, int] = {}
        self._bookmark = Bookmark(snapshot)

    def _refresh(self, attempt: FailedAttempt, limits: Budgets) -> bool:
        """Drops results that a change has made invalid. False if too much changed, and all have to
        be dropped.
        """
        snapshot = attempt.snapshot
        columns, own = snapshot.columns, snapshot.nominations.node_of(attempt.info.key)
        if self._bookmark is None:
            return False
        changes = self._bookmark.turn(snapshot)
        if changes is None or len(self._statuses) > CHUNK:
            return False
        if any(status.code is Code.ERROR for status in self._statuses):
            return False  # The plugin may not fail again.
        # A nomination affects the nominated pod differently from other pods.
        for row in changes.rows_with(columns, self._own, own):
            position = columns.position[row]
            self._results[position] = _UNKNOWN
            self._candidates[position] = None
        if limits.version != self._limits:
            self._limits = limits.version
            self._results[self._results >= _BREAKING] = _DOUBTFUL
        return True

    def _refuse_without_victims(self, attempt: FailedAttempt, lowest: LowestPriorities) -> None:
        """Refuses the nodes without pods of lower priority. If only few nodes have no result, does
        nothing, because dry runs are as quick.
        """
        unknown = attempt.helped & (self._results == _UNKNOWN)
        if np.count_nonzero(unknown) * FEW <= len(unknown):
            return
        unknown &= lowest.of(attempt.snapshot) >= attempt.info.priority
        if any_true(unknown):
            self._results[unknown] = _REFUSED
            self._refusals[unknown] = self._statuses.setdefault(NO_VICTIMS, len(self._statuses))

    def _within_work(self, attempt: FailedAttempt, positions: Ints) -> int:
        """Returns how many of these nodes may be dry-run together, and adds up their work."""
        assert self._order is not None
        for number, row in enumerate(self._order[positions].tolist()):
            work = work_on(attempt, row)
            if not work or work > MOST_ON_NODE:
                continue  # A node with more work is not dry run.
            if self._work and self._work + work > (ENOUGH_WORK if number else MOST_WORK):
                return number
            self._work += work
        return len(positions)

    def _within_steps(self, attempt: FailedAttempt, positions: Ints) -> int:
        """Returns how many of these nodes may be dry-run before other tasks have a turn."""
        assert self._order is not None
        infos, steps = attempt.snapshot.columns.infos, 0
        for number, row in enumerate(self._order[positions].tolist()):
            info = infos[row]
            assert info is not None, row
            steps += (REMOVING + ADDING) * len(info.pods)
            if steps > MOST_STEPS:
                return max(number, 1)
        return len(positions)

    def _dry_run(
        self, attempt: FailedAttempt, positions: Ints, limits: Budgets, steps: counted.Steps
    ) -> Steps[None]:
        """Dry-runs the nodes at these positions together, except candidates whose violators are
        unchanged.
        """
        assert self._order is not None
        for position in positions[self._results[positions] == _DOUBTFUL].tolist():
            candidate = self.candidate(position)
            row = int(self._order[position])
            if violators_on(attempt, row, limits, steps) == candidate.violators:
                self._keep(position, candidate)
        positions = positions[self._results[positions] <= _DOUBTFUL]
        if not len(positions):
            return
        outcomes = yield from dry_run(attempt, self._order[positions].tolist(), limits, steps)
        for position, outcome in zip(positions.tolist(), outcomes, strict=True):
            if isinstance(outcome, Candidate):
                self._costs[:, position] = outcome.cost
                self._candidates[position] = outcome
                self._keep(position, outcome)
            else:
                self._results[position] = _REFUSED
                self._refusals[position] = self._statuses.setdefault(outcome, len(self._statuses))

    def _keep(self, position: int, candidate: Candidate) -> None:
        self._results[position] = _BREAKING if candidate.victims.pdb_violations else _SOUND

    def _refusal(self, potential: Bools, start: int) -> Search:
        """Returns the reasons why no node can make room, once all have been looked at."""
        refusals = self._refusals[potential & (self._results == _REFUSED)]
        refused: Counter[Status] = Counter()
        failure = ""
        if len(refusals):
            counts = [(int(refusals[0]), len(refusals))]
            if highest(refusals) != lowest(refusals):
                counts = list(enumerate(np.bincount(refusals).tolist()))
            statuses = list(self._statuses)
            refused.update({statuses[code]: number for code, number in counts if number})
            failed = [self._statuses[status] for status in refused if status.code is Code.ERROR]
            if failed:
                where = (
                    potential & (self._results == _REFUSED) & np.isin(self._refusals, failed)
                ).nonzero()[0]
                where = np.roll(where, -int(np.searchsorted(where, start)))
                codes = dict.fromkeys(self._refusals[where].tolist())
                failure = joined_errors(statuses[code].message for code in codes)
        breaking = int(np.count_nonzero(potential & (self._results == _BREAKING)))
        if breaking:
            refused[BUDGET_BROKEN] = breaking
        return Search(np.zeros(0, dtype=np.int64), refused, failure)
