"""process_*, as Go's client library has them, and python_* in place of go_*.

The values come from prometheus_client's collectors, which have them where there is a /proc. They
are read whenever the metrics are. Like kube-scheduler's, these families have no stability.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...telemetry.measures import UNSPECIFIED, Counter, Family, Gauge, Registry

NO_LIMIT = 2**64 - 1
NETWORK = Path("/proc/self/net/netstat")


class LimitsAndNetwork(Collector):
    """The families of Go's client library that prometheus_client does not have.

    The bytes are counted in the process's network namespace.
    """

    def __init__(self, network: Path = NETWORK) -> None:
        self._network = network

    def collect(self) -> Iterator[Metric]:
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        yield GaugeMetricFamily(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            NO_LIMIT if limit == resource.RLIM_INFINITY else limit,
        )
        octets = self._octets()
        for column, name, text in (
            ("InOctets", "receive", "Number of bytes received by the process over the network."),
            ("OutOctets", "transmit", "Number of bytes sent by the process over the network."),
        ):
            if column in octets:
                yield CounterMetricFamily(
                    f"process_network_{name}_bytes_total", text, octets[column]
                )

    def _octets(self) -> dict[str, float]:
        """Pairs the line of names that begins with IpExt with the values of the line below it."""
        try:
            lines = self._network.read_text(encoding="ascii").splitlines()
        except OSError:
            return {}
        rows = [line.split()[1:] for line in lines if line.startswith("IpExt:")]
        return dict(zip(rows[0], map(float, rows[1]), strict=False)) if len(rows) == 2 else {}


COLLECTORS: tuple[Collector, ...] = (
    PROCESS_COLLECTOR,
    LimitsAndNetwork(),
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
)


def register_process(registry: Registry, collectors: Sequence[Collector] = COLLECTORS) -> None:
    """Registers the families for which the collectors have samples here, and fills them before each
    reading.
    """
    families: dict[str, Family[Counter] | Family[Gauge]] = {}
    for metric in _metrics(collectors):
        add = registry.counter if metric.type == "counter" else registry.gauge
        for sample in metric.samples[:1]:
            labels = tuple(sample.labels)
            families[sample.name] = add(sample.name, metric.documentation, labels, UNSPECIFIED)

    async def refresh() -> None:
        for metric in _metrics(collectors):
            for sample in metric.samples:
                if sample.name in families:
                    child = families[sample.name].child(*sample.labels.values())
                    child.value = sample.value

    registry.refresh_by(refresh)


def _metrics(collectors: Sequence[Collector]) -> Iterator[Metric]:
    return chain.from_iterable(collector.collect() for collector in collectors)
