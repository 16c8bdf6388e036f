"""What the cycle remembers from pod to pod: the answers of rules that look at one row at a time,
per template of pods.

A memory holds, in the node tree's order, where such rules let the pod in and how they score each
node. Rows that changed are asked again, together, once somebody looks at one of them: with
thousands of nodes, of which a search sees a few hundred, most decisions ask nothing again. It never
changes a decision: rules that read more than rows or nodes take no part in it, and are run anew for
every pod. kube-scheduler gives its signatures up where default spreading constraints exist; here
those rules are simply not part of what is kept.

A rule that fails while it is asked for what is to be kept leaves nothing behind: the memory is
dropped, and the pod is decided without one.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import numpy as np
from berth.actors.scheduling.decision.feasibility import Evaluation, reject_for_nominated
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.recall.promised import Promised
from berth.actors.scheduling.decision.recall.rejections import Rejections
from berth.actors.scheduling.decision.rules import PluginError, RawScores, Rules, normalized
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.interface import Reads
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.pod_template import PodTemplate
from berth.actors.scheduling.model.snapshot import NodeView, Snapshot
from berth.actors.scheduling.model.vectors import Bools, Ints, Marks, Rows, some

T = TypeVar("T")
MOST_MEMORIES = 64
MOST_MET = 1024
KEPT = (Reads.NODE, Reads.ROW, Reads.NODES)


class Answers:
    """What one part of the rules says of every node, by position in the order.

    `sums` add up the weighted scores that need no normalisation, `raws` are those that do. Of a
    single node nobody asks for scores.
    """

    def __init__(self, rules: Rules, state: CycleState, info: PodInfo, nodes: NodeView) -> None:
        self._rules = rules
        self._state = state
        self.fits: Bools = np.ones(nodes.size, dtype=np.bool_)
        self.sums: Ints = np.zeros(nodes.size, dtype=np.int64)
        self._scored = nodes.size > 1
        if self._scored:
            rules.pre_score(state, info, nodes)
        self.raws: list[RawScores] = []
        self.renew(info, nodes, slice(0, nodes.size))

    def renew(self, info: PodInfo, nodes: NodeView, at: Rows) -> None:
        """Ask again about some nodes, which stand at these positions."""
        passing = self._rules.passing(self._state, info, nodes)
        self.fits[at] = True if passing is None else passing
        if not self._scored:
            return
        fresh = self._rules.raw_scores(self._state, info, nodes)
        final = [
            raw.scores if raw.weight == 1 else raw.scores * raw.weight for raw in fresh if raw.final
        ]
        if final:
            self.sums[at] = sum(final[1:], final[0])
        others = [raw for raw in fresh if not raw.final]
        if not self.raws:
            self.raws = [
                msgspec.structs.replace(raw, scores=np.zeros(nodes.size, dtype=np.int64))
                for raw in others
            ]
        for kept, new in zip(self.raws, others, strict=True):
            kept.scores[at] = new.scores


class Memory:
    """The answers for pods of one template. `state` is what the plugins keep from one extension
    point to the next.

    `fits` and `scores` hold for the positions that were settled last and that other rules let the
    pod in, positions in `order`: the node tree's, or, if PreFilter has `restricted` the pods to
    some nodes, those of it. `looked_at` is how many nodes the last search took, which is about what
    the next one will. `unfit` if it found none, so that the next may begin with what is remembered
    of why not.
    """

    def __init__(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> None:
        self._profile = profile
        self.looked_at = 0
        self.unfit = False
        self._rejections: Rejections | None = None
        self._promised: Promised | None = None
        self._names: frozenset[str] | None = None
        self.state = CycleState()
        for reads in KEPT:
            try:
                prefiltered = profile.parts[reads].pre_filter(self.state, info, snapshot)
            except PluginError as failure:
                # What comes of a rejection or a failure depends on the order of all plugins, those
                # that are never remembered among them: that is for all rules together to say.
                raise NotReusableError from failure
            if not prefiltered.status.ok:
                raise NotReusableError
            if prefiltered.node_names is not None:
                names = prefiltered.node_names
                self._names = names if self._names is None else self._names & names
        columns = snapshot.columns
        self._tree = columns.order
        self.order = columns.order if self._names is None else columns.rows_of(self._names)
        if not len(self.order):
            raise NotReusableError
        self._version, self._node_version = columns.changes.version, columns.node_changes.version
        every = snapshot.rows(self.order)
        self._changed = Marks(every.size, False)
        self._retold: set[int] = set()
        self._answers = {
            reads: Answers(profile.parts[reads], self.state, info, every) for reads in KEPT
        }
        self.fits = Marks(every.size, True)
        self._sums: Ints = np.zeros(every.size, dtype=np.int64)
        self._note_nodes()
        self._put_together(slice(0, every.size))

    @property
    def restricted(self) -> bool:
        return self._names is not None

    def anew(self, info: PodInfo, snapshot: Snapshot) -> Memory:
        """A memory of the cluster as it is now, for the same template. Raises PluginError and
        NotReusableError.
        """
        memory = Memory(self._profile, info, snapshot)
        memory.looked_at, memory.unfit = self.looked_at, self.unfit
        return memory

    def _put_together(self, at: Rows) -> None:
        row = self._answers[Reads.ROW]
        self.fits.bools[at] = self._node_fits[at] & row.fits[at]
        self._sums[at] = self._node_sums[at] + row.sums[at]

    def _note_nodes(self) -> None:
        """What comes of the rules that look at nodes alone; most often none of their raw scores
        tells nodes apart.
        """
        node, row, nodes = (self._answers[reads] for reads in KEPT)
        self._node_fits = node.fits & nodes.fits
        self._node_sums = node.sums + nodes.sums
        self._raws = [raw for raw in (*node.raws, *nodes.raws) if raw.scores.any()] + row.raws

    def refresh(self, snapshot: Snapshot) -> bool:
        """Learn what changed; False if that is not known any more."""
        columns = snapshot.columns
        if self._tree is not columns.order:
            return False
        version, node_version = columns.changes.version, columns.node_changes.version
        if self._version == version:
            return True
        changed = columns.changes.since(self._version)
        retold = (
            columns.node_changes.since(self._node_version)
            if self._node_version != node_version
            else ()
        )
        prepared = self.restricted or self._profile.parts[Reads.NODES].prepares
        if changed is None or retold is None or (retold and prepared):
            return False
        self._version, self._node_version = version, node_version
        stale = self._changed.bools
        if self.restricted:
            stale[np.isin(self.order, [*changed])] = True
            return True
        for row in changed:
            stale[columns.position[row]] = True
        if retold:
            self._retold.update(int(columns.position[row]) for row in retold)
        return True

    def settle(
        self, info: PodInfo, snapshot: Snapshot, start: int, stop: int, passing: Bools | None
    ) -> None:
        """Bring the answers up to date, if they may not be from one position to another. Raises
        PluginError.

        `passing` is where other rules let the pod in, None for everywhere: elsewhere it does not
        matter.
        """
        if not self._retold:
            if not self._changed.some(start, stop):
                return
            if passing is not None and not some(self._changed.bools[start:stop] & passing):
                return
        at = self._changed.bools.nonzero()[0]
        self._renew(Reads.ROW, info, snapshot, at)
        if self._retold:
            self._renew(Reads.NODE, info, snapshot, np.array([*self._retold], dtype=np.int64))
            at = np.arange(len(self.order))
            self._renew(Reads.NODES, info, snapshot, at)
            self._note_nodes()
            self._retold.clear()
        self._put_together(at)
        self._changed.bools[:] = False

    def _renew(self, reads: Reads, info: PodInfo, snapshot: Snapshot, at: Ints) -> None:
        self._answers[reads].renew(info, snapshot.rows(self.order[at]), at)

    def scores(self, info: PodInfo, nodes: NodeView, at: Rows) -> Ints:
        """What the rules that it holds come to, for nodes, which stand at these positions, up to a
        constant.
        """
        total = self._sums[at]
        for raw in self._raws:
            scores = raw.scores[at]
            if scores.any():  # A copy, because a plugin may normalise in place.
                total = total + normalized(raw, self.state, info, scores.copy(), nodes) * raw.weight
        return total

    def besides_nominated(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot, start: int, fitting: Bools
    ) -> Bools:
        """Of the positions from `start` on that fit, those that still do if the pods nominated
        there ran there.
        """
        rules = self._profile
        if self.restricted or not rules.filters_row_by_row(state):
            found = np.flatnonzero(fitting)
            left = fitting.copy()
            nodes = snapshot.rows(self.order[start + found])
            left[found[[*reject_for_nominated(rules, state, info, nodes)]]] = False
            return left
        if self._promised is None or not self._promised.refresh(snapshot):
            self._promised = Promised(snapshot)
        return self._promised.leaves(rules, state, info, snapshot, start, fitting)

    def evaluation(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Evaluation | None:
        """What the filters say of every node, or None if it takes more than single rows to tell."""
        rules = self._profile
        if self.restricted or not rules.filters_row_by_row(state):
            return None
        if self._rejections is None or not self._rejections.refresh(rules, state, info, snapshot):
            self._rejections = Rejections(rules, state, info, snapshot)
        return self._rejections.evaluation


class NotReusableError(Exception):
    """The rules reject the pod, fail, or leave it no node, before any node is looked at: there is
    nothing to keep.
    """


class Memories:
    """The memories of the templates met last.

    A template gets one when it is met again, not before: what never recurs, as the pods of a
    DaemonSet of which each names its own node, takes no memory's place.
    """

    def __init__(self) -> None:
        self._by_template: dict[PodTemplate, Memory] = {}
        self._met: dict[PodTemplate, None] = {}

    def recall(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> Memory | None:
        """An up-to-date memory for the pod, or None if it has to be decided without."""
        if info.pod.spec.node_name:
            return None  # what the template leaves out
        template = info.template
        memory = self._by_template.get(template)
        try:
            if memory is not None:
                if not memory.refresh(snapshot):
                    memory = memory.anew(info, snapshot)
            elif template in self._met:
                memory = Memory(profile, info, snapshot)
                del self._met[template]
        except (NotReusableError, PluginError):
            self._by_template.pop(template, None)
            memory = None
        if memory is None:
            _remember(self._met, template, None, MOST_MET)
        else:
            _remember(self._by_template, template, memory, MOST_MEMORIES)
        return memory

    def drop(self, template: PodTemplate) -> bool:
        """Forget what is remembered of a template; False if that is nothing."""
        return self._by_template.pop(template, None) is not None


def _remember(kept: dict[PodTemplate, T], template: PodTemplate, what: T, most: int) -> None:
    """Keep it as the last of at most so many."""
    kept.pop(template, None)
    kept[template] = what
    if len(kept) > most:
        del kept[next(iter(kept))]
