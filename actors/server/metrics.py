"""The metrics that berth shares with kube-scheduler, under the same names, and some of its own.

Only attempts that end with a bound pod are measured. They lack kube-scheduler's labels `result` and
`profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = tuple(0.001 * 2**i for i in range(15))
Counts = Callable[[], Mapping[str, int]]


class Sizes(Collector):
    """The metrics that are read when they are asked for."""

    def __init__(self, pending: Counts, cached: Counts, mended: Counts, unreadable: Counts) -> None:
        self._pending = pending
        self._cached = cached
        self._mended = mended
        self._unreadable = unreadable

    def collect(self) -> Iterator[Metric]:
        pending = GaugeMetricFamily(
            "scheduler_pending_pods", "Pods that wait, by queue.", labels=["queue"]
        )
        cached = GaugeMetricFamily(
            "scheduler_cache_size", "What the cache holds, by type.", labels=["type"]
        )
        unreadable = GaugeMetricFamily(
            "berth_unreadable_objects",
            "Objects at the API server that cannot be read, by kind.",
            labels=["kind"],
        )
        gauges = ((pending, self._pending), (cached, self._cached), (unreadable, self._unreadable))
        for family, counts in gauges:
            for label, count in counts().items():
                family.add_metric([label], count)
            yield family
        mended = CounterMetricFamily(
            "berth_cache_mended",
            "What was wrong in the cache or the queue and was put right.",
            labels=["what"],
        )
        for label, count in self._mended().items():
            mended.add_metric([label], count)
        yield mended


class Metrics:
    """An observer. `pending` returns the numbers of pods by queue, `cached` those of nodes, pods and
    assumed pods.

    `mended` returns how many differences from the API server, and how many snapshots, the cache and
    the queue have put right; `unreadable` returns how many objects cannot be read, by kind.
    """

    def __init__(self, pending: Counts, cached: Counts, mended: Counts, unreadable: Counts) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(Sizes(pending, cached, mended, unreadable))
        self._algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "From PreFilter to the choice of a node.",
            registry=self._registry,
            buckets=BUCKETS,
        )
        self._attempt = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Attempts that ended with the pod bound, the binding included.",
            registry=self._registry,
            buckets=BUCKETS,
        )

    def decided(self, seconds: float) -> None:
        self._algorithm.observe(seconds)

    def scheduled(self, seconds: float) -> None:
        self._attempt.observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)
