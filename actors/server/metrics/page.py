"""The metrics that berth shares with kube-scheduler, under the same names, and some of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.actors.mailboxes import Mailboxes
from berth.actors.messages import CacheStatistics, CountCached, CountQueued, QueueStatistics
from berth.actors.runtime.ask import ask
from berth.actors.runtime.measures import Registry


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
    """The families of the registry and the sizes that are counted when the metrics are read.

    `unreadable` gives the numbers of objects that cannot be read, by kind.
    """

    def __init__(
        self,
        registry: Registry,
        mailboxes: Mailboxes,
        unreadable: Callable[[], Mapping[str, int]],
    ) -> None:
        self._measures = registry
        self._queue = mailboxes.queue
        self._cache = mailboxes.cache
        self._unreadable = unreadable

    async def text(self) -> bytes:
        """All metrics, in Prometheus' text format."""
        await self._measures.refresh()
        queue = await ask(self._queue, CountQueued)
        cache = await ask(self._cache, CountCached)
        return self.text_with(Sizes(queue, cache, self._unreadable()))

    def text_with(self, sizes: Sizes) -> bytes:
        registry = CollectorRegistry()
        registry.register(SizesCollector(sizes))
        return generate_latest(registry)
