"""Which changes concern which items."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from berth.actors.scheduling.kube.meta import HasMetadata
from berth.tools.cluster.controllers.controller_table import ControllerTable
from berth.tools.kubernetes.nodes import pod_garbage
from berth.tools.kubernetes.object_index import ObjectIndex
from berth.tools.kubernetes.objects.structs import DaemonSet, read
from berth.tools.kubernetes.objects.writes import Again, Create
from berth.tools.kubernetes.work_items import Item
from tests.unit.tools.kubernetes.nodes.objects import START, lease, node, pod, tolerates

ENDS = "2026-01-01T00:00:00Z"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service:NoExecute"


class Following:
    """The controllers, and the cluster that they follow."""

    def __init__(self, *objects: HasMetadata) -> None:
        self.controllers, self.cluster = ControllerTable(lambda: START), ObjectIndex()
        for obj in objects:
            self.touched(obj)

    def touched(self, obj: HasMetadata) -> list[str]:
        """Stores an object; returns the items that this concerns."""
        change = self.cluster.put(obj)
        assert change is not None
        return self._names(self.controllers.touched(self.cluster, change))

    def removed(self, obj: HasMetadata) -> list[str]:
        change = self.cluster.remove(obj)
        assert change is not None
        return self._names(self.controllers.touched(self.cluster, change))

    @staticmethod
    def _names(items: Iterable[Item]) -> list[str]:
        return sorted({f"{item.controller} {item.name}".strip() for item in items})


def daemon() -> DaemonSet:
    return read({"metadata": {"name": "d", "uid": "d", "resourceVersion": "1"}}, DaemonSet)


def test_a_renewed_lease_and_a_heartbeat_concern_nothing() -> None:
    following = Following(daemon(), node(), pod())
    assert following.touched(lease()) == ["node-health n1"], "the first lease starts the watch"
    assert following.touched(lease(renewed=10)) == []
    assert following.touched(node(heartbeat="2026-01-01T00:00:10Z", version=2)) == []
    assert following.touched(lease("other", 5, "kube-system")) == []


def test_the_second_heartbeat_of_a_node_without_a_lease_starts_the_watch() -> None:
    following = Following(node())
    first = node(heartbeat="2026-01-01T00:00:10Z", version=2)
    assert following.touched(first) == ["node-health n1"]
    assert following.touched(node(heartbeat="2026-01-01T00:00:20Z", version=3)) == []


def test_a_node_that_turns_concerns_itself_and_its_zone_but_not_its_pods() -> None:
    following = Following(daemon(), node(), pod())
    assert following.touched(node("n1", "Unknown", version=2)) == [
        "attach n1",
        "node-health n1",
        "node-taints n1",
        "zones",
    ]
    assert following.touched(node("n1", "Unknown", "k:NoExecute", version=3)) == [
        "DaemonSet d",
        "node-taints n1",
        "taint-eviction p",
    ]


def test_a_pod_concerns_its_eviction_only_if_its_tolerations_or_its_node_change() -> None:
    following = Following(node("n1", "True", "k:NoExecute"), pod(on=""))
    assert following.touched(pod(version=2)) == ["taint-eviction p"]
    assert following.touched(pod(ready="False", version=3)) == []
    tolerant = pod("p", tolerates("k:NoExecute", 5), version=4)
    assert following.touched(tolerant) == ["taint-eviction p"]
    following.controllers.reconcile(
        following.cluster, Item("taint-eviction", "Pod", "n", "p"), START
    )
    assert following.removed(tolerant) == ["taint-eviction p"], "its timer has to go"


def test_a_pod_that_appears_on_a_node_that_is_not_ready_is_marked() -> None:
    following = Following(node("n1", "Unknown"))
    assert "node-health n1" in following.touched(pod())
    assert following.touched(pod(ready="False", version=2)) == []


def test_pod_garbage() -> None:
    following = Following(node(), pod("run"), pod("end", deletionTimestamp=ENDS))
    assert "pod-garbage end" in following.touched(node("n1", "False", OUT_OF_SERVICE, version=2))
    ending = pod("run", version=2, deletionTimestamp=ENDS)
    assert following.touched(ending) == ["pod-garbage run"]
    assert following.touched(pod("new", on="", deletionTimestamp=ENDS)) == ["pod-garbage new"]
    assert following.touched(pod("orphan", on="missing")) == ["orphans missing"]
    gone = following.removed(node())
    assert {"orphans n1", "zones"} <= set(gone)


def test_events_tell_which_nodes_come_and_go() -> None:
    def told() -> list[tuple[str, str]]:
        item = Item("zones", "Node", "", "")
        writes = following.controllers.reconcile(following.cluster, item, START)
        events = [write.document for write in writes if isinstance(write, Create)]
        return [(event["reason"], event["message"]) for event in events]

    following = Following(node("n1"), node("n2"))
    assert told() == [
        ("RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")
        for name in ("n1", "n2")
    ]
    following.touched(node("n1", "False", version=2))
    assert told() == []
    assert "zones" in following.removed(node("n2"))
    assert told() == [("RemovingNode", "Node n2 event: Removing Node n2 from Controller")]


@pytest.mark.parametrize("hours", [1, -1])
def test_nothing_waits_longer_or_shorter_if_the_time_of_day_is_set(hours: int) -> None:
    following = Following(node("n1", "True", "k:NoExecute"), lease())
    following.touched(lease(renewed=1))
    following.touched(pod("p", tolerates("k:NoExecute", 100)))
    following.touched(pod("orphan", on="missing"))
    step = timedelta(hours=hours)

    def waits(controller: str, name: str, since: timedelta) -> list[float]:
        kind = "Node" if controller != "taint-eviction" else "Pod"
        item = Item(controller, kind, "n" if kind == "Pod" else "", name)
        writes = following.controllers.reconcile(following.cluster, item, START + since)
        return [write.seconds for write in writes if isinstance(write, Again)]

    items = ("taint-eviction", "p"), ("orphans", "missing"), ("node-health", "n1")
    assert [waits(*item, timedelta()) for item in items] == [[100.0], [40.0], [50.0]]
    following.controllers.nodes.shift(step)
    later = step + timedelta(seconds=5)
    assert [waits(*item, later) for item in items] == [[95.0], [35.0], [45.0]]


def test_only_a_pod_that_finishes_when_there_are_too_many_concerns_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_garbage, "MOST_FINISHED", 1)
    following = Following(pod("a", phase="Failed"))
    assert "finished-pods" in following.touched(pod("b", phase="Succeeded"))
    assert following.touched(pod("b", phase="Succeeded", version=2)) == []
