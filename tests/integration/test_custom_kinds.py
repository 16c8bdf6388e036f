"""A user's plugin reads objects of a kind that berth does not know, and waits for their events."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from berth.actors.client.rest import ApiError
from berth.actors.scheduling.kube.meta import Object, ObjectMeta
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.plugin import (
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Hint,
    NodeView,
    Pod,
    PodInfo,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    Registration,
    Snapshot,
    StatefulSet,
    Status,
    Verdicts,
    WatchedKind,
    unresolvable,
)
from berth.testing import Cluster, decide, run_virtually
from berth.tools.testing import builders as documents
from tests.kit.daemon import Daemon, daemon
from tests.kit.virtual_cluster import VirtualCluster, node, pod, virtual_cluster


class Widget(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    node: str = ""


WIDGETS = WatchedKind("example.com/v1", "Widget", "/apis/example.com/v1/widgets", Widget)


class Indifferent(FilterPlugin):
    """Lets pods go to the nodes of widgets. Registers for nothing: every event may help."""

    name = "Indifferent"
    lookups = (WIDGETS,)
    depends_on = DependsOn.NODE
    calls: ClassVar[int] = 0

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        Indifferent.calls += 1
        here = {widget.node for widget in nodes.snapshot.objects.every(Widget)}
        missing = np.array([nodes.name(i) not in here for i in range(nodes.size)], dtype=np.bool_)
        return Verdicts.rejecting(missing, Code.UNSCHEDULABLE, "node(s) had no widget")


class Widgets(Indifferent, PreEnqueuePlugin):
    """A plugin that holds pods back until a widget has a node."""

    name = "Widgets"
    hinted: ClassVar[list[tuple[object, object]]] = []

    def pre_enqueue(self, pod: Pod) -> Status:
        if any(widget.node for widget in self.handle.objects.every(Widget)):
            return SUCCESS
        return unresolvable("no widget")

    def events_to_register(self) -> tuple[Registration, ...]:
        return (Registration(ClusterEvent("Widget", Action.ADD | Action.UPDATE), self.helps),)

    def helps(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        self.hinted.append((old, new))
        return Hint.QUEUE if isinstance(new, Widget) and new.node else Hint.SKIP


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    Widgets.hinted.clear()
    for plugin in (Widgets, Indifferent):
        monkeypatch.setitem(IN_TREE, plugin.name, plugin)


def widget(version: int, on: str = "") -> Widget:
    metadata = ObjectMeta(name="w", namespace="default", resource_version=str(version))
    return Widget(metadata=metadata, node=on)


async def furnish(cluster: VirtualCluster) -> None:
    for name in ("a", "b"):
        await cluster.create(node(name, 100))
    await cluster.clock.advance(1.0)


def places(cluster: VirtualCluster) -> list[str]:
    return [pod.spec.node_name for pod in cluster.pods().values()]


async def test_widgets_gate_and_place_pods() -> None:
    async with virtual_cluster("Widgets") as cluster:
        await furnish(cluster)
        await cluster.create(pod("p"))
        await cluster.clock.advance(10.0)
        assert not cluster.decisions
        unplaced, placed = widget(1), widget(2, "b")
        cluster.put(WIDGETS, unplaced)
        await cluster.clock.advance(10.0)
        assert Widgets.hinted == [(None, unplaced)]
        assert not cluster.decisions
        cluster.put(WIDGETS, placed)
        await cluster.clock.advance(10.0)
        assert Widgets.hinted == [(None, unplaced), (unplaced, placed)]
        assert places(cluster) == ["b"]


async def test_a_widget_wakes_a_pod_that_was_rejected() -> None:
    async with virtual_cluster("Widgets") as cluster:
        await furnish(cluster)
        cluster.put(WIDGETS, widget(1, "elsewhere"))
        await cluster.create(pod("p"))
        await cluster.clock.advance(60.0)
        assert len(cluster.decisions) == 1
        cluster.put(WIDGETS, widget(2))
        await cluster.clock.advance(60.0)
        assert len(cluster.decisions) == 1
        cluster.put(WIDGETS, widget(3, "a"))
        await cluster.clock.advance(1.0)
        assert places(cluster) == ["a"]


async def test_answers_are_kept_until_a_widget_changes() -> None:
    async with virtual_cluster("Widgets") as cluster:
        await furnish(cluster)
        cluster.put(WIDGETS, widget(1, "a"))
        for i in range(5):
            await cluster.create(pod(f"p{i}"))
        await cluster.clock.advance(5.0)
        calls = Indifferent.calls
        for i in range(5, 10):
            await cluster.create(pod(f"p{i}"))
        await cluster.clock.advance(5.0)
        assert places(cluster) == ["a"] * 10
        assert Indifferent.calls == calls
        cluster.put(WIDGETS, widget(2, "b"))
        await cluster.create(pod("q"))
        await cluster.clock.advance(5.0)
        assert cluster.pods()["q"].spec.node_name == "b"
        assert Indifferent.calls > calls


async def test_a_plugin_that_registers_for_nothing_waits_for_its_kinds_too() -> None:
    async with virtual_cluster("Indifferent") as cluster:
        await furnish(cluster)
        await cluster.create(pod("p"))
        await cluster.clock.advance(60.0)
        assert places(cluster) == [""]
        cluster.put(WIDGETS, widget(1, "a"))
        await cluster.clock.advance(1.0)
        assert places(cluster) == ["a"]


async def test_a_kind_that_is_defined_later() -> None:
    """The API server has no such kind at first, and one object of it cannot be read."""
    running = Daemon()
    running.api.refusals[WIDGETS.path] = ApiError(404, "NotFound", "no such kind")
    enabled = {"plugins": {"multiPoint": {"enabled": [{"name": "Widgets"}]}}}
    async with daemon({"profiles": [enabled]}, existing=running):
        running.put_node("a")
        running.put_pod("p")
        await running.advance(10)
        assert running.node_of("p") == ""
        del running.api.refusals[WIDGETS.path]
        odd = {"metadata": {"namespace": "default", "name": "odd", "uid": "odd"}, "node": 7}
        running.api.put(WIDGETS.path, "default/odd", odd)
        await running.advance(70)
        assert running.node_of("p") == ""
        in_a = {"metadata": {"namespace": "default", "name": "w", "uid": "w"}, "node": "a"}
        running.api.put(WIDGETS.path, "default/w", in_a)
        await running.advance(5)
        assert running.node_of("p") == "a"


class Sets(FilterPlugin):
    """Waits for stateful sets, a kind that berth reads and Resource does not have."""

    name = "Sets"
    lookups = (StatefulSet,)

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        missing = not list(nodes.snapshot.objects.every(StatefulSet))
        rejected = np.full(nodes.size, missing, dtype=np.bool_)
        return Verdicts.rejecting(rejected, Code.UNSCHEDULABLE, "no set")

    def events_to_register(self) -> tuple[Registration, ...]:
        return (Registration(ClusterEvent("StatefulSet", Action.ADD)),)


async def test_a_known_kind_without_a_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IN_TREE, "Sets", Sets)
    running = Daemon()
    enabled = {"plugins": {"multiPoint": {"enabled": [{"name": "Sets"}]}}}
    async with daemon({"profiles": [enabled]}, existing=running):
        running.put_node("a")
        running.put_pod("p")
        await running.advance(30)
        assert "no set" in running.message_of("p")
        stateful_set = {"metadata": {"namespace": "default", "name": "s", "uid": "s"}}
        running.api.put("/apis/apps/v1/statefulsets", "default/s", stateful_set)
        await running.advance(2)
        assert running.node_of("p") == "a"


class Place(Object, frozen=True, kw_only=True):
    hostname: str = ""


class OwnPod(Object, frozen=True, kw_only=True):
    """A pod with a field that berth does not read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Place = Place()


class ByHostname(PreFilterPlugin):
    name = "ByHostname"
    lookups = (WatchedKind("v1", "Pod", "/api/v1/pods", OwnPod),)

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        at = info.pod.metadata
        own = snapshot.objects.get(OwnPod, at.name, at.namespace)
        assert own is not None
        return PreFilterResult(frozenset({own.spec.hostname}))


def test_a_plugin_reads_fields_of_a_pod_that_berth_does_not() -> None:
    web = documents.pod("web", hostname="node-2")
    assert decide(web, documents.nodes(3), web, plugins=[ByHostname]).node == "node-2"

    async def story() -> None:
        async with Cluster(nodes=3, plugins=[ByHostname]) as cluster:
            await cluster.add(web)
            await cluster.settled()
            assert cluster.pod("web").placed_on("node-2")

    run_virtually(story)
