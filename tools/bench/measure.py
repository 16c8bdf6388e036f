"""Measurements: throughput by the second, latencies, and the scheduler's CPU time and memory.

Throughput is sampled once a second as scheduler_perf does it. The first sample with pods is left
out, as is the incomplete last second; seconds without a pod are spread over the next sample. A
window too short for a sample has one: its pods over the seconds to the last of them.
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Registry

from .stack_samples import Sampler, Stacks

INTERVAL = 1.0
MOST_STEPS = 100


class Throughput(msgspec.Struct, frozen=True):
    """The throughput of a workload, in pods per second."""

    average: float
    p50: float
    p90: float
    p95: float
    p99: float


class Latency(msgspec.Struct, frozen=True):
    """The mean and percentiles of a latency, in milliseconds."""

    mean: float
    p50: float
    p99: float


class Collections(msgspec.Struct, frozen=True):
    """The pauses for garbage collections of one generation.

    `freed` is the number of objects in cycles that the collections freed.
    """

    generation: int
    number: int
    freed: int
    p99_ms: float
    longest_ms: float


class Pauses(msgspec.Struct, frozen=True):
    """The delays of the scheduler: collections, and how late its event loop was for any reason."""

    collections: tuple[Collections, ...]
    late_p99_ms: float
    latest_ms: float


class Timeline(msgspec.Struct, frozen=True):
    """The number of events in each `step` of seconds since a window opened, and their latencies, if
    they have any.
    """

    step: float
    counts: tuple[int, ...]
    latencies: tuple[Latency | None, ...] = ()


class Effort(msgspec.Struct, frozen=True):
    """The scheduler's side of a window.

    Latencies are None if the scheduler reports none; the rest is None if the scheduler is not
    berth.
    """

    decision_ms: Latency | None = None
    attempt_ms: Latency | None = None
    cpu_seconds: float | None = None
    peak_rss_bytes: int | None = None
    profile: Stacks = {}
    pauses: Pauses | None = None
    decisions: Timeline | None = None


class Difference(msgspec.Struct, frozen=True, order=True):
    """A decision that differs from the one of `berth explain` on the same cluster, and how it
    differs.
    """

    pod: str
    difference: str


class CheckResult(msgspec.Struct, frozen=True):
    """The number of repeated decisions, and the number of those with the same result."""

    pods: int
    agree: int
    differ: tuple[Difference, ...] = ()


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """A window of a workload: the pods bound in it, and the seconds to the last of them."""

    name: str
    pods: int
    seconds: float
    throughput: Throughput
    decision_ms: Latency | None
    attempt_ms: Latency | None
    cpu_seconds: float | None
    peak_rss_bytes: int | None
    threshold: float | None = None
    reached: bool = True
    profile: Stacks = {}
    checked: CheckResult | None = None
    bound: Timeline | None = None
    decisions: Timeline | None = None


class Meter(Protocol):
    """A measurement of the scheduler while a window is open."""

    async def start(self) -> None: ...

    async def stop(self) -> Effort: ...


def samples(start: float, before: int, times: Sequence[float], end: float) -> list[float]:
    """Returns pods per second, one value for each second.

    `times` are the times, in order, at which pods were bound; `before` pods were bound earlier.
    """
    rates: list[float] = []
    baseline: int | None = None
    last, skipped, at = start, 0, 0
    for tick in range(1, int((end - start) / INTERVAL) + 1):
        now = start + tick * INTERVAL
        while at < len(times) and times[at] <= now:
            at += 1
        bound = before + at
        if not bound:
            continue
        if baseline is None:
            baseline, last = bound, now
        elif bound == baseline:
            skipped += 1
        else:
            rates += [(bound - baseline) / (now - last)] * (skipped + 1)
            baseline, last, skipped = bound, now, 0
    return rates


def nearest_rank(values: Sequence[float], percent: int) -> float:
    """Returns the percentile of sorted values."""
    return values[max(math.ceil(len(values) * percent / 100), 1) - 1]


def throughput(start: float, before: int, times: Sequence[float], end: float) -> Throughput:
    if not times:
        return Throughput(0.0, 0.0, 0.0, 0.0, 0.0)
    rates = sorted(samples(start, before, times, end)) or [
        len(times) / max(times[-1] - start, 1e-9)
    ]
    percentiles = (nearest_rank(rates, percent) for percent in (50, 90, 95, 99))
    return Throughput(statistics.fmean(rates), *percentiles)


def latency(seconds: Sequence[float]) -> Latency | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    return Latency(
        statistics.fmean(ordered) * 1e3,
        nearest_rank(ordered, 50) * 1e3,
        nearest_rank(ordered, 99) * 1e3,
    )


def timeline(
    start: float, times: Sequence[float], seconds: Sequence[float] = ()
) -> Timeline | None:
    """Returns the time line of the events at these times, in at most MOST_STEPS steps; None without
    events.

    The times are in order. `seconds` are the durations that ended then.
    """
    if not times:
        return None
    took = times[-1] - start
    steps = (step * 10.0**power for power in range(-1, 9) for step in (1, 2, 5))
    step = next(step for step in steps if took / step < MOST_STEPS)
    counts = [0] * (int(took / step) + 1)
    for at in times:
        counts[int((at - start) / step)] += 1
    latencies, first = [], 0
    for count in counts if seconds else ():
        latencies.append(latency(seconds[first : first + count]))
        first += count
    return Timeline(step, tuple(counts), tuple(latencies))


def median(results: Sequence[Result]) -> Result:
    """Returns the median of each figure over the runs of one workload.

    The profile and the time lines are those of the first run; the checks are those of all runs.
    """
    first = results[0]
    if len(results) == 1:
        return first
    documents = [msgspec.to_builtins(result) for result in results]
    merged = {
        field: _median([document.get(field) for document in documents])
        for field in (
            "pods",
            "seconds",
            "throughput",
            "decision_ms",
            "attempt_ms",
            "cpu_seconds",
            "peak_rss_bytes",
        )
    }
    reached = sum(result.reached for result in results) * 2 > len(results)
    kept = {"name": first.name, "threshold": first.threshold, "reached": reached}
    checks = [result.checked for result in results if result.checked is not None]
    checked = None
    if checks:
        differ = tuple(difference for check in checks for difference in check.differ)
        checked = CheckResult(
            sum(check.pods for check in checks), sum(check.agree for check in checks), differ
        )
    return msgspec.structs.replace(
        msgspec.convert({**merged, **kept}, Result),
        profile=first.profile,
        checked=checked,
        bound=first.bound,
        decisions=first.decisions,
    )


def _median(values: Sequence[object]) -> object:
    first = values[0]
    if isinstance(first, dict):
        return {
            key: _median([value[key] for value in values if isinstance(value, dict)])
            for key in first
        }
    numbers = [value for value in values if isinstance(value, int | float)]
    if not numbers:
        return None
    middle = statistics.median(numbers)
    return round(middle) if all(isinstance(value, int) for value in numbers) else middle


def peak_rss_bytes() -> int:
    """Returns the most memory that this process has held.

    Uses the kernel's own figure where /proc has it, since getrusage may report the peak of the
    parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Stopwatch:
    """The meter of its own process; TimedInstruments give it the durations."""

    def __init__(self, *, profile: bool) -> None:
        self._sampler = Sampler() if profile else None
        self._decided: list[float] = []
        self._decided_at: list[float] = []
        self._scheduled: list[float] = []
        self._started = self._cpu = 0.0
        self._open = False

    def decided(self, seconds: float) -> None:
        if self._open:
            self._decided.append(seconds)
            self._decided_at.append(time.monotonic())

    def scheduled(self, seconds: float) -> None:
        if self._open:
            self._scheduled.append(seconds)

    async def start(self) -> None:
        self._decided.clear()
        self._decided_at.clear()
        self._scheduled.clear()
        self._started = time.monotonic()
        self._cpu = time.process_time()
        self._open = True
        if self._sampler is not None:
            self._sampler.start()

    async def stop(self) -> Effort:
        stacks = {} if self._sampler is None else self._sampler.stop()
        self._open = False
        cpu = time.process_time() - self._cpu
        return Effort(
            latency(self._decided),
            latency(self._scheduled),
            cpu,
            peak_rss_bytes(),
            stacks,
            decisions=timeline(self._started, self._decided_at, self._decided),
        )


class TimedInstruments(Instruments):
    """The scheduler's instruments. They also pass the durations of decisions, and of attempts that
    bound a pod, on to a stopwatch.
    """

    def __init__(self, stopwatch: Stopwatch, now: Callable[[], float]) -> None:
        super().__init__(Registry(), now)
        self._stopwatch = stopwatch

    def decided(self, started: float, began: float, ended: float) -> None:
        self._stopwatch.decided(ended - began)
        super().decided(started, began, ended)

    def attempt_ended(self, profile: str, result: str, seconds: float) -> None:
        if result == "scheduled":
            self._stopwatch.scheduled(seconds)
        super().attempt_ended(profile, result, seconds)


class NoMeter:
    """A meter that measures nothing, for a scheduler that is not berth."""

    async def start(self) -> None:
        pass

    async def stop(self) -> Effort:
        return Effort()
