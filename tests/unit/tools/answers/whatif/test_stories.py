"""Stories of pods from the process that answers what-ifs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.answers.feed.story import NOTHING_RECORDED, as_pending, story_of
from berth.tools.answers.whatif.answer_worker import Replica
from berth.tools.answers.whatif.question import (
    Answered,
    Asked,
    Changed,
    Configured,
    StoryAsked,
)

from .test_question import node, pod

QUESTION = Asked(b'{"steps": ["remove node-2", "drain node-3"]}')
NODES = [node(number) for number in (1, 2, 3)]
NOMINATED = {**pod("high", 4, priority=9), "status": {"nominatedNodeName": "node-2"}}
PODS = [
    *(pod(f"r-{number}", 2, f"node-{number}") for number in (1, 2, 3)),
    pod("big", 9),
    pod("other", 1, schedulerName="other"),
    {**pod("done", 1, "node-1"), "status": {"phase": "Succeeded"}},
    NOMINATED,
]


def replica() -> Replica:
    """Returns a process's state that knows the cluster, and has answered a question."""
    told = Replica()
    configured = Configured(msgspec.to_builtins(from_mapping(None), enc_hook=str), dict(DEFAULTS))
    told.take(configured, unanswered)
    for kind, documents in (("Node", NODES), ("Pod", PODS)):
        objects = [msgspec.Raw(msgspec.json.encode(d)) for d in documents]
        told.take(Changed("v1", kind, objects), unanswered)
    return told


def asked(told: Replica, frame: Asked | StoryAsked) -> Answered:
    answers: list[Answered] = []
    told.take(frame, answers.append)
    (answered,) = answers
    assert not answered.last, "the process answers the next question too"
    return answered


def unanswered(answered: Answered) -> None:
    raise AssertionError(answered)


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the memory of the process of the tests without a limit."""
    monkeypatch.setattr("berth.tools.answers.whatif.answer_worker.PROCESS", Path("/none"))


@pytest.mark.usefixtures("unlimited")
def test_a_story_is_that_of_a_cluster_of_its_own_and_leaves_no_trace() -> None:
    told = replica()
    before = asked(told, QUESTION)
    for document in PODS:
        name = document["metadata"]["name"]
        events: list[dict[str, Any]] = []
        answered = asked(told, StoryAsked("default", name, NOTHING_RECORDED, events))
        ask = partial(as_pending, document, [*NODES, *PODS], from_mapping(None), DEFAULTS)
        expected = story_of(document, events, NOTHING_RECORDED, ask)
        assert msgspec.json.decode(answered.body) == msgspec.to_builtins(expected), name
        assert asked(told, QUESTION) == before, name
    assert asked(told, StoryAsked("default", "none", NOTHING_RECORDED, None)).status == 404
