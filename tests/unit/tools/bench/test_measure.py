"""Throughput in samples of a second, percentiles, and the median of runs."""

from __future__ import annotations

import msgspec
import pytest

from berth.tools.bench.measure import (
    CheckResult,
    Difference,
    Latency,
    Result,
    Stopwatch,
    Throughput,
    latency,
    median,
    nearest_rank,
    samples,
    throughput,
    timeline,
)
from tests.kit.busy import busy


def bound(*each_second: int) -> list[float]:
    """Times of bindings: this many pods in the middle of each second."""
    return [second + 0.5 for second, number in enumerate(each_second) for _ in range(number)]


@pytest.mark.parametrize(
    ("times", "before", "end", "expected"),
    [
        (bound(5, 10, 20), 0, 3.0, [10, 20]),  # the first second with pods does not count
        (bound(0, 5, 10, 20), 0, 4.0, [10, 20]),
        (bound(5, 10, 20), 0, 2.9, [10]),  # nor does the last part of a second
        (
            bound(5, 10, 0, 0, 6),
            0,
            5.0,
            [10, 2, 2, 2],
        ),  # seconds without pods share the next sample
        (bound(0, 4, 8), 7, 3.0, [4, 8]),  # earlier pods are the baseline
        (bound(50), 0, 0.8, []),
        ([], 0, 5.0, []),
    ],
)
def test_samples(times: list[float], before: int, end: float, expected: list[float]) -> None:
    assert samples(0.0, before, times, end) == expected


def test_percentiles_use_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 11)]
    expected = [1, 1, 5, 9, 10, 10, 10]
    assert [nearest_rank(values, percent) for percent in (0, 1, 50, 90, 95, 99, 100)] == expected


def test_a_time_line_counts_in_at_most_a_hundred_steps() -> None:
    line = timeline(10.0, [10.01, 10.05, 10.35], [0.001, 0.003, 0.002])
    assert line is not None
    assert (line.step, line.counts) == (0.1, (2, 0, 0, 1))
    assert line.latencies == (Latency(2.0, 1.0, 3.0), None, None, Latency(2.0, 2.0, 2.0))
    long = timeline(0.0, [100.0, 650.0])
    assert long is not None
    assert (long.step, len(long.counts), sum(long.counts), long.latencies) == (10.0, 66, 2, ())
    assert timeline(0.0, []) is None


def test_throughput() -> None:
    rates = throughput(0.0, 0, bound(1, 10, 20, 60), 4.0)
    assert rates == Throughput(30, 20, 60, 60, 60)
    assert throughput(0.0, 0, [0.1, 0.2, 0.5], 0.6) == Throughput(
        6, 6, 6, 6, 6
    )  # too short for a sample
    assert throughput(0.0, 0, [], 9.0) == Throughput(0, 0, 0, 0, 0)


def test_latency_is_in_milliseconds() -> None:
    times = latency([0.001, 0.002, 0.006])
    assert times is not None
    assert msgspec.structs.astuple(times) == pytest.approx((3, 2, 6))
    assert latency([]) is None


async def test_a_stopwatch_counts_only_while_it_runs() -> None:
    watch = Stopwatch(profile=True)
    watch.decided(1.0)
    await watch.start()
    busy()
    watch.decided(0.002)
    watch.scheduled(0.004)
    effort = await watch.stop()
    watch.scheduled(1.0)
    assert effort.decision_ms == Latency(2, 2, 2)
    assert effort.attempt_ms == Latency(4, 4, 4)
    assert effort.cpu_seconds is not None
    assert effort.cpu_seconds >= 0
    assert effort.peak_rss_bytes is not None
    assert effort.peak_rss_bytes > 1 << 20
    assert any(stack.endswith(":busy") for stack in effort.profile)


def result(average: float, pods: int = 10, decision: float | None = None) -> Result:
    rate = Throughput(average, average, average, average, average)
    spent = None if decision is None else Latency(decision, decision, decision)
    return Result("A/b", pods, 10 / average, rate, spent, None, 2.0, 100, 5.0, average >= 5)


def test_the_median_is_taken_for_each_figure() -> None:
    middle = median([result(9.0, 10, 3.0), result(2.0, 11, 1.0), result(7.0, 13, 2.0)])
    assert (middle.throughput.average, middle.throughput.p99, middle.pods) == (7, 7, 11)
    assert middle.decision_ms == Latency(2, 2, 2)
    assert middle.attempt_ms is None
    assert (middle.name, middle.threshold, middle.reached) == ("A/b", 5, True)
    assert median([result(3.0)]) == result(3.0)
    assert isinstance(median([result(1.0, 1), result(2.0, 2)]).pods, int)


def test_the_checks_of_all_runs_add_up() -> None:
    differs = Difference("ns/p", "the node is a; explain's is b")
    runs = [
        msgspec.structs.replace(result(1.0), checked=checked)
        for checked in (CheckResult(3, 3), CheckResult(4, 3, (differs,)), CheckResult(2, 2))
    ]
    assert median(runs).checked == CheckResult(9, 8, (differs,))
    assert median([result(1.0), result(2.0)]).checked is None


def test_results_are_written_in_the_documented_form() -> None:
    document = msgspec.to_builtins(result(9.0, 10, 3.0))
    assert list(document)[:8] == [
        "name",
        "pods",
        "seconds",
        "throughput",
        "decision_ms",
        "attempt_ms",
        "cpu_seconds",
        "peak_rss_bytes",
    ]
    assert list(document["throughput"]) == ["average", "p50", "p90", "p95", "p99"]
    assert list(document["decision_ms"]) == ["mean", "p50", "p99"]
