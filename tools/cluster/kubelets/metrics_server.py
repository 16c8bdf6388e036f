"""The hollow metrics-server: what nodes and pods use now, as the API server answers it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.quantity import binary_text, decimal_text
from berth.actors.scheduling.kube.times import rfc3339

from ...kubernetes.kubelet.hollow_nodes import is_stopped
from ...kubernetes.kubelet.usage_models import Scenario
from ...kubernetes.kubelet.usage_samples import (
    RESOLUTION_SECONDS,
    sample_of,
    scraped_at,
    usage_by_container,
)
from ...kubernetes.objects.structs import Document, Pod, read


class KubeletMetrics:
    """The metrics of the pods and nodes of a toy cluster, as its API server serves them."""

    def __init__(self, clock: Clock, scenario: Scenario) -> None:
        self._clock = clock
        self._scenario = scenario

    def pod_metrics(self, pod: Document, node: Document) -> Document | None:
        now = self._clock.wall()
        sample = None if is_stopped(node) else sample_of(read(pod, Pod), now, self._scenario)
        if sample is None:
            return None
        containers = [
            {"name": each.name, "usage": _usage(each.cpu, each.memory)}
            for each in sample.containers
        ]
        return {**_window(sample.at, sample.window), "containers": containers}

    def node_metrics(self, node: Document, pods: Iterable[Document]) -> Document | None:
        at = scraped_at(self._clock.wall())
        created = datetime.fromisoformat(node["metadata"]["creationTimestamp"])
        if is_stopped(node) or created + timedelta(seconds=RESOLUTION_SECONDS) > at:
            return None
        usages = [
            used
            for pod in pods
            for used in (usage_by_container(read(pod, Pod), at, self._scenario) or {}).values()
        ]
        total = _usage(sum(used.cpu for used in usages), sum(used.memory for used in usages))
        return {**_window(at, RESOLUTION_SECONDS), "usage": total}


def _window(at: datetime, seconds: int) -> Document:
    return {"timestamp": rfc3339(at), "window": f"{seconds}s"}


def _usage(cpu: int, memory: int) -> Document:
    return {"cpu": decimal_text(cpu), "memory": binary_text(memory)}
