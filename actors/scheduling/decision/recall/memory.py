"""Memory: the answers of rules about the nodes, kept for one template of pods.

A memory holds, in the node tree's order, where rules that read one row or nodes alone let the pod
in, and how they score each node. Once a search looks at a row that changed, the rules are asked
again about all changed rows together. With thousands of nodes, of which a search looks at a few
hundred, most decisions ask nothing again. kube-scheduler does without its signatures where default
spreading constraints exist; here, only the rules that read the cluster are left out of the memory.

A rule that fails while it is asked leaves nothing behind: the memory is dropped, and the pod is
decided without one.
"""

from __future__ import annotations

import msgspec
import numpy as np

from ...framework.cycle_state import CycleState
from ...framework.interface import DependsOn
from ...model.bookmark import Bookmark
from ...model.pod_info import PodInfo
from ...model.snapshot import NodeView, Snapshot
from ...model.vectors import Bools, Flags, Ints, Rows, any_true
from ..profile import Profile
from ..rules import KEPT, RawScores, Rules
from .nomination_answers import NominationAnswers
from .rejections import Rejections


class Answers:
    """The answers of one part of the rules about every node, by position in the order.

    `fits` is true where all rules let the pod in, `sums` are the weighted scores that need no
    normalisation, `raws` the scores that do. A single node is not scored.
    """

    def __init__(self, rules: Rules, state: CycleState, info: PodInfo, nodes: NodeView) -> None:
        self._rules = rules
        self._state = state
        self.fits: Bools = np.ones(nodes.size, dtype=np.bool_)
        self.sums: Ints = np.zeros(nodes.size, dtype=np.int64)
        self._scored = nodes.size > 1
        self.raws: list[RawScores] = []
        self.renew(info, nodes, slice(0, nodes.size))

    def renew(self, info: PodInfo, nodes: NodeView, at: Rows) -> None:
        """Asks the rules again about the nodes at these positions. Raises PluginError."""
        passing = self._rules.passing(self._state, info, nodes)
        self.fits[at] = True if passing is None else passing
        if not self._scored:
            return
        fresh = self._rules.raw_scores(self._state, info, nodes)
        final = [
            raw.scores if raw.by.weight == 1 else raw.scores * raw.by.weight
            for raw in fresh
            if raw.by.normalize is None
        ]
        if final:
            self.sums[at] = sum(final[1:], final[0])
        others = [raw for raw in fresh if raw.by.normalize is not None]
        if not self.raws:
            self.raws = [
                msgspec.structs.replace(raw, scores=np.zeros(nodes.size, dtype=np.int64))
                for raw in others
            ]
        for kept, new in zip(self.raws, others, strict=True):
            kept.scores[at] = new.scores


class Memory:
    """The answers for pods of one template.

    `template` is that of the first pod. `state` is the CycleState after PreFilter and PreScore.
    `order` holds the row of each position: the rows of the node tree, or of the nodes that
    PreFilter leaves. `fits` and `scores` are up to date at the positions that were settled last.
    `looked_at` is the number of nodes in the last search, a guess for the next one. `unfit` is true
    if the last pod fitted nowhere, so that the search for the next one begins with the remembered
    rejections. `is_new` is true until the memory is refreshed.
    """

    def __init__(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> None:
        """Asks the rules whose answers are kept. Raises PluginError and NotReusableError."""
        self.profile = profile
        self.template = info.template
        self.is_new = True
        self.looked_at = 0
        self.unfit = False
        self._rejections: Rejections | None = None
        self._nomination_answers: NominationAnswers | None = None
        self._names: frozenset[str] | None = None
        self.state = CycleState()
        self.of_pod = profile.of_pod
        parts, claims = [profile.kept], profile.parts[DependsOn.CLAIMS]
        if not info.template.has_own_claims:
            # No claims: the rules that read them skip all pods of the template, or none.
            self.of_pod = profile.of_cluster
            parts.append(claims)
        for part in parts:
            prefiltered = part.pre_filter(self.state, info, snapshot)
            if not prefiltered.status.ok:
                # What follows from a rejection depends on the order of all plugins, also of those
                # that are never remembered.
                raise NotReusableError
            if prefiltered.node_names is not None:
                names = prefiltered.node_names
                self._names = names if self._names is None else self._names & names
        if not info.template.has_own_claims and not claims.filters_nothing(self.state):
            raise NotReusableError
        columns = snapshot.columns
        self.order = columns.order if self._names is None else columns.rows_of(self._names)
        if not len(self.order):
            raise NotReusableError
        self._bookmark = Bookmark(snapshot)
        self._lookups = {kind: snapshot.objects.version(kind) for kind in profile.kept.lookups}
        every = snapshot.rows(self.order)
        self._changed = Flags(every.size, False)
        self._changed_nodes: set[int] = set()
        if every.size > 1:
            profile.kept.pre_score(self.state, info, every)
        self._answers = {
            depends_on: Answers(profile.parts[depends_on], self.state, info, every)
            for depends_on in KEPT
        }
        self.fits = Flags(every.size, True)
        self._sums: Ints = np.zeros(every.size, dtype=np.int64)
        self._note_nodes()
        self._combine_answers(slice(0, every.size))

    def anew(self, info: PodInfo, snapshot: Snapshot) -> Memory:
        """Returns a memory of the present cluster. Raises PluginError and NotReusableError."""
        memory = Memory(self.profile, info, snapshot)
        memory.looked_at, memory.unfit = self.looked_at, self.unfit
        return memory

    def _combine_answers(self, at: Rows) -> None:
        row = self._answers[DependsOn.NODE_AND_PODS]
        self.fits.bools[at] = self._node_fits[at] & row.fits[at]
        self._sums[at] = self._node_sums[at] + row.sums[at]

    def _note_nodes(self) -> None:
        """Combines the answers that depend on nodes alone, without raw scores that are all zero."""
        node, row, nodes = (self._answers[depends_on] for depends_on in KEPT)
        self._node_fits = node.fits & nodes.fits
        self._node_sums = node.sums + nodes.sums
        self._raws = [raw for raw in (*node.raws, *nodes.raws) if raw.scores.any()] + row.raws

    def refresh(self, snapshot: Snapshot) -> bool:
        """Applies changes. False if there are too many, so that a new memory is needed."""
        self.is_new = False
        objects = snapshot.objects
        for kind, version in self._lookups.items():
            if objects.version(kind) != version:
                return False
        changes = self._bookmark.turn(snapshot)
        if changes is None:
            return False
        restricted = self._names is not None
        if changes.nodes and (restricted or self.profile.parts[DependsOn.ALL_NODES].prepares):
            return False
        stale, position = self._changed.bools, snapshot.columns.position
        if restricted and changes.rows:
            stale[np.isin(self.order, [*changes.rows])] = True
            return True
        for row in changes.rows:
            stale[position.item(row)] = True
        if changes.nodes:
            self._changed_nodes.update(int(position[row]) for row in changes.nodes)
        return True

    def settle(
        self, info: PodInfo, snapshot: Snapshot, start: int, stop: int, passing: Bools | None
    ) -> None:
        """Updates the answers if any of these positions has changed. Raises PluginError.

        `passing` marks the positions where other rules let the pod in, None for all; the answers
        elsewhere do not matter.
        """
        if not self._changed_nodes:
            if not self._changed.any_in(start, stop):
                return
            if passing is not None and not any_true(self._changed.bools[start:stop] & passing):
                return
        at = self._changed.bools.nonzero()[0]
        self._renew(DependsOn.NODE_AND_PODS, info, snapshot, at)
        if self._changed_nodes:
            self._renew(
                DependsOn.NODE, info, snapshot, np.array([*self._changed_nodes], dtype=np.int64)
            )
            at = np.arange(len(self.order))
            self._renew(DependsOn.ALL_NODES, info, snapshot, at)
            self._note_nodes()
            self._changed_nodes.clear()
        self._combine_answers(at)
        self._changed.bools[:] = False

    def _renew(self, depends_on: DependsOn, info: PodInfo, snapshot: Snapshot, at: Ints) -> None:
        self._answers[depends_on].renew(info, snapshot.rows(self.order[at]), at)

    def scores(self, info: PodInfo, nodes: NodeView, at: Rows) -> Ints:
        """Returns int64 a position: the sums of the remembered scores, up to a constant.

        `nodes` are the nodes at these positions. Raises PluginError.
        """
        total = self._sums[at]
        for raw in self._raws:
            scores, normalize = raw.scores[at], raw.by.normalize
            if normalize is not None and scores.any():
                # A copy, because a plugin may normalise in place.
                normal = normalize.ask(self.state, info, (scores.copy(), nodes))
                total = total + normal * raw.by.weight
        return total

    def besides_nominated(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot, start: int, fitting: Bools
    ) -> Bools:
        """Returns which of the fitting positions from `start` on fit next to the nominated pods.

        Raises PluginError.
        """
        if not self._row_by_row(state):
            return self._besides_by_rules(self.profile, state, info, snapshot, start, fitting)
        answers = self._nomination_answers
        if answers is None or not answers.refresh(snapshot):
            answers = self._nomination_answers = NominationAnswers(snapshot)
        left = answers.leaves(self.profile.kept, state, info, snapshot, start, fitting)
        if self.of_pod.filters_nothing(state):
            return left
        return self._besides_by_rules(self.of_pod, state, info, snapshot, start, left)

    def _besides_by_rules(
        self,
        rules: Rules,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
        start: int,
        fitting: Bools,
    ) -> Bools:
        """Answers `besides_nominated` for some of the rules, without keeping the answers."""
        fits_at = np.flatnonzero(fitting)
        left = fitting.copy()
        nodes = snapshot.rows(self.order[start + fits_at])
        left[fits_at[[*rules.reject_for_nominated(state, info, nodes)]]] = False
        return left

    def rejections(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Rejections | None:
        """Returns why nodes reject the pod; None if that must not be remembered. Raises
        PluginError.
        """
        rules = self.profile
        if not self.of_pod.filters_nothing(state) or not self._row_by_row(state):
            return None
        if self._rejections is None or not self._rejections.refresh(rules, state, info, snapshot):
            self._rejections = Rejections(rules, state, info, snapshot)
        return self._rejections

    def _row_by_row(self, state: CycleState) -> bool:
        """True if the filters answer for every node of the tree, each from its row alone."""
        return self._names is None and self.profile.filters_row_by_row(state)


class NotReusableError(Exception):
    """The rules reject the pod, or leave it no node, before any node is checked."""
