"""The cells of the views' rows."""

from __future__ import annotations

from berth.actors.wiring.glance import Glance, QueuedPod
from berth.tools.answers.feed.feed import Frame
from berth.tools.views.top.cluster_model import ClusterModel
from berth.tools.views.top.views import PodsOf, Queue
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


def test_the_queue_is_searched_by_pod_place_and_plugin() -> None:
    pods = (
        QueuedPod("shop/Web", "parked", 3, 0, 0.0, ("NodeResourcesFit",)),
        QueuedPod("shop/db", "backoff", 1, 0, 2.0, ()),
    )
    cluster = ClusterModel()
    cluster.take(Glance(0, 1, 1, 0, 0, 0, 0, (), pods, True, (), 0.0), NOW)
    found = {
        text: [*Queue().rows(cluster, text, NOW, 80)]
        for text in ("", "web", "backoff", "resourcesfit", "none")
    }
    assert found == {
        "": ["shop/Web", "shop/db"],
        "web": ["shop/Web"],
        "backoff": ["shop/db"],
        "resourcesfit": ["shop/Web"],
        "none": [],
    }
