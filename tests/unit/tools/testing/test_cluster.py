"""Clusters of tests: what they do in virtual time, what they answer, and how their waits fail."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from anyio.abc import TaskStatus

from berth.actors.client.rest import ApiError
from berth.actors.scheduling.decision.registry import RegistryError
from berth.config.load import ConfigError
from berth.plugin import SUCCESS, Pod, PreEnqueuePlugin, Status
from berth.testing import (
    BlockingCluster,
    Cluster,
    Fault,
    FaultError,
    NotReachedError,
    ServedCluster,
    budget,
    claim,
    deployment,
    job,
    node,
    nodes,
    pod,
    priority_class,
    run_virtually,
    stateful_set,
)
from berth.tools.answers.manifests.manifests import ManifestError
from berth.tools.kubernetes.api.types.api_documents import StoredObject
from berth.tools.kubernetes.api.types.resources import Kind
from tests.kit.custom_kinds import definition, shirt


class Odd(PreEnqueuePlugin):
    name = "Odd"
    lookups = 5  # type: ignore[assignment]

    def pre_enqueue(self, pod: Pod) -> Status:
        return SUCCESS


async def test_pods_of_workloads_and_classes_have_annotations(cluster: Cluster) -> None:
    notes = {"example.com/note": "yes"}
    workloads = [
        deployment("web", annotations=notes),
        stateful_set("db", annotations=notes),
        job("once", annotations=notes),
    ]
    await cluster.add(workloads, priority_class("high", 100, labels=notes, annotations=notes))
    await cluster.settled()
    pods = cluster.all("Pod")
    assert [pod["metadata"].get("annotations") for pod in pods] == [notes] * 3
    about = cluster.get("PriorityClass", "high")["metadata"]
    assert about["labels"] == about["annotations"] == notes


async def test_a_pod_of_higher_priority_takes_the_place_of_another(cluster: Cluster) -> None:
    await cluster.add(priority_class("high", 100), nodes(1, cpu=4), pod("low", cpu=3))
    await cluster.settled()
    await cluster.add(pod("high", cpu=3, priorityClassName="high"))
    await cluster.settled()
    assert cluster.pod("high").placed_on("node-1")
    assert cluster.pod("low").evicted_by("PreemptionByScheduler")
    assert not cluster.pod("high").evicted_by("PreemptionByScheduler")
    assert cluster.events("Preempted")


async def test_what_cannot_be_used_is_told_by_its_own_error() -> None:
    with pytest.raises(RegistryError, match="plugin Odd: lookups: expected a tuple, got 5"):
        await Cluster(plugins=[Odd]).__aenter__()


async def test_pods_may_be_asked_for_before_they_are_there(cluster: Cluster) -> None:
    web, one = cluster.pod("web"), cluster.pod("one")
    labelled = cluster.pods(app="web")
    await cluster.add(nodes(2, cpu=2), deployment("web", replicas=3, cpu=2))
    with pytest.raises(NotReachedError, match=r"Running on.*Running on.*is pending: 0/2"):
        await cluster.until(web.running, "10s")
    await cluster.scale("Deployment", "web", 2)
    await cluster.until(web.running)
    assert len(web) == len(labelled) == 2
    assert "pods of one expected to run; there are none" in repr(one.running())
    await cluster.add(pod("one"))
    await cluster.until(one.placed_on)
    assert "pod one expected" in repr(one.pending())
    await cluster.delete("Deployment", "web")
    await cluster.settled()
    assert (len(web), len(web.all_lives)) == (0, 3)


async def test_events_are_sorted_out_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.add(nodes(1, cpu=1), [pod(f"big-{each}", cpu=2) for each in range(20)])
    await cluster.settled()
    looks, listed = list[str](), cluster.store.list

    def look(kind: Kind, namespace: str = "") -> Iterator[StoredObject]:
        looks.append(kind.kind)
        return listed(kind, namespace)

    monkeypatch.setattr(cluster.store, "list", look)
    assert not cluster.pods().evicted_by("Evicted")
    assert cluster.report().count("is pending after") == 10
    assert looks.count("Event") <= 2


@pytest.mark.cluster(nodes=2)
async def test_a_budget_keeps_a_pod_from_eviction(cluster: Cluster) -> None:
    await cluster.add(deployment("web", replicas=1), budget("web", app="web", min_available=1))
    await cluster.settled()
    (name,) = cluster.pod("web").names
    with pytest.raises(ApiError, match="disruption budget"):
        await cluster.evict(name)
    await cluster.scale("Deployment", "web", 2)
    await cluster.settled()
    await cluster.evict(name)
    await cluster.settled()
    assert cluster.pod("web").evicted_by("EvictionByEvictionAPI")
    assert len(cluster.pod("web")) == 2
    assert cluster.pod("web").running()
    assert cluster.pods(app="web").bound_once()


@pytest.mark.cluster(nodes=2)
async def test_pods_leave_a_node_whose_kubelet_stops(cluster: Cluster) -> None:
    await cluster.add(deployment("web", replicas=1))
    await cluster.settled()
    (first,) = cluster.pod("web").nodes
    stopped = {"metadata": {"annotations": {"berth.dev/kubelet": "stopped"}}}
    await cluster.patch("Node", first, stopped)
    await cluster.run_for("4m")
    assert cluster.pod("web").placed_on(first)
    await cluster.run_for("10m")
    assert first in cluster.report()
    running = [pod for pod in cluster.pod("web") if "deletionTimestamp" not in pod["metadata"]]
    assert [each["spec"]["nodeName"] for each in running] == [
        {"node-1": "node-2"}.get(first, "node-1")
    ]


@pytest.mark.cluster(nodes=1)
async def test_claims_get_volumes_of_a_default_class(cluster: Cluster) -> None:
    await cluster.add(stateful_set("db", replicas=2, claims=[claim("data")]))
    await cluster.settled()
    assert cluster.pod("db").running()
    assert {each["status"]["phase"] for each in cluster.all("PersistentVolumeClaim")} == {"Bound"}


async def test_a_job_that_cannot_run_is_told_with_its_reason(cluster: Cluster) -> None:
    await cluster.add(node("n", cpu=1, taints=["gpu=a:NoSchedule"]), job("train", completions=2))
    await cluster.settled()
    assert cluster.pod("train").pending_because("untolerated taint")
    found = cluster.pod("train").running()
    assert not found
    assert "untolerated taint" in repr(found)
    assert not cluster.pod("nobody").pending()
    assert "there are none" in repr(cluster.pod("nobody").placed_on())


@pytest.mark.cluster(nodes=1, config={"profiles": [{"schedulerName": "mine"}]})
async def test_a_configuration_counts(cluster: Cluster) -> None:
    await cluster.add(pod("ours", schedulerName="mine"), pod("theirs"))
    await cluster.settled()
    assert cluster.pod("ours").placed_on("node-1")
    assert "no scheduler has said why" in repr(cluster.pod("theirs").placed_on())


@pytest.mark.cluster(nodes=1, scheduler=False, kubelets=False)
async def test_parts_may_be_left_out(cluster: Cluster) -> None:
    await cluster.add(pod("a"))
    await cluster.run_for("1h")
    assert cluster.pod("a").pending()
    await cluster.delete("Pod", "a")
    assert not cluster.pod("a").names


@pytest.mark.cluster(nodes=1)
async def test_a_failing_wait_says_what_the_cluster_waits_for(cluster: Cluster) -> None:
    await cluster.add(pod("big", cpu=100), namespace_pod := pod("far", namespace="elsewhere"))
    with pytest.raises(NotReachedError, match=r"(?s)after 30s.*big is pending.*Insufficient cpu"):
        await cluster.until(lambda: cluster.pod("big").placed_on(), "30s")
    assert cluster.now == pytest.approx(30, abs=1)
    assert namespace_pod["metadata"]["namespace"] == "elsewhere"
    await cluster.until(cluster.pod("far", "elsewhere").placed_on)
    await cluster.delete("Pod", "far", "elsewhere")
    with pytest.raises(NotReachedError, match="not settled after 20s"):
        await cluster.settled("20s")


async def test_a_condition_that_would_always_hold_is_refused(cluster: Cluster) -> None:
    await cluster.add(pod("a", cpu=100))
    a = cluster.pod("a")

    async def runs() -> object:
        return a.running()

    with pytest.raises(TypeError, match=r"plain function, got a coroutine.*await it in the test"):
        await cluster.until(runs)
    with pytest.raises(TypeError, match=r"plain function, got a coroutine"):
        await cluster.until(lambda: cluster.settled())
    with pytest.raises(TypeError, match=r"got the method running; call it: running\(\)"):
        await cluster.until(lambda: a.running)
    with pytest.raises(TypeError, match=r"expected a function to call, got <FALSE: pod a expected"):
        await cluster.until(a.running())  # type: ignore[arg-type]


async def test_objects_may_be_in_files(cluster: Cluster, tmp_path: Path) -> None:
    documents = [*nodes(1), deployment("web", replicas=2), {**pod("x"), "kind": "Pod"}]
    (tmp_path / "all.json").write_bytes(b"".join(map(msgspec.json.encode, documents)))
    await cluster.add(tmp_path)
    await cluster.settled()
    assert cluster.pods().running()
    assert len(cluster.pods(app="web")) == 2


LOOP: dict[str, Any] = {}
LOOP["loop"] = LOOP


@pytest.mark.parametrize(
    "value",
    [object(), b"x", "half-\udcff", nan, inf, (1,), {1}, [{}, LOOP]],
    ids=lambda value: type(value).__name__,
)
async def test_a_value_that_json_does_not_have_is_refused_with_its_field(
    value: Any, cluster: Cluster
) -> None:
    refused = "expected a value that JSON has, got "
    with pytest.raises(TypeError, match=rf"objects\[0\].metadata.labels.a.*: {refused}"):
        await cluster.add(pod("x", labels={"a": value}))
    with pytest.raises(TypeError, match=rf"body.metadata.labels.a.*: {refused}"):
        await cluster.patch("Node", "node-1", {"metadata": {"labels": {"a": value}}})
    with pytest.raises(TypeError, match=r"body.metadata: expected keys that are strings, got 1"):
        await cluster.patch("Node", "node-1", {"metadata": {1: value}})


@pytest.mark.parametrize("objects", [b"x", 3, None])
async def test_what_is_no_document_is_refused(objects: Any, cluster: Cluster) -> None:
    with pytest.raises(TypeError, match=f"expected documents or a Path, got {objects!r}"):
        await cluster.add(objects)


@pytest.mark.parametrize(
    "time", ["-1s", -1, nan, None, True, b"1", object()], ids=lambda time: type(time).__name__
)
async def test_a_time_that_is_none_is_refused(time: Any, cluster: Cluster) -> None:
    for wait in (cluster.run_for, lambda time: cluster.settled(still=time)):
        if time is not None or wait == cluster.run_for:
            with pytest.raises((TypeError, ValueError), match=r"expected (0 )?seconds.*, got "):
                await wait(time)


@pytest.mark.parametrize("fault", [3, None, {}, "kill"])
def test_what_is_no_fault_is_refused(fault: Any) -> None:
    with pytest.raises(FaultError, match=r"faults\[1\]: expected a Fault, got "):
        BlockingCluster(faults=[Fault("slow"), fault])


async def test_what_cannot_be_used_is_refused_with_its_name(cluster: Cluster) -> None:
    with pytest.raises(LookupError, match="expected the name of a kind, such as Pod, got 'Pdo'"):
        cluster.get("Pdo", "x")
    with pytest.raises(LookupError, match="expected Pod x, got none"):
        cluster.get("Pod", "x")
    with pytest.raises(ManifestError, match="unknown kinds: Wheel"):
        await cluster.add({"apiVersion": "cars/v1", "kind": "Wheel", "metadata": {"name": "w"}})
    with pytest.raises(ManifestError, match="unknown kinds: Shirt; add their definitions in an "):
        await cluster.add([definition(), shirt()])
    with pytest.raises(ManifestError, match="unknown field"):
        await cluster.add(pod("x", colour="red"))
    with pytest.raises(ApiError, match="already exists"):
        await cluster.add(pod("a"), pod("a", cpu=1))
    with pytest.raises(ConfigError):
        Cluster(config={"parallelism": "many"})
    with pytest.raises(ValueError, match=r"key=value:Effect, got 'gpu'"):
        node("n", taints=["gpu"])


@pytest.mark.cluster(nodes=1)
async def test_a_report_tells_of_attempts_writes_and_what_controllers_wait_for(
    cluster: Cluster,
) -> None:
    ended = job("done")
    ended["spec"]["ttlSecondsAfterFinished"] = 500
    await cluster.add(ended, pod("big", cpu=100))
    await cluster.run_for("20s")
    report = cluster.report()
    assert "pod default/big: is pending after 2 attempts: 0/1 nodes are available" in report
    assert re.search("Job default/done: the controller .* looks at it again in 4[0-9]", report)
    assert re.search("write: [0-9.]+ s ago: MODIFIED (Job|Pod) default/", report)


def test_a_served_cluster_has_scripts(tmp_path: Path) -> None:
    (tmp_path / "scripts.yaml").write_text("scripts: [{logs: hello}]")
    with ServedCluster(pod("a"), nodes=1, scripts=tmp_path / "scripts.yaml") as served:
        served.call(lambda cluster: cluster.until(cluster.pod("a").running))
        with urlopen(f"{served.url}/api/v1/namespaces/default/pods/a/log") as answer:
            assert answer.read() == b"hello\n"


def test_the_same_seed_gives_the_same_history() -> None:
    def played(seed: int) -> str:
        digest = hashlib.sha256()
        with BlockingCluster(nodes=3, seed=seed) as blocking:
            blocking.add(deployment("web", replicas=5, cpu=1))
            blocking.run_for("1h")
            for stored in blocking.cluster.store.everything():
                digest.update(stored[1].raw)
        return digest.hexdigest()

    assert played(1) == played(1)
    assert played(1) != played(2)


def test_a_part_that_fails_ends_the_test_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await asyncio.sleep(5)
        raise OSError("the disk is full")

    def play() -> None:
        with BlockingCluster(nodes=1) as blocking:
            blocking.run_for("1m")

    monkeypatch.setattr("berth.tools.testing.parts.run_controllers", failing)
    with pytest.raises(ExceptionGroup) as raised:
        play()
    assert raised.group_contains(OSError, match="the disk is full")


def test_the_error_of_a_test_comes_as_it_is() -> None:
    async def story() -> None:
        async with Cluster(nodes=1):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_virtually(story)


def test_a_cluster_that_cannot_begin_says_why() -> None:
    with pytest.raises(ManifestError, match="unknown field"), BlockingCluster(pod("x", hue=1)):
        pass
    with pytest.raises(ManifestError, match="unknown field"), ServedCluster(pod("x", hue=1)):
        pass
    asked = {"extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]}
    with pytest.raises(ConfigError, match="none in virtual time"), BlockingCluster(config=asked):
        pass
    enabled = {"multiPoint": {"enabled": [{"name": "Nobodys"}]}}
    unknown = {"config": {"profiles": [{"plugins": enabled}]}}
    with pytest.raises(RegistryError, match="Nobodys"), BlockingCluster(**unknown):
        pass
    slowly: Any = "slowly"
    with pytest.raises(FaultError, match="slowly"), BlockingCluster(faults=[Fault(slowly)]):
        pass


@pytest.mark.parametrize("calls", ["never", "at once", "once it has failed"])
def test_the_end_of_a_served_cluster_raises_what_failed_in_it(
    calls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, failed = asyncio.Event(), threading.Event()

    async def failing(*_: object, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await begun.wait()
        failed.set()
        raise OSError("the disk is full")

    def play() -> None:
        with ServedCluster(nodes=1) as served:
            served._loop.call_soon_threadsafe(begun.set)
            if calls == "once it has failed":
                served._thread.join(10)
            if calls != "never":
                served.call(lambda cluster: cluster.run_for("1h"))
            assert failed.wait(10)

    monkeypatch.setattr("berth.tools.testing.parts.run_controllers", failing)
    with pytest.raises(ExceptionGroup) as raised:
        play()
    assert raised.group_contains(OSError, match="the disk is full")


@pytest.mark.parametrize(("version", "release"), [("1.36", "v1.36.2"), ("1.37", "v1.37.0")])
def test_kubelets_have_the_version_of_the_cluster(version: str, release: str) -> None:
    async def read() -> str:
        async with Cluster(nodes=1, scheduler=False, controllers=False, version=version) as cluster:
            await cluster.settled()
            shown: str = cluster.get("Node", "node-1")["status"]["nodeInfo"]["kubeletVersion"]
            return shown

    assert run_virtually(read) == release


async def test_a_cluster_without_objects_has_few_tasks() -> None:
    before = len(asyncio.all_tasks())
    async with Cluster():
        assert len(asyncio.all_tasks()) - before < 70


async def test_what_watches_kinds_without_objects_does_not_outlive_a_cluster() -> None:
    async with Cluster() as cluster:
        pass
    before = len(asyncio.all_tasks())
    await cluster.add(pod("a"), claim("b"))
    assert len(asyncio.all_tasks()) == before
