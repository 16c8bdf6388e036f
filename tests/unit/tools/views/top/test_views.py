"""The cells of the views' rows."""

from __future__ import annotations

from berth.tools.answers.feed.feed import Frame
from berth.tools.views.top.cluster_model import ClusterModel
from berth.tools.views.top.views import PodsOf
from tests.kit.page import node_of, pod_of

NOW = 1000.0


def test_a_pod_of_a_node_shows_its_requests_or_zero_and_an_unknown_one_nothing() -> None:
    cluster = ClusterModel()
    whole = pod_of("x/1", "a", priority=2000, created=NOW - 90)
    cluster.take(Frame(nodes=[node_of("a")], pods=[whole, pod_of("x/2", "a", requests={})]), NOW)
    view = PodsOf("a")
    shown = {key: [text for text, _ in view.cells(cluster, key, NOW)] for key in ("x/1", "x/2")}
    assert shown["x/1"] == ["x/1", "Running", "0.5", "1Gi", "2,000", "1m"]
    assert shown["x/2"] == ["x/2", "Running", "0", "0", "0", ""]
    assert [text for text, _ in view.cells(cluster, "gone", NOW)] == ["gone", *[""] * 5]
