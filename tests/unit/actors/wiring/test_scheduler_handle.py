"""What plugins send and read through their handle, in a cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

import msgspec
import pytest

from berth.plugin import (
    SUCCESS,
    Code,
    CycleState,
    Node,
    NotFound,
    ObjectMeta,
    PermitPlugin,
    PluginScope,
    PodInfo,
    PreFilterPlugin,
    ReservePlugin,
    Service,
    Snapshot,
    Status,
    WatchedKind,
    milli,
    quantity,
)
from berth.testing import Cluster, decide, node, pod, run_virtually
from tests.kit.logs import capture_logs


class Speaking(ReservePlugin):
    """A plugin that a test gives its work."""

    name = "Speaking"
    lookups = (Service,)
    work: ClassVar[Callable[[Speaking, PodInfo], object]]
    task: ClassVar[Callable[[Speaking], Awaitable[object]] | None] = None

    async def start(self, scope: PluginScope) -> None:
        task = type(self).task
        if task is not None:
            scope.run(lambda: task(self))

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        type(self).work(self, info)
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass


def played(
    work: Callable[[Speaking, PodInfo], object],
    check: Callable[[Cluster], object] = lambda _: None,
    task: Callable[[Speaking], Awaitable[object]] | None = None,
) -> list[dict[str, object]]:
    """Schedules a pod with the plugin; returns the lines that it logged."""

    class Played(Speaking):
        pass

    Played.work = staticmethod(work)
    Played.task = staticmethod(task) if task is not None else None

    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Played]) as cluster:
            await cluster.run_for(1.234567)  # Kubelets write events of their own at whole seconds.
            await cluster.add(pod("a"))
            await cluster.run_for(20)
            check(cluster)

    with capture_logs() as lines:
        run_virtually(story)
    return [line for line in lines if line.get("plugin") == "Speaking"]


def test_a_line_of_the_log_names_the_plugin() -> None:
    lines = played(lambda plugin, info: plugin.handle.log.info("reserving", pod=info.key))
    (line,) = lines
    assert (line["event"], line["plugin"], line["pod"]) == ("reserving", "Speaking", "default/a")


def test_events_are_written() -> None:
    def work(plugin: Speaking, info: PodInfo) -> None:
        plugin.handle.event(info, "SeatTaken", "row 5")
        full = Node(metadata=ObjectMeta(name="node-1"))
        plugin.handle.event(full, "Full", "x" * 2000, warning=True)
        with pytest.raises(ValueError, match="expected a word in CamelCase, got 'no seat'"):
            plugin.handle.event(info, "no seat", "row 5")

    def check(cluster: Cluster) -> None:
        assert cluster.events("SeatTaken") == ["Pod/a SeatTaken: row 5"]
        (full,) = cluster.events("Full")
        assert full.startswith("Node/node-1 Full: xxx")
        assert len(full) < 1100

    assert not played(work, check)


def test_metrics_are_shown_beside_those_of_the_scheduler() -> None:
    seen: list[object] = []

    def work(plugin: Speaking, info: PodInfo) -> None:
        metrics = plugin.handle.metrics
        seats = metrics.counter("seats_taken_total", "Seats.", ("row",))
        assert metrics.counter("seats_taken_total", "Seats.", ("row",)) is seats
        seats.inc("5")
        seats.inc("5", by=2)
        metrics.gauge("seats_free", "Free seats.").set(7)
        metrics.histogram("seat_seconds", "Seconds.").observe(0.5)
        for name in ("scheduler_seats", "a b", "seats_free"):
            with pytest.raises(ValueError, match="metric"):
                metrics.counter(name, "x")
        seen.extend(f.name for f in plugin.handle.metrics._metrics._registry.families())  # type: ignore[attr-defined]

    assert not played(work)
    assert {"seats_taken_total", "seats_free", "seat_seconds"} <= set(seen)


def test_the_api_lists_gets_and_writes() -> None:
    told: list[object] = []
    slices = WatchedKind("v1", "ConfigMap", "/api/v1/configmaps", Map)

    async def task(plugin: Speaking) -> None:
        api = plugin.handle.api.with_rate(5, 5)
        body = {"metadata": {"name": "m", "labels": {"of": "me"}}, "data": {"a": "1"}}
        made = await api.create(slices, body, "default")
        assert isinstance(made, Map)
        other = await api.create(slices, {"metadata": {"name": "o"}}, "default")
        assert isinstance(other, Map)
        told.append(await api.list(slices, "default", {"of": "me"}))
        told.append(await api.list(slices, "elsewhere"))
        gone = await api.get(slices, "none", "default")
        assert isinstance(gone, NotFound)
        nodes = await api.list(Node)
        assert not isinstance(nodes, Status)
        told.append([each.metadata.name for each in nodes])

    played(lambda *_: None, task=task)
    ours, none, nodes = told
    assert isinstance(ours, tuple)
    assert [each.data for each in ours] == [{"a": "1"}]
    assert (none, nodes) == ((), ["node-1"])


class Map(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] = {}


class Polled(PreFilterPlugin):
    """A plugin that looks up a kind that is listed every 15 seconds."""

    name = "Polled"
    lookups = (WatchedKind("v1", "ConfigMap", "/api/v1/configmaps", Map, every=15),)
    seen: ClassVar[list[list[str]]] = []

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        self.seen.append(sorted(each.metadata.name for each in snapshot.objects.every(Map)))
        labelled = self.handle.objects.select(Map, "default", {"a": "b"})
        assert [each.metadata.name for each in labelled] in ([], ["m"])
        return SUCCESS


def test_a_kind_is_listed_again_and_again() -> None:
    Polled.seen.clear()

    async def story() -> None:
        metadata = {"name": "m", "labels": {"a": "b"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        async with Cluster(pod("a"), nodes=1, plugins=[Polled]) as cluster:
            await cluster.run_for(2)
            await cluster.add(body, pod("b"))
            await cluster.run_for(16)
            await cluster.add(pod("c"))
            await cluster.run_for(2)

    run_virtually(story)
    assert [[n for n in names if n == "m"] for names in Polled.seen] == [[], [], ["m"]]


class Gate(PermitPlugin):
    """Makes pods wait, until the next one allows or rejects those before."""

    name = "Gate"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        for waiting in self.handle.waiting.each():
            if waiting.info.pod.metadata.name == "bad":
                assert self.handle.reject(waiting.info, "not you")
                self.handle.activate(waiting.info)
            else:
                assert self.handle.allow(waiting.info)
        if info.pod.metadata.name == "last":
            return SUCCESS, 0.0
        return Status(Code.WAIT), 600.0


def test_waiting_pods_are_allowed_and_rejected() -> None:
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Gate]) as cluster:
            await cluster.add(pod("good"))
            await cluster.run_for(1)
            await cluster.add(pod("last"))
            await cluster.run_for(1)
            assert cluster.pod("good").placed_on("node-1")
            await cluster.add(pod("bad"))
            await cluster.run_for(1)
            await cluster.add(pod("last-2"))
            await cluster.run_for(1)
            assert any("not you" in event for event in cluster.events("FailedScheduling"))

    run_virtually(story)


class Reading(PreFilterPlugin):
    name = "Reading"
    seen: ClassVar[list[object]] = []

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        for namespace, labels in (("", {}), ("default", {"app": "web"}), ("x", {})):
            pods = snapshot.pods(namespace, labels)
            self.seen.append(sorted((at, each.pod.metadata.name) for at, each in pods))
        known = snapshot.info("m")
        self.seen.append((known and known.name, snapshot.info("gone")))
        return SUCCESS


def test_the_pods_of_the_snapshot_by_namespace_and_label_and_a_node_by_name() -> None:
    Reading.seen.clear()
    others = [
        pod("b", node="m", labels={"app": "web", "v": "1"}),
        pod("c", node="n", labels={"app": "db"}),
        pod("d", node="n", namespace="x", labels={"app": "web"}),
    ]
    decide(pod("a"), [node("n"), node("m")], *others, plugins=[Reading])
    assert Reading.seen[:3] == [[("m", "b"), ("n", "c"), ("n", "d")], [("m", "b")], [("n", "d")]]
    assert Reading.seen[3] == ("m", None)


def test_quantities() -> None:
    assert (milli("1500m"), milli("2"), quantity("1Gi")) == (1500, 2000, 1 << 30)
    with pytest.raises(ValueError, match="expected a quantity"):
        quantity("much")
