"""Records: the marks of attempts become durations of extension points."""

from __future__ import annotations

from berth.actors.scheduling.framework.measuring import (
    BIND,
    FILTER,
    NO_RECALL,
    PRE_FILTER,
    RECALL,
    SUCCEEDED,
)
from berth.actors.scheduling.framework.status import Code
from berth.actors.telemetry.families import Families
from berth.actors.telemetry.measures import Distribution, Registry
from berth.actors.telemetry.records import PointTimes
from berth.config.feature_gates import DEFAULTS
from tests.kit.instruments import Reader

DURATION = "framework_extension_point_duration_seconds"


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def made() -> tuple[PointTimes, Reader, Time]:
    registry, time = Registry(), Time()
    return PointTimes(Families(registry, DEFAULTS), "p", time), Reader(registry), time


def test_an_interval_ends_where_the_next_one_begins_or_with_a_code() -> None:
    times, read, _ = made()
    times.plain.marks.extend((PRE_FILTER, 1.0, FILTER, 1.001, Code.ERROR, 1.05))
    times.plain.marks.extend((BIND, 2.0, SUCCEEDED, 2.1))
    times.settle()
    assert read.numbers(DURATION) == {
        ("PreFilter", "Success", "p"): 1,
        ("Filter", "Error", "p"): 1,
        ("Bind", "Success", "p"): 1,
    }
    filtering = read.distribution(DURATION, "Filter", "Error", "p")
    assert round(filtering.sum, 6) == 0.049
    assert filtering.counts.index(1) == 9  # up to 51.2 ms


def test_a_pre_filter_with_kept_answers_counts_as_a_hint_too() -> None:
    times, read, _ = made()
    times.plain.marks.extend((RECALL, 1.0, FILTER, 1.5, SUCCEEDED, 1.5))
    times.plain.marks.extend((NO_RECALL, 2.0, PRE_FILTER, 2.25, SUCCEEDED, 3.0))
    times.settle()
    assert read.numbers(DURATION) == {
        ("PreFilter", "Success", "p"): 2,
        ("Filter", "Success", "p"): 1,
    }
    hints = "get_node_hint_duration_seconds"
    assert read.distribution(hints, "hint", "p").sum == 0.5
    assert read.distribution(hints, "no_hint", "p").sum == 0.25
    assert read.numbers("batch_attempts_total") == {("p", "hint_used"): 1, ("p", "no_hint"): 1}


def test_an_interval_without_an_end_is_counted_later() -> None:
    times, read, _ = made()
    times.plain.marks.extend((FILTER, 1.0))
    times.settle()
    assert read.numbers(DURATION) == {}
    times.plain.marks.extend((SUCCEEDED, 2.0))
    times.settle()
    assert read.numbers(DURATION) == {("Filter", "Success", "p"): 1}
    times.settle()
    assert read.numbers(DURATION) == {("Filter", "Success", "p"): 1}


def test_a_decision_that_begins_anew_does_not_count_twice() -> None:
    times, read, time = made()
    times.plain.marks.extend((RECALL, 1.0, FILTER, 1.5))
    time.now = 2.0
    times.plain.dropped()
    times.plain.marks.extend((PRE_FILTER, 2.0, FILTER, 2.5, SUCCEEDED, 3.0))
    times.settle()
    assert read.numbers(DURATION)["Filter", "Success", "p"] == 1
    assert read.numbers("batch_cache_flushed_total") == {("p", "pod_failed"): 1}


def test_a_plugin_is_timed_by_its_answer() -> None:
    times, read, time = made()
    time.now = 5.5
    times.detailed.ran("Fit", "Filter", Code.UNSCHEDULABLE, 5.0)
    found = read.distribution("plugin_execution_duration_seconds", "Fit", "Filter", "Unschedulable")
    assert found == Distribution((0,) * 20 + (1,), 0.5)
