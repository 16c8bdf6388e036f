"""Facts that are repeated, and the fields of an Event, as client-go's tools/events has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from berth.actors.messages.recorder import EventType, RecordEvent
from berth.actors.recorder.event import Event, EventSeries
from berth.actors.recorder.series import SeriesTracker, shortened_note
from berth.actors.scheduling.kube.meta import ObjectReference

START = datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
POD = ObjectReference("v1", "Pod", "ns", "web", "u", "7")
PREEMPTOR = ObjectReference("v1", "Pod", "ns", "large", "v", "9")
FAILED = RecordEvent(
    POD, EventType.WARNING, "FailedScheduling", "Scheduling", "no room", "default-scheduler"
)


class Story:
    def __init__(self, hostname: str = "here", most: int = 100) -> None:
        self.tracker = SeriesTracker(hostname, most)
        self.now = 0.0

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def happens(self, event: RecordEvent = FAILED) -> Event | None:
        written = self.tracker.observe(event, self.now, self.wall())
        self.tracker.validate()
        return written

    def first(self, event: RecordEvent = FAILED) -> Event:
        written = self.happens(event)
        assert written is not None
        assert written.series is msgspec.UNSET
        return written


def test_the_fields_of_an_event() -> None:
    event = msgspec.structs.replace(FAILED, related=PREEMPTOR)
    assert msgspec.json.decode(msgspec.json.encode(Story().first(event))) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns", "name": f"web.{1767225600250000000:x}"},
        "eventTime": "2026-01-01T00:00:00.250000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-here",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "web",
            "uid": "u",
            "resourceVersion": "7",
        },
        "related": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "large",
            "uid": "v",
            "resourceVersion": "9",
        },
        "note": "no room",
        "type": "Warning",
    }


def test_events_about_cluster_scoped_objects_are_in_default() -> None:
    node = msgspec.structs.replace(FAILED, regarding=ObjectReference("v1", "Node", "", "n", "u"))
    assert Story().first(node).metadata.namespace == "default"


def test_the_second_makes_a_series_and_the_others_count() -> None:
    story = Story()
    first = story.first()
    story.now = 10.0
    series = EventSeries(2, "2026-01-01T00:00:10.250000Z")
    assert story.happens() == msgspec.structs.replace(first, series=series)
    for seconds in (20.0, 30.0, 40.0):
        story.now = seconds
        assert story.happens() is None
    counted = msgspec.structs.replace(first, series=EventSeries(5, "2026-01-01T00:00:40.250000Z"))
    assert story.tracker.refresh() == [counted]
    story.now = 100.0
    assert story.tracker.finish(story.now) == []
    story.now = 401.0
    assert story.tracker.finish(story.now) == [], "its last count is written"
    assert story.first().metadata.name != first.metadata.name, "the series has ended"


def test_a_series_that_ends_is_written_with_its_last_count() -> None:
    story = Story()
    for _ in range(7):
        story.happens()
    story.now = 361.0
    (last,) = story.tracker.finish(story.now)
    assert last.series == EventSeries(7, "2026-01-01T00:00:00.250000Z")
    assert (len(story.tracker), story.tracker.refresh()) == (0, [])


def test_a_fact_that_occurred_once_is_forgotten_without_a_write() -> None:
    story = Story()
    story.first()
    story.now = 300.0
    story.first(msgspec.structs.replace(FAILED, regarding=PREEMPTOR))
    story.now = 400.0
    assert story.tracker.finish(story.now) == []
    assert len(story.tracker) == 1
    assert story.tracker.refresh() == [], "only series are kept alive"


@pytest.mark.parametrize(
    ("other", "is_new"),
    [
        (msgspec.structs.replace(FAILED, note="no node either"), False),
        (msgspec.structs.replace(FAILED, type=EventType.NORMAL), True),
        (msgspec.structs.replace(FAILED, action="Binding"), True),
        (msgspec.structs.replace(FAILED, reason="Scheduled"), True),
        (msgspec.structs.replace(FAILED, reporting_controller="other-scheduler"), True),
        (msgspec.structs.replace(FAILED, related=PREEMPTOR), True),
        (msgspec.structs.replace(FAILED, regarding=PREEMPTOR), True),
        (
            msgspec.structs.replace(
                FAILED, regarding=msgspec.structs.replace(POD, resource_version="8")
            ),
            True,
        ),
    ],
)
def test_which_facts_are_equal(other: RecordEvent, is_new: bool) -> None:
    """The note of a series does not change. A change of the pod, as by its condition, makes another
    event.
    """
    story = Story()
    first = story.first()
    written = story.happens(other)
    assert written is not None
    assert (written.series is msgspec.UNSET) == is_new
    assert written.note == (other.note if is_new else first.note)


def test_memory_is_bounded_and_names_are_never_used_twice() -> None:
    story = Story(most=10)
    pods = [msgspec.structs.replace(POD, uid=f"u{i}") for i in range(1000)]
    names = {
        story.first(msgspec.structs.replace(FAILED, regarding=pod)).metadata.name for pod in pods
    }
    assert len(names) == 1000
    assert len(story.tracker) == 10


def test_a_time_without_microseconds_has_six_decimals() -> None:
    story = Story()
    story.now = 0.75
    assert story.first().event_time == "2026-01-01T00:00:01.000000Z"


def test_names_and_instances_are_cut_to_the_api_servers_limits() -> None:
    story = Story(hostname="h" * 200)
    event = story.first(
        msgspec.structs.replace(
            FAILED, regarding=msgspec.structs.replace(POD, name="a." * 126 + "a")
        )
    )
    assert len(event.reporting_instance) == 128
    assert len(event.metadata.name) <= 253
    assert ".." not in event.metadata.name


@pytest.mark.parametrize(
    ("note", "written"),
    [
        ("short", "short"),
        ("n" * 1024, "n" * 1024),
        ("n" * 1025, "n" * 1020 + " ..."),
        ("é" * 512, "é" * 512),
        ("é" * 513, "é" * 510 + " ..."),
        ("n" + "é" * 600, "n" + "é" * 509 + " ..."),
        ("n" * 1019 + "€€", "n" * 1019 + " ..."),
    ],
    ids=range(7),
)
def test_a_long_note_is_cut_at_a_character_and_ends_in_dots(note: str, written: str) -> None:
    assert shortened_note(note) == written
    assert len(written.encode()) <= 1024
