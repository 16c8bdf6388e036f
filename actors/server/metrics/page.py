"""The metrics that berth shares with kube-scheduler, under the same names, and some of its own.

Only attempts that end with a bound pod are measured. They lack kube-scheduler's labels `result` and
`profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.actors.mailboxes import Mailboxes
from berth.actors.messages import CacheStatistics, CountCached, CountQueued, QueueStatistics
from berth.actors.runtime.ask import ask

BUCKETS = tuple(0.001 * 2**i for i in range(15))


class Sizes(msgspec.Struct, frozen=True):
    """The sizes that are counted when the metrics are read.

    `unreadable` are the numbers of objects that cannot be read, by kind.
    """

    queue: QueueStatistics
    cache: CacheStatistics
    unreadable: Mapping[str, int]


class SizesCollector(Collector):
    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes

    def collect(self) -> Iterator[Metric]:
        queue, cache = self._sizes.queue, self._sizes.cache
        pending = GaugeMetricFamily(
            "scheduler_pending_pods", "Pods that wait, by queue.", labels=["queue"]
        )
        for name in ("active", "backoff", "unschedulable", "gated"):
            pending.add_metric([name], getattr(queue, name))
        yield pending
        cached = GaugeMetricFamily(
            "scheduler_cache_size", "What the cache holds, by type.", labels=["type"]
        )
        for name in ("nodes", "pods", "assumed_pods"):
            cached.add_metric([name], getattr(cache, name))
        yield cached
        unreadable = GaugeMetricFamily(
            "berth_unreadable_objects",
            "Objects at the API server that cannot be read, by kind.",
            labels=["kind"],
        )
        for kind, count in self._sizes.unreadable.items():
            unreadable.add_metric([kind], count)
        yield unreadable
        mended = CounterMetricFamily(
            "berth_cache_mended",
            "What was wrong in the cache or the queue and was put right.",
            labels=["what"],
        )
        mended.add_metric(["difference"], cache.healed)
        mended.add_metric(["snapshot"], cache.repaired)
        mended.add_metric(["pending_pod"], queue.healed)
        yield mended


class Metrics:
    """An observer of durations. The queue and the cache are asked for their sizes when the metrics
    are read; `unreadable` gives the numbers of objects that cannot be read, by kind.
    """

    def __init__(self, mailboxes: Mailboxes, unreadable: Callable[[], Mapping[str, int]]) -> None:
        self._queue = mailboxes.queue
        self._cache = mailboxes.cache
        self._unreadable = unreadable
        self._registry = CollectorRegistry()
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

    async def text(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        queue = await ask(self._queue, CountQueued)
        cache = await ask(self._cache, CountCached)
        return self.text_with(Sizes(queue, cache, self._unreadable()))

    def text_with(self, sizes: Sizes) -> bytes:
        registry = CollectorRegistry()
        registry.register(SizesCollector(sizes))
        return generate_latest(registry) + generate_latest(self._registry)
