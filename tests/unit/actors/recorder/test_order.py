"""The order in which the outbox is written: the newest nominations and conditions first, and every
write in the end.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from berth.actors.messages.recorder import (
    EventType,
    PodBound,
    RecorderMessage,
    RecordEvent,
    SetNominatedNode,
    SetUnschedulable,
)
from berth.actors.recorder.event import Event
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState, Work
from berth.actors.scheduling.kube.core import Pod, PodStatus
from berth.actors.scheduling.kube.meta import ObjectMeta, ObjectReference

WALL = datetime(2026, 1, 1, tzinfo=UTC)


def outbox(most_events: int = 100, most_conditions: int = 100) -> RecorderState:
    return RecorderState(SeriesTracker("here"), most_events, most_conditions)


def condition(name: str, nominated: str | None = None, before: str = "") -> SetUnschedulable:
    pod = Pod(
        metadata=ObjectMeta(name=name, uid=name), status=PodStatus(nominated_node_name=before)
    )
    return SetUnschedulable(pod, "Unschedulable", "no room", nominated)


def event(name: str) -> RecordEvent:
    about = ObjectReference("v1", "Pod", "ns", name, name)
    return RecordEvent(
        about, EventType.WARNING, "FailedScheduling", "Scheduling", "no room", "default-scheduler"
    )


def nomination(name: str, node: str, before: str = "") -> SetNominatedNode:
    return SetNominatedNode(condition(name, before=before).pod, node)


def handle(state: RecorderState, *messages: RecorderMessage) -> RecorderState:
    for message in messages:
        state.handle(message, 0.0, WALL)
    state.validate()
    return state


def name(work: Work | None) -> str:
    match work:
        case None:
            return "nothing"
        case Event():
            return f"event of {work.regarding.name}"
        case SetUnschedulable() | SetNominatedNode():
            return work.pod.metadata.name


def taken(state: RecorderState, times: int) -> list[str]:
    return [name(state.take()) for _ in range(times)]


def test_nominations_then_conditions_newest_first_then_events() -> None:
    state = handle(
        outbox(),
        event("a"),
        condition("a"),
        condition("b", "n1"),
        condition("c", "n2"),
        condition("d"),
    )
    assert taken(state, 3) == ["c", "b", "d"]
    state = handle(outbox(), event("a"), event("b"), event("c"))
    assert taken(state, 4) == ["event of a", "event of b", "event of c", "nothing"]


def test_every_fourth_turn_goes_to_the_oldest_work() -> None:
    state = handle(
        outbox(), *(condition(f"c{i}") for i in range(20)), *(event(f"e{i}") for i in range(5))
    )
    assert taken(state, 12) == [
        *("c19", "c18", "c17", "c0"),
        *("c16", "c15", "c14", "event of e0"),
        *("c13", "c12", "c11", "c10"),  # the turn of a nomination, of which there is none
    ]


def test_a_newer_condition_of_a_pod_replaces_the_older_one() -> None:
    state = handle(outbox(), condition("a"), condition("b"), condition("a"))
    assert taken(state, 3) == ["a", "b", "nothing"]


@pytest.mark.parametrize(
    ("order", "is_first"),
    [
        (condition("x", "n1"), True),
        (condition("x", "", before="n1"), True),
        (condition("x", "n1", before="n1"), False),
        (condition("x", ""), False),
        (condition("x"), False),
        (nomination("x", "n1"), True),
        (nomination("x", "", before="n1"), True),
        (nomination("x", ""), False),
    ],
)
def test_only_a_nomination_that_changes_goes_first(
    order: SetUnschedulable | SetNominatedNode, is_first: bool
) -> None:
    state = handle(outbox(), order, condition("later"))
    assert (taken(state, 1) == ["x"]) == is_first


def test_a_nomination_that_ends_before_it_is_written_is_an_ordinary_condition() -> None:
    state = handle(
        outbox(), condition("a", "n1"), condition("b"), condition("c", "n1"), condition("a", "")
    )
    assert taken(state, 3) == ["c", "a", "b"]


def test_nothing_that_waits_is_written_to_the_status_of_a_bound_pod() -> None:
    state = handle(outbox(), nomination("a", "n1"), condition("b"), condition("c"), event("a"))
    handle(state, PodBound("a"), PodBound("b"), PodBound("a"))
    assert taken(state, 3) == ["c", "event of a", "nothing"]


def test_the_write_that_is_under_way_when_the_pod_is_bound_ends() -> None:
    state = handle(outbox(), nomination("a", "n1"))
    write = state.take()
    assert write is not None
    handle(state, PodBound("a")).done(write)
    assert taken(state, 1) == ["nothing"]


def test_the_last_write_counts_more_than_the_known_pod() -> None:
    state = handle(outbox(), nomination("a", "n1"), condition("b"))
    write = state.take()
    assert isinstance(write, SetNominatedNode)
    handle(state, condition("a", ""), condition("c"))
    assert taken(state, 1) == ["c"], "it waits for the write that is under way"
    state.wrote(write)
    state.done(write)
    assert taken(state, 2) == ["a", "b"]
    handle(state, condition("d"), nomination("e", "n1"))
    assert taken(state, 1) == ["e"]


def test_a_full_outbox_drops_the_oldest_but_no_nomination() -> None:
    state = outbox(most_events=2, most_conditions=2)
    for pod in "abcd":
        handle(state, event(pod), condition(pod), condition(f"{pod}!", "n1"))
    expected = {"a!", "b!", "c!", "d!", "c", "d", "event of c", "event of d", "nothing"}
    assert set(taken(state, 9)) == expected


def test_an_event_that_could_not_be_delivered_waits_in_front() -> None:
    state = handle(outbox(most_events=2), event("a"), event("b"))
    first = state.take()
    assert first is not None
    state.put_back(first)
    assert taken(state, 1) == ["event of a"]
    state = handle(outbox(most_events=2), event("a"), event("b"))
    first = state.take()
    assert first is not None
    handle(state, event("c"))
    state.put_back(first)
    assert taken(state, 3) == ["event of b", "event of c", "nothing"], "it is the oldest"


def test_an_event_that_counts_is_written_once_at_a_time() -> None:
    state = handle(outbox(), event("a"))
    first = state.take()
    assert isinstance(first, Event)
    handle(state, event("a"))
    assert state.take() is None
    state.put_back(first)
    second = state.take()
    assert isinstance(second, Event)
    assert second.series is not msgspec.UNSET
    assert second.series.count == 2
