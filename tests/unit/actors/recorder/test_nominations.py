"""Nominations in the recorder's outbox: the latest one of a pod is never lost, whatever else is
written about the pod.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise, product

import msgspec
import pytest

from berth.actors.messages.recorder import (
    PodBound,
    RepeatNominations,
    SetNominatedNode,
    SetUnschedulable,
)
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import MOST_REFUSALS, RecorderState, status_patch
from berth.actors.scheduling.kube.core import Pod

WALL = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = (None, "", "n1", "n2")


def order(word: str | None, message: str = "no room", uid: str = "u") -> SetUnschedulable:
    metadata = {"namespace": "ns", "name": "p", "uid": uid}
    return SetUnschedulable(
        msgspec.convert({"metadata": metadata}, Pod), "Unschedulable", message, word
    )


def take(state: RecorderState) -> SetUnschedulable:
    work = state.take()
    assert isinstance(work, SetUnschedulable)
    return work


def latest(*words: str | None) -> str | None:
    return next((word for word in reversed(words) if word is not None), None)


@pytest.mark.parametrize("words", list(product(WORDS, repeat=3)))
def test_while_they_wait(words: tuple[str | None, ...]) -> None:
    state = RecorderState(SeriesTracker("here"))
    for i, word in enumerate(words):
        state.handle(order(word, f"message {i}"), 0.0, WALL)
    assert take(state) == order(latest(*words), "message 2")
    assert len(state) == 0


@pytest.mark.parametrize(("first", "second"), list(pairwise((*WORDS, *reversed(WORDS), "", None))))
def test_while_one_is_written(first: str | None, second: str | None) -> None:
    """If it comes back because there was no answer, the newer one replaces it, except for a part
    that only the older one has.
    """
    state = RecorderState(SeriesTracker("here"))
    state.handle(order(first, "earlier"), 0.0, WALL)
    writing = take(state)
    state.handle(order(second, "later"), 0.0, WALL)
    assert state.take() is None, "of a pod one write at a time"
    state.put_back(writing)
    assert take(state) == order(latest(first, second), "later")


def refuse(state: RecorderState) -> None:
    work = state.take()
    assert work is not None
    state.refused(work)


def test_a_nomination_that_was_refused_is_written_later() -> None:
    """The pod may stay parked, and nothing else would end its nomination."""
    state = RecorderState(SeriesTracker("here"))
    state.handle(order(""), 0.0, WALL)
    for _ in range(MOST_REFUSALS):
        refuse(state)
        assert state.take() is None, "not at once"
        state.handle(RepeatNominations(), 0.0, WALL)
    assert state.take() is None, "not for ever"


@pytest.mark.parametrize("newer", [order("n2"), SetNominatedNode(order(None).pod, "n2")])
def test_a_newer_nomination_replaces_the_refused_one(
    newer: SetUnschedulable | SetNominatedNode,
) -> None:
    state = RecorderState(SeriesTracker("here"))
    state.handle(order(""), 0.0, WALL)
    refuse(state)
    state.handle(newer, 0.0, WALL)
    state.handle(RepeatNominations(), 0.0, WALL)
    work = state.take()
    assert work == newer
    state.done(newer)
    state.handle(RepeatNominations(), 0.0, WALL)
    assert state.take() is None


def test_a_condition_and_the_end_of_waiting_are_not_written_again() -> None:
    state = RecorderState(SeriesTracker("here"))
    for asked in (order(None), order("n1")):
        state.handle(asked, 0.0, WALL)
        refuse(state)
    state.handle(PodBound("u"), 0.0, WALL)
    state.handle(RepeatNominations(), 0.0, WALL)
    assert state.take() is None


def test_a_status_that_was_written_is_not_written_again() -> None:
    state = RecorderState(SeriesTracker("here"))
    state.handle(order("n1"), 0.0, WALL)
    state.done(take(state))
    state.handle(order(None), 0.0, WALL)
    assert take(state) == order(None)


def test_a_later_pod_of_the_same_name_inherits_nothing() -> None:
    state = RecorderState(SeriesTracker("here"))
    state.handle(order("n1", uid="old"), 0.0, WALL)
    state.handle(order(None, uid="new"), 0.0, WALL)
    assert [take(state).nominated_node, take(state).nominated_node] == ["n1", None]


@pytest.mark.parametrize(
    ("stored", "word", "written"),
    [
        ("", None, None),
        ("n1", None, None),
        ("", "", None),
        ("n1", "n1", None),
        ("", "n1", {"nominatedNodeName": "n1"}),
        ("n1", "n2", {"nominatedNodeName": "n2"}),
        ("n1", "", {"nominatedNodeName": None}),
    ],
)
def test_a_patch_where_the_pod_has_the_condition_already(
    stored: str, word: str | None, written: dict[str, str | None] | None
) -> None:
    message = order(word)
    first = status_patch(order(None), message.pod, None, WALL)
    assert first is not None
    status = {"conditions": first["status"]["conditions"], "nominatedNodeName": stored}
    metadata = {"namespace": "ns", "name": "p", "uid": "u"}
    pod = msgspec.convert({"metadata": metadata, "status": status}, Pod)
    patch = status_patch(message, pod, None, WALL)
    if written is None:
        assert patch is None
    else:
        assert patch is not None
        assert patch["status"] == written


def nominated(node: str) -> SetNominatedNode:
    return SetNominatedNode(order(None).pod, node)


def test_a_nomination_alone_joins_a_condition_that_waits() -> None:
    state = RecorderState(SeriesTracker("here"))
    state.handle(order("", "earlier"), 0.0, WALL)
    state.handle(nominated("n1"), 0.0, WALL)
    assert take(state) == order("n1", "earlier")
    state.handle(nominated("n2"), 0.0, WALL)
    state.handle(order(None, "later"), 0.0, WALL)
    state.done(order(None))
    assert take(state) == order("n2", "later")


def test_the_clearing_on_its_way_does_not_undo_the_next_nomination() -> None:
    """The second attempt knew an older version of the pod than the first attempt wrote."""
    state, pod = RecorderState(SeriesTracker("here")), order(None).pod
    pod = msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, nominated_node_name="n1")
    )
    clearing, again = SetNominatedNode(pod, ""), SetNominatedNode(pod, "n1")
    state.handle(clearing, 0.0, WALL)
    work = state.take()
    assert work == clearing
    state.handle(again, 0.0, WALL)
    assert state.take() is None
    assert state.patch(clearing, pod, WALL) == {
        "metadata": {"uid": "u"},
        "status": {"nominatedNodeName": None},
    }
    state.wrote(clearing)
    state.done(clearing)
    assert state.take() == again
    assert state.patch(again, pod, WALL) == {
        "metadata": {"uid": "u"},
        "status": {"nominatedNodeName": "n1"},
    }
    state.wrote(again)
    assert state.patch(again, pod, WALL) is None


def test_a_condition_that_another_has_replaced_is_written_again() -> None:
    state, first, second = (
        RecorderState(SeriesTracker("here")),
        order(None, "first"),
        order(None, "second"),
    )
    patch = state.patch(first, first.pod, WALL)
    assert patch is not None
    pod = msgspec.structs.replace(
        first.pod, status=msgspec.convert(patch["status"], type(first.pod.status))
    )
    assert state.patch(first, pod, WALL) is None
    state.wrote(second)
    assert state.patch(first, pod, WALL) is not None
