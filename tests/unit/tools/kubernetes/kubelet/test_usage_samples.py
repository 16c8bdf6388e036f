"""When pods and nodes have samples, and what these contain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from berth.tools.cluster.kubelets.metrics_server import KubeletMetrics
from berth.tools.kubernetes.kubelet.usage_models import NO_SCENARIO
from berth.tools.kubernetes.kubelet.usage_samples import sample_of
from berth.tools.kubernetes.objects.structs import Pod, read
from tests.kit.documents import Document

START = datetime(2026, 1, 1, tzinfo=UTC)
NODE = {"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}}


class Clock:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return self._seconds

    def wall(self) -> datetime:
        return START + timedelta(seconds=self._seconds)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError


def pod(usage: str, **started: int | None) -> Document:
    """Returns a pod of containers that run since these seconds; None if one does not run."""
    statuses = [
        {"name": name, "state": {"running": {"startedAt": f"2026-01-01T00:00:{seconds:02}Z"}}}
        if seconds is not None
        else {"name": name, "state": {"terminated": {}}}
        for name, seconds in started.items()
    ]
    return {
        "metadata": {"name": "p", "annotations": {"berth.dev/usage": usage}},
        "spec": {"containers": [{"name": name} for name in started]},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


def sample(document: Document, seconds: float) -> tuple[float, int] | None:
    """Returns the seconds and the window of the latest sample."""
    taken = sample_of(read(document, Pod), START + timedelta(seconds=seconds), NO_SCENARIO)
    return None if taken is None else ((taken.at - START).total_seconds(), taken.window)


def test_a_pod_has_a_sample_once_it_ran_for_ten_seconds_at_a_scrape() -> None:
    late = pod("cpu=1", c=6)
    assert sample(late, 29.9) is None
    assert sample(late, 30) == (30, 15)
    early = pod("cpu=1", c=4)
    assert sample(early, 15) == (15, 11)
    assert sample(early, 44) == (30, 15)


@pytest.mark.parametrize(
    "document",
    [pod("cpu=1", c=None), pod("cpu=1", c=0, d=25), pod("cpu=lots", c=0), pod("cpu=1")],
)
def test_pods_without_a_sample(document: Document) -> None:
    assert sample(document, 30) is None


def test_the_metrics_of_a_pod_are_those_at_the_scrape() -> None:
    document = pod("cpu=100m+10m/s, memory=1Mi+1Mi/s, d/memory=5Mi", c=0, d=0, e=None)
    metrics = KubeletMetrics(Clock(59), NO_SCENARIO).pod_metrics(document, NODE)
    assert metrics == {
        "timestamp": "2026-01-01T00:00:45Z",
        "window": "15s",
        "containers": [
            {"name": "c", "usage": {"cpu": "550m", "memory": "46Mi"}},
            {"name": "d", "usage": {"cpu": "0", "memory": "5Mi"}},
        ],
    }


def test_a_pod_that_says_nothing_uses_nothing() -> None:
    document = pod("", c=0)
    del document["metadata"]["annotations"]
    metrics = KubeletMetrics(Clock(30), NO_SCENARIO).pod_metrics(document, NODE)
    assert metrics is not None
    assert metrics["containers"] == [{"name": "c", "usage": {"cpu": "0", "memory": "0"}}]


def test_a_node_uses_what_its_pods_use() -> None:
    pods = [pod("cpu=1500m, memory=1Gi", c=0), pod("cpu=wrong", c=0), pod("memory=1Gi", c=29)]
    metrics = KubeletMetrics(Clock(30), NO_SCENARIO).node_metrics(NODE, pods)
    assert metrics == {
        "timestamp": "2026-01-01T00:00:30Z",
        "window": "15s",
        "usage": {"cpu": "1500m", "memory": "2Gi"},
    }
    assert KubeletMetrics(Clock(14), NO_SCENARIO).node_metrics(NODE, pods) is None


def test_a_stopped_kubelet_tells_nothing() -> None:
    stopped = {"metadata": {**NODE["metadata"], "annotations": {"berth.dev/kubelet": "stopped"}}}
    metrics = KubeletMetrics(Clock(30), NO_SCENARIO)
    assert metrics.pod_metrics(pod("cpu=1", c=0), stopped) is None
    assert metrics.node_metrics(stopped, []) is None
