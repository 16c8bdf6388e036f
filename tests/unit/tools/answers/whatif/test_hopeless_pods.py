"""Pods that are not tried again, as nothing that has changed can help them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.config.load import from_mapping
from berth.tools.answers.terminal.feature_gates import gates_from
from berth.tools.answers.whatif.answer_worker import answer
from berth.tools.answers.whatif.conclusion import Result
from berth.tools.answers.whatif.hopeless_pods import RejectedPods
from berth.tools.answers.whatif.question import Question
from berth.tools.answers.whatif.tried_documents import Documents

from .test_question import node, pod

PENDING = 40
FULL = [pod(f"full-{number}", 3, f"node-{number}") for number in range(1, 6)]


class Tries:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        schedule = Scheduler.schedule

        def counted(scheduler: Scheduler, *arguments: Any) -> Any:
            self.number += 1
            return schedule(scheduler, *arguments)

        monkeypatch.setattr(Scheduler, "schedule", counted)


def documents() -> Documents:
    """Returns a full cluster, with pending pods of different templates."""
    pending = [pod(f"waits-{n}", 2 + n) for n in range(PENDING)]
    nodes = [node(number) for number in range(1, 6)]
    return Documents([*nodes, *FULL, *pending], from_mapping(None), gates_from(()))


def test_a_step_that_helps_no_pending_pod_tries_none(monkeypatch: pytest.MonkeyPatch) -> None:
    tries, cluster = Tries(monkeypatch), documents()
    answer(cluster, Question([]))
    assert tries.number == PENDING
    answer(cluster, Question(["cordon node-1", "uncordon node-1", "taint node-2 a:NoSchedule"]))
    assert tries.number == PENDING


@pytest.mark.parametrize(
    "steps",
    [
        ["delete full-1"],
        ["drain node-1", "uncordon node-1"],
        ["add 1 like node-1"],
        ["cordon node-3", "delete full-3", "uncordon node-3"],
        ["remove node-2", "add 2 like node-1", "delete waits-0"],
    ],
)
def test_the_answer_is_that_of_trying_all(
    monkeypatch: pytest.MonkeyPatch, steps: list[str]
) -> None:
    cluster = documents()
    answers: list[Result] = [answer(cluster, Question(list(steps))) for _ in range(2)]
    monkeypatch.setattr(RejectedPods, "is_hopeless", lambda *_: False)
    answers += [answer(documents(), Question(list(steps)))]
    first, *others = map(msgspec.to_builtins, answers)
    assert others == [first, first]
    assert first["placed"] or first["evicted"]


def test_of_many_decisions_the_others_have_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.tools.answers.whatif.trial.MOST_EXPLAINED", 10)
    pending = answer(documents(), Question([])).pending
    message = "0/5 nodes are available"
    others = sum(len(of.pods) for of in pending if message in of.reason)
    assert others == PENDING - 10
    assert all(of.reason.startswith("stays pending: ") for of in pending)
