"""What the cycle remembers from pod to pod: the answers of rules that look at one row at a time, per template of pods.

A memory holds, in the node tree's order, where such rules let the pod in and how they score each node; before it is
used, the rows that changed since are asked again, and no others. It never changes a decision: rules that read more
than a row take no part in it, and are run anew for every pod. kube-scheduler gives its signatures up where default
spreading constraints exist; here those rules are simply not part of what is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from actors.framework.cycle_state import CycleState
from actors.framework.interface import Reads
from actors.framework.rules import RawScores, Rules, normalized
from actors.framework.runner import Profile
from actors.model.pod_info import PodInfo
from actors.model.pod_template import PodTemplate
from actors.model.snapshot import NodeView, Snapshot
from actors.model.vectors import Bools, Ints, Rows

MOST_MEMORIES = 64


class Answers:
    """What one part of the rules says of every node, by position in the order.

    `sums` add up the weighted scores that need no normalisation, `raws` are those that do.
    """

    def __init__(self, rules: Rules, state: CycleState, info: PodInfo, nodes: NodeView) -> None:
        self._rules = rules
        self._state = state
        self.fits: Bools = np.ones(nodes.size, dtype=np.bool_)
        self.sums: Ints = np.zeros(nodes.size, dtype=np.int64)
        rules.pre_score(state, info, nodes)
        self.raws: list[RawScores] = []
        self.renew(info, nodes, slice(0, nodes.size))

    def renew(self, info: PodInfo, nodes: NodeView, at: Rows) -> None:
        """Ask again about some nodes, which stand at these positions."""
        passing = self._rules.passing(self._state, info, nodes)
        self.fits[at] = True if passing is None else passing
        fresh = self._rules.raw_scores(self._state, info, nodes)
        final = [raw for raw in fresh if raw.final]
        if final:
            self.sums[at] = sum(raw.scores * raw.weight for raw in final)
        others = [raw for raw in fresh if not raw.final]
        if not self.raws:
            self.raws = [msgspec.structs.replace(raw, scores=np.zeros(nodes.size, dtype=np.int64)) for raw in others]
        for kept, new in zip(self.raws, others, strict=True):
            kept.scores[at] = new.scores

    def scores(self, info: PodInfo, at: Rows) -> Ints:
        """The sum of the part's final scores of the nodes at these positions; a constant may be left out."""
        total = self.sums[at]
        for raw in self.raws:
            scores = raw.scores[at]
            if scores.any():
                total = total + normalized(raw, self._state, info, scores)
        return total


class Memory:
    """The answers for pods of one template. `state` is what the plugins keep from one extension point to the next."""

    def __init__(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> None:
        self._profile = profile
        self.state = CycleState()
        for reads in (Reads.NODE, Reads.ROW):
            prefiltered = profile.parts[reads].pre_filter(self.state, info, snapshot)
            if not prefiltered.status.ok or prefiltered.node_names is not None:
                raise NotReusableError
        self._compute(info, snapshot)

    def _compute(self, info: PodInfo, snapshot: Snapshot) -> None:
        columns = snapshot.columns
        self._order = columns.order
        self._version, self._node_version = columns.changes.version, columns.node_changes.version
        every, parts = snapshot.rows(columns.order), self._profile.parts
        self._by_node = Answers(parts[Reads.NODE], self.state, info, every)
        self._by_row = Answers(parts[Reads.ROW], self.state, info, every)
        self.fits = self._by_node.fits & self._by_row.fits

    def refresh(self, info: PodInfo, snapshot: Snapshot) -> None:
        """Bring the answers up to date. Raises PluginError."""
        columns = snapshot.columns
        changed = columns.changes.since(self._version)
        retold = columns.node_changes.since(self._node_version)
        if self._order is not columns.order or changed is None or retold is None:
            self._compute(info, snapshot)
            return
        self._version, self._node_version = columns.changes.version, columns.node_changes.version
        self._renew(self._by_node, info, snapshot, retold)
        self._renew(self._by_row, info, snapshot, changed)

    def _renew(self, answers: Answers, info: PodInfo, snapshot: Snapshot, changed: Iterable[int]) -> None:
        rows = np.array([*changed], dtype=np.int64)
        if not len(rows):
            return
        at = snapshot.columns.position[rows]
        answers.renew(info, snapshot.rows(rows), at)
        self.fits[at] = self._by_node.fits[at] & self._by_row.fits[at]

    def scores(self, info: PodInfo, at: Rows) -> Ints:
        """What the rules that it holds come to, for the nodes at these positions, up to a constant."""
        return self._by_node.scores(info, at) + self._by_row.scores(info, at)


class NotReusableError(Exception):
    """The rules restrict or reject the pod before any node is looked at, so that there is nothing to keep."""


class Memories:
    """The memories of the templates met last. A template gets one when it is met again, not before."""

    def __init__(self) -> None:
        self._by_template: dict[PodTemplate, Memory | None] = {}

    def recall(self, profile: Profile, info: PodInfo, snapshot: Snapshot) -> Memory | None:
        """An up-to-date memory for the pod, or None if it has to be decided without. Raises PluginError."""
        if info.pod.spec.node_name:
            return None  # what the template leaves out
        template = info.template
        met = template in self._by_template
        memory = self._by_template.pop(template, None)
        try:
            if memory is not None:
                memory.refresh(info, snapshot)
            elif met:
                memory = Memory(profile, info, snapshot)
        except NotReusableError:
            memory = None
        self._by_template[template] = memory
        if len(self._by_template) > MOST_MEMORIES:
            del self._by_template[next(iter(self._by_template))]
        return memory
