from __future__ import annotations

import msgspec

from berth.tools.answers.feed.feed import Frame
from berth.tools.views.top.cluster_model import MOST_NEWS, SECONDS, ClusterModel, FeedBegan
from tests.kit.page import QUIET, node_of, pod_of

NOW = 1000.0


def test_the_use_of_a_node_follows_its_pods() -> None:
    cluster = ClusterModel()
    cluster.take(Frame(nodes=[node_of("a"), node_of("b")], pods=[pod_of("x/1", "a")]), NOW)
    cluster.take(Frame(pods=[pod_of("x/2", "a"), pod_of("x/3")]), NOW)
    assert (cluster.use("a", "cpu"), cluster.on("a")) == (1000, ["x/1", "x/2"])
    assert (cluster.use("b", "cpu"), cluster.pending()) == (0, 1)
    cluster.take(Frame(pods=[pod_of("x/2", "b"), pod_of("x/1", "a", requests={})]), NOW)
    assert (cluster.use("a", "cpu"), cluster.on("a")) == (0, [])
    assert (cluster.use("b", "cpu"), cluster.on("b")) == (500, ["x/2"])
    cluster.take(Frame(gone_pods=["x/2", "x/9"], gone_nodes=["b", "z"]), NOW)
    assert (cluster.use("b", "cpu"), cluster.on("b"), list(cluster.nodes)) == (0, [], ["a"])


def test_a_pod_is_placed_once_and_stays_so_when_it_is_gone() -> None:
    cluster = ClusterModel()
    placed = pod_of("x/1", "a", created=990.0, scheduled=998.0)
    cluster.take(Frame(pods=[placed]), NOW)
    cluster.take(Frame(pods=[msgspec.structs.replace(placed, phase="Running")]), NOW)
    cluster.take(Frame(gone_pods=["x/1"]), NOW)
    assert (sum(cluster.placed(NOW)), cluster.rate(NOW), cluster.waited(NOW)) == (1, 0.2, 8.0)
    assert cluster.placed(NOW)[-2:] == [1, 0]
    assert (cluster.rate(NOW + 10), cluster.waited(NOW + 10)) == (0.0, 8.0)
    assert cluster.waited(NOW + SECONDS) is None


def test_pods_that_were_placed_long_ago_are_no_throughput() -> None:
    cluster = ClusterModel()
    cluster.take(Frame(pods=[pod_of("x/1", "a", scheduled=NOW - 2 * SECONDS)]), NOW)
    assert sum(cluster.placed(NOW)) == 0


def test_a_feed_that_begins_anew_replaces_the_cluster() -> None:
    cluster = ClusterModel()
    cluster.take(Frame(nodes=[node_of("a")], pods=[pod_of("x/1", "a")]), NOW)
    cluster.take(FeedBegan(), NOW)
    assert (cluster.nodes, cluster.pods, cluster.use("a", "cpu")) == ({}, {}, 0)


def test_changes_of_the_scheduler_are_news() -> None:
    cluster = ClusterModel()
    slow = msgspec.structs.replace(QUIET, problems=("pods: not synced",), still_seconds=3.0)
    slow = msgspec.structs.replace(slow, outdated="c.yaml is not in use: it is empty")
    deposed = msgspec.structs.replace(QUIET, leads=False)
    for glance in (QUIET, QUIET, slow, slow, deposed):
        cluster.take(glance, NOW)
    assert [news.text for news in cluster.news] == [
        "The scheduler leads.",
        "pods: not synced",
        "c.yaml is not in use: it is empty",
        "the event loop is blocked",
        "The scheduler stands by.",
        "No longer: pods: not synced",
        "No longer: c.yaml is not in use: it is empty",
        "No longer: the event loop is blocked",
    ]
    for number in range(2 * MOST_NEWS):
        cluster.tell(str(number), NOW)
    assert len(cluster.news) == MOST_NEWS


def test_a_lost_connection_is_told_once_and_so_is_its_return() -> None:
    cluster = ClusterModel()
    cluster.take(QUIET, NOW)
    assert (cluster.quiet(NOW + 4), cluster.quiet(NOW + 9)) == (0.0, 9.0)
    cluster.lose("refused", NOW)
    cluster.lose("refused", NOW)
    assert cluster.lost == "refused"
    cluster.take(QUIET, NOW)
    assert cluster.lost == ""
    assert [news.text for news in cluster.news][1:] == [
        "No connection: refused",
        "The scheduler answers again.",
    ]
