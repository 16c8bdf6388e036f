"""A measuring window: the pods that count in it, the times at which they were bound, and its
result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from berth.actors.scheduling.kube.core import Pod

from .measure import Meter, Result, Throughput, throughput, timeline
from .pod_counts import PodTracker, selects
from .workload import WorkloadRun

BUCKETS = {"Average": "average", "Perc50": "p50", "Perc90": "p90", "Perc95": "p95", "Perc99": "p99"}


class Window:
    """A count of the pods of some namespaces that are bound while the window is open.

    Times are monotonic seconds.
    """

    def __init__(
        self, name: str, namespaces: Sequence[str], selector: Mapping[str, str], pods: PodTracker
    ) -> None:
        self.name = name
        self._namespaces = frozenset(namespaces)
        self._selector = selector
        self._pods = pods
        self._before = sum(pods.tally(namespace, selector).bound for namespace in self._namespaces)
        self.times: list[float] = []
        self.started = time.monotonic()
        pods.on_bound.append(self._bound)

    def _bound(self, pod: Pod) -> None:
        if pod.metadata.namespace in self._namespaces and selects(
            self._selector, pod.metadata.labels
        ):
            self.times.append(time.monotonic())

    async def close(self, run: WorkloadRun, meter: Meter) -> Result:
        ended = time.monotonic()
        effort = await meter.stop()
        self._pods.on_bound.remove(self._bound)
        rate = throughput(self.started, self._before, self.times, ended)
        took = (self.times[-1] if self.times else ended) - self.started
        return Result(
            run.name,
            len(self.times),
            took,
            rate,
            effort.decision_ms,
            effort.attempt_ms,
            effort.cpu_seconds,
            effort.peak_rss_bytes,
            run.threshold or None,
            _reaches_threshold(run, rate),
            effort.profile,
            bound=timeline(self.started, self.times),
            decisions=effort.decisions,
        )


def _reaches_threshold(run: WorkloadRun, rate: Throughput) -> bool:
    """True if the threshold is reached, or is for another metric than throughput."""
    if (
        not run.threshold
        or run.metric.name != "SchedulingThroughput"
        or run.metric.data_bucket not in BUCKETS
    ):
        return True
    value: float = getattr(rate, BUCKETS[run.metric.data_bucket])
    return value <= run.threshold if run.metric.expect_lower else value >= run.threshold
