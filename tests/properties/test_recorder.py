"""The recorder in random histories: it loses only what it may, and its memory stays bounded."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.actors.messages.recorder import (
    EventType,
    FinishSeries,
    RecordEvent,
    RefreshSeries,
    SetNominatedNode,
    SetUnschedulable,
)
from berth.actors.recorder.event import Event
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState, Work, status_patch
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import ObjectMeta, ObjectReference
from tests.kit.examples import examples

START = datetime(2026, 1, 1, tzinfo=UTC)
PODS = st.sampled_from(["a", "b", "c", "d"])
NOTES = st.integers(0, 14).map("note {}".format)
MOST_EVENTS, MOST_FACTS = 3, 3


def failed(pod: str, note: str = "no room") -> RecordEvent:
    regarding = ObjectReference("v1", "Pod", "ns", pod, f"uid-{pod}", "1")
    return RecordEvent(
        regarding, EventType.WARNING, "FailedScheduling", "Scheduling", note, "default-scheduler"
    )


def pod(name: str, version: int = 1) -> Pod:
    return Pod(
        metadata=ObjectMeta(namespace="ns", name=name, uid=name, resource_version=str(version))
    )


def count(event: Event) -> int:
    return 1 if event.series is msgspec.UNSET else event.series.count


class Recording(RuleBasedStateMachine):
    """A server that accepts every write, or cannot be reached."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.state = RecorderState(SeriesTracker("here", MOST_FACTS), MOST_EVENTS)
        self.under_way: list[Work] = []
        self.ordered: dict[str, str] = {}
        self.nominated: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.written_nominations: dict[str, str] = {}
        self.served: dict[str, Event] = {}

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now)

    @rule(pod=PODS, note=NOTES)
    def happens(self, pod: str, note: str) -> None:
        self.state.handle(failed(pod, note), self.now, self.wall())

    @rule(name=PODS, note=NOTES, nominated=st.sampled_from([None, "", "n1"]))
    def condition(self, name: str, note: str, nominated: str | None) -> None:
        self.ordered[name] = note
        if nominated is not None:
            self.nominated[name] = nominated
        self.state.handle(
            SetUnschedulable(pod(name), "Unschedulable", note, nominated), self.now, self.wall()
        )

    @rule(name=PODS, node=st.sampled_from(["", "n1"]))
    def nomination(self, name: str, node: str) -> None:
        self.nominated[name] = node
        self.state.handle(SetNominatedNode(pod(name), node), self.now, self.wall())

    @rule(message=st.sampled_from([FinishSeries(), RefreshSeries()]))
    def series_are_looked_at(self, message: FinishSeries | RefreshSeries) -> None:
        self.state.handle(message, self.now, self.wall())

    @rule(times=st.integers(1, 6))
    def take(self, times: int) -> None:
        for _ in range(times):
            work = self.state.take()
            if work is not None:
                self.under_way.append(work)

    @rule(which=st.integers(0, 5), reached=st.booleans())
    def answer(self, which: int, reached: bool) -> None:
        if which >= len(self.under_way):
            return
        work = self.under_way.pop(which)
        if not reached:
            self.state.put_back(work)
            return
        self.state.done(work)
        match work:
            case Event():
                before = self.served.get(work.metadata.name)
                assert before is None or count(before) <= count(work), "an event's count decreases"
                assert (
                    before is None or msgspec.structs.replace(work, series=before.series) == before
                )
                self.served[work.metadata.name] = work
            case SetUnschedulable() | SetNominatedNode():
                self.state.wrote(work)
                name = work.pod.metadata.name
                if isinstance(work, SetUnschedulable):
                    self.written[name] = work.message
                if work.nominated_node is not None:
                    self.written_nominations[name] = work.nominated_node

    @rule(seconds=st.sampled_from([1.0, 200.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def each_object_is_written_once_at_a_time(self) -> None:
        self.state.validate()
        places = Counter(
            work.metadata.name if isinstance(work, Event) else work.pod.metadata.uid
            for work in self.under_way
        )
        assert max(places.values(), default=0) <= 1

    def teardown(self) -> None:
        """Checks that every pod has the condition and the nomination that were ordered last."""
        while self.under_way or len(self.state):
            self.take(6)
            self.answer(0, reached=True)
        assert self.written == self.ordered
        assert self.written_nominations == self.nominated


TestRecording = Recording.TestCase
TestRecording.settings = examples(steps=40)


def test_a_condition_is_written_only_if_it_changes_and_keeps_its_transition_time() -> None:
    order = SetUnschedulable(pod("a"), "Unschedulable", "no room")
    patch = status_patch(order, order.pod, None, START)
    assert patch is not None
    assert patch["metadata"] == {"uid": "a", "resourceVersion": "1"}
    told = msgspec.structs.replace(
        order.pod, status=msgspec.convert(patch["status"], type(order.pod.status))
    )
    later = START + timedelta(seconds=60)
    assert status_patch(order, told, None, later) is None
    changed = status_patch(SetUnschedulable(told, "Unschedulable", "other"), told, None, later)
    assert changed is not None
    (condition,) = changed["status"]["conditions"]
    assert (condition["message"], condition["lastTransitionTime"]) == (
        "other",
        "2026-01-01T00:00:00Z",
    )
