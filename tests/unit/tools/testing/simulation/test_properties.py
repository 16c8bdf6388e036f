"""Each property is seen to fail: a wrong scheduler breaks it, and the story says so."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from click.testing import CliRunner

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import NodeDeleted
from berth.actors.messages.queue import ClusterChanged
from berth.actors.queue.actor import QueueActor
from berth.actors.queue.state import QueueState
from berth.testing import budget, deployment, node, nodes, pod, priority_class, run_virtually
from berth.tools.cluster.faults.vocabulary import Fault
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes import registry
from berth.tools.testing.simulation import simulate, simulation
from berth.tools.testing.simulation.properties import Properties
from berth.tools.testing.simulation.scenario import Scenario, ScenarioStep
from berth.tools.testing.simulation.simulation import Story, play
from berth.tools.testing.simulation.worker import Told, TurnWatch, Worker
from tests.kit import documents
from tests.kit.stores import fresh_store

Document = dict[str, Any]
NODES = BY_KIND["v1", "Node"]
PODS, CLAIMS = BY_KIND["v1", "Pod"], BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
VOLUME_CLAIMS = BY_KIND["v1", "PersistentVolumeClaim"]
WITHOUT_FIT = {
    "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}]
}


def created(*objects: Document, at: float = 0.0) -> tuple[ScenarioStep, ...]:
    return tuple(ScenarioStep(at, "create", body=each) for each in objects)


def test_a_cluster_without_faults_keeps_every_property() -> None:
    steps = created(*nodes(2, cpu=4), deployment("web", replicas=3, cpu=1), pod("big", cpu=9))
    story = play(Scenario(seconds=60, steps=steps))
    assert story.violations == ()
    assert (story.bound, story.faults) == (3, 0)


def test_a_scheduler_that_does_not_count_requests_overcommits() -> None:
    steps = created(*nodes(1, cpu=1), pod("a", cpu=0.8), pod("b", cpu=0.8))
    story = play(Scenario(seconds=30, steps=steps, config=WITHOUT_FIT))
    assert story.broken == {"overcommitted"}
    assert "1600 cpu of 1" in story.violations[0].text


def test_two_schedulers_that_hold_no_lease_are_found() -> None:
    config = {"leaderElection": {"leaderElect": False}}
    steps = created(*nodes(1), pod("a"))
    story = play(Scenario(seconds=30, schedulers=2, steps=steps, config=config))
    assert "without lease" in story.broken


@pytest.mark.full("long")
@pytest.mark.parametrize("older", ["endpoints", "configmaps"])
def test_a_migration_of_the_lock_keeps_every_property(older: str) -> None:
    apart = (older, f"{older}leases"), (f"{older}leases", "leases")
    steps = created(*nodes(2), deployment("web", replicas=2))
    later = [ScenarioStep(20.0 * number, "restart", number=number % 2) for number in range(1, 6)]
    for locks in apart:
        scenario = Scenario(seconds=120, schedulers=2, locks=locks, steps=(*steps, *later))
        story = play(scenario)
        assert story.violations == ()
        assert story.bound >= 2


def test_locks_that_do_not_see_each_other_are_found() -> None:
    properties = Properties(lambda: 0.0)
    properties.writes("host-0", "configmaps")
    assert [each.property for each in properties.found] == ["without lease"]


def test_a_queue_that_misses_changes_of_the_cluster_forgets_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = QueueState.handle

    def deaf(state: QueueState, message: Any, now: float) -> Any:
        return () if isinstance(message, ClusterChanged) else handle(state, message, now)

    monkeypatch.setattr(QueueState, "handle", deaf)
    small = node("small", cpu=0.5)
    steps = created(small, pod("early", cpu=1)) + created(*nodes(1), at=20)
    story = play(Scenario(seconds=30, steps=steps))
    assert [each.text for each in story.violations] == ["default/early fits on node-1"]


def test_a_pod_that_could_preempt_and_does_not_is_forgotten() -> None:
    never = {"disabled": [{"name": "DefaultPreemption"}]}
    asked = {"profiles": [{"plugins": {"multiPoint": never}}]}
    steps = created(priority_class("high", 10), *nodes(1, cpu=1), pod("low", cpu=1)) + created(
        pod("high", cpu=1, priorityClassName="high"), at=10
    )
    assert play(Scenario(seconds=30, steps=steps, config=asked)).violations == ()
    store, properties = fresh_store(), Properties(lambda: 0.0)
    for kind, document in (
        ("Node", documents.node("n", 1)),
        ("Pod", documents.pod("low", 1, "n", priority=0)),
        ("Pod", documents.pod("high", 1, priority=10)),
    ):
        store.create(BY_KIND["v1", kind], document)
    properties.check_end(store, {}, "1.36")
    assert [each.text for each in properties.found] == [
        "default/high fits on n without default/low"
    ]


class Watched:
    """A store whose writes the properties see."""

    def __init__(self) -> None:
        self.properties = Properties(lambda: 1.0)
        self.store: Store = fresh_store(journal=self.properties.note)

    def put(self, kind: Kind, document: Document) -> None:
        namespace, name = document["metadata"].get("namespace", ""), document["metadata"]["name"]
        if self.store.find(kind, namespace, name) is None:
            self.store.create(kind, document)
        else:
            self.store.update(kind, document)


def test_a_pod_that_changes_its_node_is_bound_twice() -> None:
    watched = Watched()
    for name in ("", "n", "m"):
        watched.put(PODS, documents.pod("a", node=name))
    assert [each[1:] for each in watched.properties.found] == [("bound twice", "a to n and to m")]


def test_a_device_in_two_claims_is_found_unless_it_is_shared() -> None:
    def claim(name: str, **more: Any) -> Document:
        device = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0", **more}
        status = {"allocation": {"devices": {"results": [device]}}}
        return documents.thing("ResourceClaim", name, status=status)

    watched = Watched()
    for document in (claim("a"), claim("a"), claim("seen", adminAccess=True), claim("b")):
        watched.put(CLAIMS, document)
    text = "d/p/gpu-0 to default/a and to default/b"
    assert [each[1:] for each in watched.properties.found] == [("device twice", text)]
    watched.properties.found.clear()
    watched.store.delete(CLAIMS, "default", "a")
    watched.put(CLAIMS, {**claim("c"), "status": {}})
    assert not watched.properties.found


def test_a_volume_of_two_claims_is_found() -> None:
    def bound(name: str, phase: str = "Bound") -> Document:
        spec = {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]}
        return documents.thing("PersistentVolumeClaim", name, spec=spec, status={"phase": phase})

    watched = Watched()
    for document in (bound("a"), bound("a"), bound("lost", "Lost"), bound("b")):
        watched.put(VOLUME_CLAIMS, document)
    text = "disk to default/a and to default/b"
    assert [each[1:] for each in watched.properties.found] == [("volume twice", text)]
    watched.properties.found.clear()
    for name in ("a", "b"):
        watched.store.delete(VOLUME_CLAIMS, "default", name)
    watched.put(VOLUME_CLAIMS, bound("c"))
    assert not watched.properties.found


def test_two_pods_that_use_what_only_one_may_are_found() -> None:
    spec = {"accessModes": ["ReadWriteOncePod"]}
    watched = Watched()
    watched.put(VOLUME_CLAIMS, documents.thing("PersistentVolumeClaim", "c", spec=spec))
    for name in ("gone", "late", "n"):
        watched.put(NODES, documents.node(name, 1))
    watched.properties.binds_elsewhere("late")

    def bind(name: str, node_name: str) -> list[str]:
        for place in ("", node_name):
            pod_of_claim = documents.pod(name, node=place)
            pod_of_claim["spec"]["volumes"] = [
                {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
            ]
            watched.put(PODS, pod_of_claim)
        return [each.text for each in watched.properties.found if each.property == "volume twice"]

    assert not bind("of-a-deleted-node", "gone")
    watched.store.delete(NODES, "", "gone")
    assert not bind("bound-late", "late")
    assert not bind("a", "n")
    assert bind("b", "n") == ["default/c is used by default/a and by default/b"]


def test_a_server_that_asks_no_budget_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = created(
        *nodes(2), deployment("web", replicas=2), budget("b", app="web", min_available=2)
    )
    evictions = (ScenarioStep(20, "evict", name="web"), ScenarioStep(21, "evict", name="web"))
    scenario = Scenario(seconds=30, steps=(*steps, *evictions))
    assert play(scenario).violations == ()
    monkeypatch.setattr(registry, "take_permission", lambda _store, _pod: "nobody asked")
    story = play(scenario)
    assert story.broken == {"budget broken"}
    assert "b has not permitted it" in story.violations[0].text


def test_a_nomination_that_outlives_its_reason_is_found() -> None:
    store, properties = fresh_store(), Properties(lambda: 0.0)
    pending = documents.pod("a", 2, priority=10)
    pending["status"] = {"nominatedNodeName": "n"}
    store.create(BY_KIND["v1", "Node"], documents.node("n", 1))
    store.create(PODS, pending)
    properties.check_end(store, {}, "1.36")
    assert [each[1:] for each in properties.found] == [
        ("nomination kept", "default/a to n, where it does not fit")
    ]
    watched = Watched()
    for node_name in ("", "m"):
        watched.put(PODS, {**documents.pod("a", node=node_name), "status": pending["status"]})
    assert [each.text for each in watched.properties.found] == ["a to n, bound to m"]


def test_a_cache_that_keeps_deleted_nodes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = CacheState.handle

    def hoarding(state: CacheState, message: Any) -> Any:
        return () if isinstance(message, NodeDeleted) else handle(state, message)

    monkeypatch.setattr(CacheState, "handle", hoarding)
    story = play(Scenario(seconds=20, steps=created(*nodes(2), pod("a"))))
    assert story.broken == {"memory kept"}
    assert story.violations[0].text == "host-0: scheduler_cache_size{nodes} is 2"


async def spin(_actor: QueueActor, _seconds: float, _message: Any) -> None:
    while True:
        await anyio.lowlevel.checkpoint()


def test_a_part_that_runs_on_without_time_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "MOST_TURNS", 500)
    monkeypatch.setattr(QueueActor, "_tick", spin)
    (violation,) = play(Scenario(seconds=10)).violations
    assert (violation.at, violation.property) == (0.0, "time stands still")
    assert violation.text.startswith("no time passes while these run: ")
    assert f"{__name__}.spin" in violation.text


@pytest.fixture
def _stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = QueueState.handle

    def stuck(state: QueueState, message: Any, now: float) -> Any:
        while now > 5:
            pass
        return handle(state, message, now)

    monkeypatch.setattr(QueueState, "handle", stuck)


@pytest.mark.full("CPU-seconds")
@pytest.mark.usefixtures("_stuck")
def test_a_turn_without_end_ends_the_story() -> None:
    watch = TurnWatch(0.1)
    watch.begin()
    try:
        (violation,) = play(Scenario(seconds=10)).violations
    finally:
        watch.end()
    assert violation.property == "time stands still"
    assert violation.text.endswith(" > handle > stuck")


@pytest.mark.full("CPU-seconds")
@pytest.mark.usefixtures("_stuck")
def test_a_turn_without_end_has_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(Story("", 0, 0, 0.0, {}, {}, ()), 0.0)
    monkeypatch.setattr(Worker, "play", lambda *_: told)
    monkeypatch.setattr(simulate, "TurnWatch", partial(TurnWatch, 0.1))
    file = tmp_path / "page.html"
    arguments = ["--time", "10s", "--page", str(file)]
    assert CliRunner().invoke(simulate.simulate, arguments).exit_code == 0
    assert "time stands still" in file.read_text()


def test_two_stories_are_never_in_the_same_turn() -> None:
    """Both are looked at in their first turn, at 0 seconds."""

    async def look() -> None:
        signal.raise_signal(signal.SIGPROF)

    watch = TurnWatch(3600)
    watch.begin()
    try:
        for _ in range(2):
            run_virtually(look)
    finally:
        watch.end()


@pytest.mark.full("long")
@pytest.mark.parametrize(
    "fault",
    [
        Fault("slow", seconds=2),
        Fault("refuse", chance=0.5, code=429),
        Fault("lose", chance=0.5, methods=("POST",)),
        Fault("unanswered", paths=("/binding",), end=10),
        Fault("arrive-late", paths=("/binding",), seconds=4, end=10),
        Fault("watch-late", seconds=3),
        Fault("watch-repeat"),
    ],
    ids=lambda fault: fault.does,
)
def test_a_scheduler_outlives_each_fault(fault: Fault) -> None:
    steps = created(*nodes(2, cpu=4), deployment("web", replicas=4, cpu=1), at=1)
    story = play(Scenario(seconds=60, faults=(fault,), steps=steps))
    assert (story.bound, story.violations) == (4, ())
    assert story.faults


@pytest.mark.full("long")
def test_a_scheduler_is_stopped_in_the_middle_and_another_takes_over() -> None:
    steps = (
        *created(*nodes(2, cpu=8)),
        *created(deployment("web", replicas=5, cpu=1), at=30),
        ScenarioStep(30.01, "restart", number=0),
        ScenarioStep(30.02, "compact"),
        *created(pod("late", cpu=1), at=40),
        ScenarioStep(40, "bind", name="late", node="node-1"),
        ScenarioStep(50, "evict", name="web"),
        ScenarioStep(51, "delete", kind="Pod", name="nobody"),
        ScenarioStep(
            52, "patch", kind="Node", name="node-2", body={"spec": {"unschedulable": True}}
        ),
    )
    story = play(Scenario(seconds=90, schedulers=2, steps=steps))
    assert story.violations == ()
    assert story.bound == 7
