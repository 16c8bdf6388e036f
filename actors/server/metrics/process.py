"""process_*, as Go's client library has them, and python_* in place of go_*.

The values come from prometheus_client's collectors, which have them where there is a /proc. They
are read whenever the metrics are. Like kube-scheduler's, these families have no stability.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...telemetry.measures import UNSPECIFIED, Counter, Family, Gauge, Registry

NO_LIMIT = 2**64 - 1
NETWORK = Path("/proc/self/net/netstat")


class LimitsAndNetwork(Collector):
    """The families that Go's client library has and prometheus_client has not. The bytes are those
    of the process's network namespace.
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


class ProcessMeasures:
    """Registers the families that the collectors have here, and fills them before each reading."""

    def __init__(self, registry: Registry, collectors: Iterable[Collector] = COLLECTORS) -> None:
        self._collectors = tuple(collectors)
        self._families: dict[str, Family[Counter] | Family[Gauge]] = {}
        for metric in self._metrics():
            add = registry.counter if metric.type == "counter" else registry.gauge
            for sample in metric.samples[:1]:
                self._families[sample.name] = add(
                    sample.name, metric.documentation, tuple(sample.labels), UNSPECIFIED
                )
        registry.refresh_by(self.refresh)

    async def refresh(self) -> None:
        for metric in self._metrics():
            for sample in metric.samples:
                if sample.name in self._families:
                    child = self._families[sample.name].child(*sample.labels.values())
                    child.value = sample.value

    def _metrics(self) -> Iterator[Metric]:
        for collector in self._collectors:
            yield from collector.collect()
