"""LoadAware: scores by what nodes use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from berth.testing import decide, nodes, pod
from berth.tools.docs.examples.load_aware import LoadAware

Document = dict[str, Any]


def metrics(name: str, cpu: str, age: float = 10.0) -> Document:
    measured = datetime.now(UTC) - timedelta(seconds=age)
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": measured.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "usage": {"cpu": cpu, "memory": "1Gi"},
    }


def scores(*others: Document) -> Mapping[str, int]:
    decision = decide(pod("a", cpu=1), nodes(2, cpu=10), *others, plugins=[LoadAware])
    return decision.scores_by_plugin.get("LoadAware", {})


def test_the_idle_node_is_better() -> None:
    assert scores(metrics("node-1", "5"), metrics("node-2", "100m")) == {"node-1": 40, "node-2": 89}


def test_a_pod_that_started_after_the_measurement_counts_with_its_requests() -> None:
    new = pod("b", cpu=4, node="node-2")
    measured = metrics("node-1", "2"), metrics("node-2", "1")
    assert scores(*measured, new) == {"node-1": 70, "node-2": 40}


def test_a_node_without_metrics_counts_with_its_requests() -> None:
    assert scores(metrics("node-1", "2"), pod("b", cpu=4, node="node-2")) == {
        "node-1": 70,
        "node-2": 50,
    }


def test_old_metrics_have_no_say() -> None:
    assert not any(
        scores(metrics("node-1", "5", age=600), metrics("node-2", "1", age=600)).values()
    )
