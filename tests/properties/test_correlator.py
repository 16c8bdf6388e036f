"""The recorder over random histories: nothing is lost but what may be, and memory stays bounded."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.kube.core import Pod
from actors.kube.meta import ObjectMeta
from actors.messages import EventType, RecordEvent, SetUnschedulable
from actors.recorder.correlator import COMBINED, Correlator, cut
from actors.recorder.event import Event
from actors.recorder.state import RecorderState, Work, status_patch

START = datetime(2026, 1, 1, tzinfo=UTC)
PODS = st.sampled_from(["a", "b", "c", "d"])
NOTES = st.integers(0, 14).map("note {}".format)
MOST_EVENTS = 3


def failed(pod: str, note: str = "no room") -> RecordEvent:
    subject = ("v1", "Pod", "ns", pod, f"uid-{pod}")
    return RecordEvent(*subject, EventType.WARNING, "FailedScheduling", "Scheduling", note, "default-scheduler")


def pod(name: str, version: int = 1) -> Pod:
    return Pod(metadata=ObjectMeta(namespace="ns", name=name, uid=name, resource_version=str(version)))


class Recording(RuleBasedStateMachine):
    """A server that takes what it is given, or cannot be reached."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.state = RecorderState(MOST_EVENTS)
        self.under_way: list[Work] = []
        self.ordered: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.served: dict[str, Event] = {}

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now)

    @rule(pod=PODS, note=NOTES)
    def happens(self, pod: str, note: str) -> None:
        self.state.handle(failed(pod, note), self.now, self.wall())

    @rule(name=PODS, note=NOTES)
    def condition(self, name: str, note: str) -> None:
        self.ordered[name] = note
        self.state.handle(SetUnschedulable(pod(name), "Unschedulable", note), self.now, self.wall())

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
                assert before is None or before.count < work.count, "an event's count goes back"
                self.served[work.metadata.name] = work
            case SetUnschedulable(of, _, message):
                self.written[of.metadata.name] = message

    @rule(seconds=st.sampled_from([1.0, 200.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def each_object_is_written_once_at_a_time(self) -> None:
        self.state.validate()
        places = Counter(
            work.metadata.name if isinstance(work, Event) else work.pod.metadata.uid for work in self.under_way
        )
        assert max(places.values(), default=0) <= 1

    def teardown(self) -> None:
        """When all is delivered, every pod's condition is the last that was ordered."""
        while self.under_way or len(self.state):
            self.take(6)
            self.answer(0, reached=True)
        assert self.written == self.ordered


Recording.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
TestRecording = Recording.TestCase


def test_equal_events_are_one_that_counts() -> None:
    correlator = Correlator()
    writes = [correlator.observe(failed("a"), 10.0 * i, START + timedelta(seconds=10 * i)) for i in range(3)]
    sent = [write for write in writes if write is not None]
    assert len({write.metadata.name for write in sent}) == 1
    assert [write.count for write in sent] == [1, 2, 3]
    assert sent[2].update == {"count": 3, "lastTimestamp": "2026-01-01T00:00:20Z", "message": "no room"}
    assert sent[2].first_timestamp == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("same", [True, False])
def test_a_flood_about_one_pod_is_cut_and_counted(same: bool) -> None:
    """A pod that is refused every second for an hour costs some 37 writes, not 3600."""
    correlator = Correlator()
    writes = [
        correlator.observe(failed("a", "no room" if same else f"no room {i}"), i, START + timedelta(seconds=i))
        for i in range(3600)
    ]
    sent = [write for write in writes if write is not None]
    assert len(sent) == 25 + 3600 // 300 - 1
    assert len({write.metadata.name for write in sent}) == (1 if same else 10)
    assert sent[-1].message.startswith(COMBINED) is not same
    assert sent[-1].count > 3000
    assert correlator.observe(failed("b"), 3600.0, START) is not None
    correlator.validate()


def test_memory_is_bounded() -> None:
    correlator = Correlator(most=10)
    names = {
        write.metadata.name for i in range(1000) if (write := correlator.observe(failed(f"p{i}"), i, START)) is not None
    }
    assert len(names) == 1000
    correlator.validate()


def test_a_full_outbox_drops_the_oldest_events_and_no_condition() -> None:
    state = RecorderState(2)
    for name in "abcd":
        state.handle(failed(name), 0.0, START)
        state.handle(SetUnschedulable(pod(name), "Unschedulable", "no room"), 0.0, START)
    taken = [state.take() for _ in range(7)]
    assert [work.pod.metadata.name for work in taken if isinstance(work, SetUnschedulable)] == list("abcd")
    assert [work.involved_object.name for work in taken if isinstance(work, Event)] == list("cd")
    assert (taken[-1], state.dropped) == (None, 2)


def test_a_condition_is_written_only_if_it_changes_and_keeps_its_transition_time() -> None:
    order = SetUnschedulable(pod("a"), "Unschedulable", "no room")
    patch = status_patch(order, order.pod, None, START)
    assert patch is not None
    assert patch["metadata"] == {"uid": "a", "resourceVersion": "1"}
    told = msgspec.structs.replace(order.pod, status=msgspec.convert(patch["status"], type(order.pod.status)))
    later = START + timedelta(seconds=60)
    assert status_patch(order, told, None, later) is None
    changed = status_patch(SetUnschedulable(told, "Unschedulable", "other"), told, None, later)
    assert changed is not None
    (condition,) = changed["status"]["conditions"]
    assert (condition["message"], condition["lastTransitionTime"]) == ("other", "2026-01-01T00:00:00Z")


def test_a_long_note_is_cut_at_a_character() -> None:
    assert cut("é" * 600) == "é" * 512
    assert cut("short") == "short"
