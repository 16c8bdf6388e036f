"""The configuration file changes while pods are scheduled, in virtual time: no pod is forgotten,
and none is bound twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.wiring.reloader import LOOK_SECONDS
from berth.config.types import API_VERSION, KIND
from berth.plugin import (
    SUCCESS,
    Code,
    CycleState,
    Handle,
    PermitPlugin,
    Plugin,
    Pod,
    PodInfo,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
    Status,
    unresolvable,
)
from tests.kit.logs import capture_logs
from tests.kit.virtual_cluster import VirtualCluster, node, pod, virtual_cluster

pytestmark = pytest.mark.full("long")

NOWHERE = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "none", "operator": "Exists"}]}]
    }
}


class Paired(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Holds pods up at Permit or in PreBind, and notes which object reserved and unreserved."""

    name = "Paired"
    instances: list[Paired]
    waits: float
    works: float

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        self.reserved: Counter[str] = Counter()
        type(self).instances.append(self)

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.reserved[info.pod.metadata.name] += 1
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.reserved[info.pod.metadata.name] -= 1
        assert self.reserved[info.pod.metadata.name] >= 0, "another object reserved"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        waits = self.waits
        return (Status(Code.WAIT), waits) if waits else (SUCCESS, 0.0)

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        until = self.works
        if until:
            await self.handle.objects.wait_for(lambda: [(Pod, "default", "none")], until)
        return SUCCESS


class Door(PreEnqueuePlugin):
    """A plugin that gates every pod."""

    name = "Door"

    def pre_enqueue(self, pod: Pod) -> Status:
        return unresolvable("shut")


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    Paired.instances, Paired.waits, Paired.works = [], 0.0, 0.0
    for plugin in (Paired, Door):
        monkeypatch.setitem(IN_TREE, plugin.name, plugin)


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    with capture_logs() as captured:
        yield captured


class File:
    def __init__(self, path: Path) -> None:
        self.path = path / "scheduler.yaml"

    def write(self, *profiles: Mapping[str, Any], **fields: Any) -> None:
        head = {"apiVersion": API_VERSION, "kind": KIND, "leaderElection": {"leaderElect": False}}
        self.path.write_text(yaml.safe_dump({**head, "profiles": list(profiles), **fields}))

    def running(self, late: float = 0.0) -> AbstractAsyncContextManager[VirtualCluster]:
        return virtual_cluster(path=self.path, late=late)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


def profile(name: str = "default-scheduler", *plugins: str, **args: Any) -> dict[str, Any]:
    return {
        "schedulerName": name,
        "plugins": {"multiPoint": {"enabled": [{"name": plugin} for plugin in plugins]}},
        "pluginConfig": [{"name": plugin, "args": config} for plugin, config in args.items()],
    }


def of(name: str, scheduler: str) -> dict[str, Any]:
    document = pod(name)
    document["spec"]["schedulerName"] = scheduler
    return document


def bindings(cluster: VirtualCluster) -> Counter[str]:
    """Returns how often each pod was bound."""
    paths = (write.path.split("/") for write in cluster.writes if write.path.endswith("/binding"))
    return Counter(parts[-2] for parts in paths)


def reloads(lines: list[Any]) -> list[dict[str, Any]]:
    return [line for line in lines if str(line["event"]).startswith("configuration ")]


async def test_a_parked_pod_is_tried_again_with_its_new_profile(
    file: File, lines: list[Any]
) -> None:
    file.write(profile(NodeAffinity={"addedAffinity": NOWHERE}))
    async with file.running() as cluster:
        await cluster.create(node("n", 4))
        await cluster.create(pod("p"))
        await cluster.clock.advance(20.0)
        assert not bindings(cluster)
        file.write(profile(), parallelism=3)
        await cluster.clock.advance(LOOK_SECONDS + 1)
        assert bindings(cluster) == {"p": 1}
    (line,) = reloads(lines)
    assert line == {
        "event": "configuration reloaded",
        "log_level": "info",
        "file": str(file.path),
        "profiles": "default-scheduler",
        "changed": "default-scheduler",
        "until_restart": "parallelism",
    }


async def test_pods_follow_the_scheduler_names(file: File, lines: list[Any]) -> None:
    shut = profile("a", "Door")
    file.write(shut)
    async with file.running() as cluster:
        await cluster.create(node("n", 4))
        await cluster.create(of("pa", "a"))
        await cluster.create(of("pb", "b"))
        await cluster.clock.advance(10.0)
        file.write(profile("b"))
        await cluster.clock.advance(LOOK_SECONDS + 1)
        assert bindings(cluster) == {"pb": 1}
        await cluster.create(of("pa2", "a"))
        await cluster.clock.advance(60.0)
        file.write(profile("b"), profile("a"))
        await cluster.clock.advance(LOOK_SECONDS + 1)
        assert bindings(cluster) == {"pa": 1, "pa2": 1, "pb": 1}
    assert [(line.get("gone"), line.get("added")) for line in reloads(lines)] == [
        ("a", "b"),
        (None, "a"),
    ]


async def test_a_bad_file_is_named_once_and_changes_nothing(file: File, lines: list[Any]) -> None:
    file.write(profile())
    async with file.running() as cluster:
        await cluster.create(node("n", 4))
        file.write(profile(), paralelism=3)
        await cluster.clock.advance(10 * LOOK_SECONDS)
        file.path.unlink()
        await cluster.clock.advance(10 * LOOK_SECONDS)
        await cluster.create(pod("p"))
        await cluster.clock.advance(1.0)
        assert bindings(cluster) == {"p": 1}
    bad, missing = reloads(lines)
    assert bad["event"] == missing["event"] == "configuration not reloaded"
    assert bad["error"] == f"{file.path}: paralelism: unknown field, did you mean parallelism?"
    assert missing["error"] == f"{file.path}: cannot be read: No such file or directory"


async def test_a_gate_of_a_new_profile_holds_for_pods_in_the_queue(file: File) -> None:
    file.write(profile(NodeAffinity={"addedAffinity": NOWHERE}))
    async with file.running() as cluster:
        await cluster.create(node("n", 4))
        await cluster.create(pod("p"))
        await cluster.clock.advance(3.0)
        file.write(profile("default-scheduler", "Door"))
        await cluster.clock.advance(400.0)
        assert not bindings(cluster)
        attempts = len(cluster.decisions)
        file.write(profile())
        await cluster.clock.advance(LOOK_SECONDS + 1)
        assert bindings(cluster) == {"p": 1}
        assert len(cluster.decisions) == attempts + 1


@pytest.mark.parametrize("hold", ["waits", "works"])
@pytest.mark.parametrize("later", ["with", "without", "other"])
async def test_a_pod_under_way_keeps_its_profile(file: File, hold: str, later: str) -> None:
    setattr(Paired, hold, 30.0)
    file.write(profile("default-scheduler", "Paired"))
    async with file.running(late=0.5) as cluster:
        await cluster.create(node("n", 4))
        await cluster.create(pod("p"))
        await cluster.clock.advance(3.0)
        (first,) = Paired.instances
        assert first.reserved == {"p": 1}
        match later:
            case "with":
                file.write(profile("default-scheduler", "Paired", InterPodAffinity={}))
            case "without":
                file.write(profile())
            case _:
                file.write(profile("other"))
        await cluster.clock.advance(LOOK_SECONDS + 1)
        assert not bindings(cluster)
        Paired.waits = 0.0
        await cluster.clock.advance(120.0)
        # A wait that is over rejects the pod: the first object unreserves it, and it is tried again
        # with the new profile, if there is one.
        gone = later == "other" and hold == "waits"
        assert bindings(cluster) == ({} if gone else {"p": 1})
        assert first.reserved["p"] == (0 if hold == "waits" else 1)


async def test_kinds_that_a_new_profile_looks_up_are_known_to_its_first_pod(file: File) -> None:
    bare = profile("default-scheduler", "PrioritySort", "NodeResourcesFit", "DefaultBinder")
    bare["plugins"]["multiPoint"]["disabled"] = [{"name": "*"}]
    file.write(bare)
    async with file.running(late=1.0) as cluster:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
        await cluster.create(node("n", 4))
        await cluster.create(node("m", 4))
        await cluster.create(pod("p"))
        await cluster.clock.advance(5.0)
        file.write(profile())
        await cluster.clock.advance(LOOK_SECONDS + 5)
        document = pod("q")
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {"matchLabels": {"a": "b"}},
        }
        preferred = [{"weight": 1, "podAffinityTerm": {**term, "labelSelector": {}}}]
        document["spec"]["affinity"] = {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        }
        await cluster.create(document)
        await cluster.clock.advance(5.0)
        assert bindings(cluster) == {"p": 1, "q": 1}
        assert len(cluster.decisions) == 2


@pytest.mark.parametrize("seed", range(3))
async def test_no_pod_is_forgotten_and_none_is_bound_twice(file: File, seed: int) -> None:
    rng = Random(seed)
    names = ("a", "b", "c")

    def change() -> None:
        kept = [name for name in names if rng.random() < 0.6] or ["a"]
        Paired.waits = rng.choice((0.0, 0.0, 3.0))
        Paired.works = rng.choice((0.0, 4.0))
        file.write(
            *(
                profile(name, *rng.choice([(), ("Paired",), ("Paired", "Door")]))
                for name in rng.sample(kept, len(kept))
            ),
            podInitialBackoffSeconds=rng.choice((1, 2)),
            percentageOfNodesToScore=rng.choice((0, 50)),
        )

    change()
    async with file.running(late=rng.choice((0.0, 0.5))) as cluster:
        await cluster.create(node("n", 6))
        for number in range(40):
            priority = rng.choice((0, 5, 10))
            document = pod(f"p{number}", priority=priority)
            document["spec"]["schedulerName"] = rng.choice(names)
            await cluster.create(document)
            await cluster.clock.advance(rng.choice((0.0, 0.1, 0.7, 2.0)))
            if rng.random() < 0.4:
                change()
        Paired.waits = Paired.works = 0.0
        file.write(*(profile(name) for name in names))
        await cluster.create(node("big", 100))
        await cluster.clock.advance(700.0)
        alive = cluster.pods()
        assert all(each.spec.node_name for each in alive.values())
        assert set(bindings(cluster).values()) == {1}
        assert bindings(cluster).keys() >= alive.keys()
