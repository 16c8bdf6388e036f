"""Rules that fail for some nodes fail no additional attempts when answers are remembered.

The memory asks rules about all nodes before it is known which of them matter. So a plugin may fail
for a node that does not matter to the decision, or that came later.
"""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import NodeAdded, NodeUpdated
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import (
    SUCCESS,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Ints,
    Node,
    NodeFilterPlugin,
    NodeInfo,
    NodeView,
    Plugin,
    Pod,
    PodInfo,
    PreScorePlugin,
    ScorePlugin,
    Status,
    Verdicts,
    unschedulable,
)
from tests.kit.examples import examples
from tests.kit.logs import capture_logs
from tests.kit.profiles import profile_of

BROKEN, SHUT = "broken", "shut"


def labelled(nodes: NodeView, label: str) -> list[bool]:
    infos = (nodes.info(position) for position in range(nodes.size))
    return [info is not None and label in info.labels for info in infos]


def fail(nodes: NodeView) -> None:
    if any(labelled(nodes, BROKEN)):
        raise OSError("broken")


class Shutting(FilterPlugin):
    """Never fails."""

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        return Verdicts.rejecting(np.array(labelled(nodes, SHUT)), Code.UNSCHEDULABLE, "shut")


class Filtering(FilterPlugin):
    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        fail(nodes)
        return None


class FilteringEach(NodeFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        if BROKEN in node.labels:
            raise OSError("broken")
        return unschedulable("shut") if SHUT in node.labels else SUCCESS


class Answering(FilterPlugin):
    """A plugin that returns a status that no filter may return for a broken node."""

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        return Verdicts.rejecting(np.array(labelled(nodes, BROKEN)), Code.WAIT, "broken")


class Scoring(ScorePlugin):
    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        fail(nodes)
        return np.zeros(nodes.size, dtype=np.int64)


class OutOfRange(ScorePlugin):
    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.array([101 if broken else 0 for broken in labelled(nodes, BROKEN)])


class PreScoring(PreScorePlugin, ScorePlugin):
    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        fail(nodes)
        return SUCCESS

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.zeros(nodes.size, dtype=np.int64)


class Normalizing(ScorePlugin):
    BROKEN_SCORE: ClassVar = 1000

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.array([self.BROKEN_SCORE if broken else 1 for broken in labelled(nodes, BROKEN)])

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        return scores


KINDS: list[type[Plugin]] = [
    Shutting,
    Filtering,
    FilteringEach,
    Answering,
    Scoring,
    OutOfRange,
    PreScoring,
    Normalizing,
]


def profile_with(drawn: list[tuple[type[Plugin], DependsOn]]) -> Profile:
    plugins: list[type[Plugin]] = [
        type(f"P{i}", (kind,), {"name": f"P{i}", "depends_on": depends_on})
        for i, (kind, depends_on) in enumerate(drawn)
    ]
    return profile_of("PrioritySort", *plugins, "DefaultBinder", disabled="*")


def node(name: str, labels: list[str]) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": dict.fromkeys(labels, "")}}, Node)


def outcome_of(
    scheduler: Scheduler, profile: Profile, cache: CacheState, note: str = ""
) -> Outcome:
    """`note` makes the pod's template unique."""
    metadata = {"namespace": "default", "name": "p", "uid": "u", "annotations": {"note": note}}
    pod = msgspec.convert({"metadata": metadata}, Pod)
    return scheduler.schedule(profile, PodInfo(pod), cache.snapshot())


def told(outcome: Outcome) -> tuple[Any, ...]:
    match outcome:
        case Choice(node, feasible=feasible):
            return (node, feasible)
        case Unfit(message, rejected_by):
            return (message, rejected_by)
        case DecisionFailure(status):
            return (status,)


PLUGINS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from([*DependsOn])), min_size=1, max_size=4
)
LABELS = st.lists(st.sampled_from([BROKEN, SHUT]), max_size=2, unique=True)
STEPS = st.lists(
    st.one_of(st.none(), st.tuples(st.integers(0, 4), LABELS)), min_size=3, max_size=12
)


@examples(2)
@given(PLUGINS, st.lists(LABELS, min_size=1, max_size=3), STEPS)
def test_remembering_fails_no_additional_attempt(
    drawn: list[tuple[type[Plugin], DependsOn]],
    first: list[list[str]],
    steps: list[tuple[int, list[str]] | None],
) -> None:
    profile, cache = profile_with(drawn), CacheState()
    remembering, fresh = Scheduler(Random(1)), Scheduler(Random(1))
    nodes: dict[str, Node] = {}

    def put(number: int, labels: list[str]) -> None:
        new = node(f"n{number}", labels)
        old = nodes.get(new.metadata.name)
        cache.handle(NodeAdded(new) if old is None else NodeUpdated(old, new))
        nodes[new.metadata.name] = new

    for number, labels in enumerate(first):
        put(number, labels)
    with capture_logs():
        for number, step in enumerate(steps):
            if step is not None:
                put(*step)
                continue
            outcome = outcome_of(remembering, profile, cache)
            other = outcome_of(fresh, profile, cache, note=str(number))
            if isinstance(other, DecisionFailure) and not isinstance(outcome, DecisionFailure):
                return  # The search ended before it reached a failure; from here on the two differ.
            assert told(outcome) == told(other)
