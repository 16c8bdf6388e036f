"""The algorithm with extenders, for pods whose template is remembered and for others."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import numpy as np
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import NodeAdded, Nominate
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.questions import (
    Answer,
    FilteredNodes,
    FilterNodes,
    PrioritizeNodes,
    Question,
)
from berth.actors.scheduling.framework.status import error, unschedulable
from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import NodeView, Snapshot
from tests.kit import structs
from tests.kit.profiles import profile_of

PROFILE = profile_of()
NAMES = ["n0", "n1", "n2", "n3"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ATTEMPTS = range(4)  # A template is remembered from the second pod on.


@pytest.fixture
def cache() -> CacheState:
    cache = CacheState()
    for name in NAMES:
        status = {"allocatable": {"cpu": 8, "memory": "8Gi", "pods": 10}}
        cache.handle(
            NodeAdded(msgspec.convert({"metadata": {"name": name}, "status": status}, Node))
        )
    return cache


def pod(*nodes: str) -> PodInfo:
    """Returns a pod that may run on these nodes only."""
    fields = [{"key": "metadata.name", "operator": "In", "values": nodes}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}
    return structs.pod_info(affinity=affinity if nodes else {})


def names(view: NodeView) -> list[str]:
    return [view.name(i) for i in range(view.size)]


def decide(
    scheduler: Scheduler, info: PodInfo, snapshot: Snapshot, answer: Callable[[Question], Answer]
) -> tuple[Outcome, list[Question]]:
    steps = scheduler.steps(PROFILE, info, snapshot, extended=True)
    questions: list[Question] = []
    reply: Answer | None = None
    while True:
        try:
            question = next(steps) if reply is None else steps.send(reply)
        except StopIteration as done:
            return done.value, questions
        questions.append(question)
        reply = answer(question)


def keeping(*kept: str) -> Callable[[Question], Answer]:
    """Extenders that leave some nodes, and like the last one best."""

    def answer(question: Question) -> Answer:
        if isinstance(question, PrioritizeNodes):
            return np.array([1000 * int(name == kept[-1]) for name in names(question.nodes)])
        assert isinstance(question, FilterNodes)
        view = question.nodes
        rows = {name: view.row(i) for i, name in enumerate(names(view))}
        left = [row for name, row in rows.items() if name in kept]
        gone = {row: unschedulable("dear") for name, row in rows.items() if name not in kept}
        return FilteredNodes(np.array(left, dtype=np.int64), gone)

    return answer


@pytest.mark.parametrize("allowed", [(), ("n1", "n3"), ("n3", "n2", "n0")])
@pytest.mark.parametrize("kept", [("n3",), ("n0", "n3"), ("n1", "n2", "n3")])
def test_extenders_filter_and_prioritize(
    cache: CacheState, allowed: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    scheduler = Scheduler(Random(0))
    for _ in ATTEMPTS:
        outcome, _ = decide(scheduler, pod(*allowed), cache.snapshot(), keeping(*kept))
        assert isinstance(outcome, Choice)
        assert outcome.node == "n3"
        assert outcome.feasible == len({*(allowed or NAMES)} & {*kept})


def test_extenders_that_leave_no_node_are_named(cache: CacheState) -> None:
    scheduler = Scheduler(Random(0))
    for _ in ATTEMPTS:
        outcome, _ = decide(scheduler, pod("n1", "n2"), cache.snapshot(), keeping("n0"))
        assert isinstance(outcome, Unfit)
        assert outcome.message.startswith("0/4 nodes are available: ")
        assert "2 dear" in outcome.message
        assert "Extender" in outcome.rejected_by


def test_an_extender_that_fails_is_asked_once(cache: CacheState) -> None:
    scheduler = Scheduler(Random(0))
    for _ in ATTEMPTS:
        outcome, questions = decide(
            scheduler, pod(), cache.snapshot(), lambda _: error("out of order")
        )
        assert isinstance(outcome, DecisionFailure)
        assert outcome.status.message == "out of order"
        assert len(questions) == 1


def test_the_nominated_node_comes_first_unless_an_extender_takes_it(cache: CacheState) -> None:
    scheduler, info = Scheduler(Random(0)), pod()
    cache.handle(Nominate(info, "n2"))
    for _ in ATTEMPTS:
        outcome, questions = decide(scheduler, info, cache.snapshot(), keeping("n2", "n3"))
        assert isinstance(outcome, Choice)
        assert (outcome.node, outcome.evaluated, len(questions)) == ("n2", 1, 1)
        outcome, questions = decide(scheduler, info, cache.snapshot(), keeping("n1"))
        assert isinstance(outcome, Choice)
        assert (outcome.node, len(questions)) == ("n1", 2)
