"""Records: the marks of attempts become durations of extension points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from berth.actors.scheduling.framework.measuring import BIND, FILTER, PRE_FILTER, RECALL
from berth.actors.scheduling.framework.status import Code
from berth.actors.telemetry.families import Families
from berth.actors.telemetry.measures import Distribution, Registry
from berth.actors.telemetry.records import PointTimes
from berth.config.feature_gates import DEFAULTS
from tests.kit.instruments import Reader

DURATION = "framework_extension_point_duration_seconds"


class Time:
    """A clock that calls functions at certain times."""

    now = 0.0

    def __call__(self, now: float, call: Callable[..., None], *args: object) -> None:
        self.now = now
        call(*args)


def new_times() -> tuple[PointTimes, Reader, Time]:
    registry, time = Registry(), Time()
    return PointTimes(Families(registry, DEFAULTS), "p", lambda: time.now), Reader(registry), time


def test_an_interval_ends_where_the_next_one_begins_or_with_a_code() -> None:
    times, read, at = new_times()
    record = times.plain
    at(1.0, record.enter, PRE_FILTER)
    at(1.001, record.enter, FILTER)
    at(1.05, record.leave, Code.ERROR)
    at(2.1, record.took, BIND, 2.0)
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
    times, read, at = new_times()
    record = times.plain
    at(1.0, record.enter, RECALL)
    at(1.5, record.enter, FILTER)
    at(1.5, record.leave)
    at(2.0, record.enter, RECALL)
    at(2.25, record.missed)
    at(2.25, record.enter, PRE_FILTER)
    at(3.0, record.leave)
    times.settle()
    assert read.numbers(DURATION) == {
        ("PreFilter", "Success", "p"): 2,
        ("Filter", "Success", "p"): 1,
    }
    hints = "get_node_hint_duration_seconds"
    assert read.distribution(hints, "hint", "p").sum == 0.5
    assert read.distribution(hints, "no_hint", "p").sum == 0.25
    assert read.numbers("batch_attempts_total") == {("p", "hint_used"): 1, ("p", "no_hint"): 1}


def test_what_is_put_away_takes_its_time_from_the_beginning_of_the_recall() -> None:
    times, read, at = new_times()
    at(1.0, times.plain.enter, RECALL)
    at(1.25, partial(times.plain.kept, success=True))
    at(2.0, times.plain.leave)
    times.settle()
    assert read.distribution("store_schedule_results_duration_seconds", "p").sum == 0.25


def test_an_interval_without_an_end_is_counted_later() -> None:
    times, read, at = new_times()
    at(1.0, times.plain.enter, FILTER)
    times.settle()
    assert read.numbers(DURATION) == {}
    at(2.0, times.plain.leave)
    times.settle()
    assert read.numbers(DURATION) == {("Filter", "Success", "p"): 1}
    times.settle()
    assert read.numbers(DURATION) == {("Filter", "Success", "p"): 1}


def test_a_decision_that_begins_anew_does_not_count_twice() -> None:
    times, read, at = new_times()
    record = times.plain
    at(1.0, record.enter, RECALL)
    at(1.5, record.enter, FILTER)
    at(2.0, record.dropped)
    at(2.0, record.enter, PRE_FILTER)
    at(2.5, record.enter, FILTER)
    at(3.0, record.leave)
    times.settle()
    assert read.numbers(DURATION)["Filter", "Success", "p"] == 1
    assert read.numbers("batch_cache_flushed_total") == {("p", "pod_failed"): 1}


def test_a_plugin_is_timed_by_its_answer() -> None:
    times, read, at = new_times()
    at(5.5, times.detailed.ran, "Fit", "Filter", Code.UNSCHEDULABLE, 5.0)
    distribution = read.distribution(
        "plugin_execution_duration_seconds", "Fit", "Filter", "Unschedulable"
    )
    assert distribution == Distribution((0,) * 20 + (1,), 0.5)
