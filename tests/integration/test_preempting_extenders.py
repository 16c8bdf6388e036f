"""The scheduler with extenders for preemption that remove candidates or give invalid answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import yaml
from click.testing import CliRunner

from berth.tools.views.commands.explain import explain
from tests.integration.test_extenders import document, entry, extended, node, pod, refused
from tests.kit.cluster import Cluster
from tests.kit.documents import Document
from tests.kit.extender import Answer, Body, small_extender
from tests.kit.virtual_loop import in_virtual_time


def crowded(name: str, priority: int, on: str = "", cpu: str = "4") -> Document:
    manifest = pod(name, cpu=cpu)
    manifest["spec"] |= {"priorityClassName": f"p{priority}", "terminationGracePeriodSeconds": 0}
    manifest["spec"] |= {"nodeName": on} if on else {}
    return manifest


def priority_class(value: int) -> Document:
    return {"metadata": {"name": f"p{value}"}, "value": value}


# Node a is the cheapest; c also has a pod that must not be preempted.
LOW = (
    crowded("on-a", 0, "a", "8"),
    crowded("on-b", 5, "b", "8"),
    crowded("on-c", 7, "c"),
    crowded("stays", 900, "c"),
)


@asynccontextmanager
async def full(*extenders: Document) -> AsyncIterator[Cluster]:
    async with extended(*extenders, nodes=("a", "b", "c"), podMaxBackoffSeconds=1) as running:
        for value in (0, 5, 7, 100, 900):
            await running.create("PriorityClass", priority_class(value))
        await running.create_all("Pod", LOW)
        yield running


async def left(running: Cluster) -> set[str]:
    return (await running.by_name("Pod")).keys() - {"high"}


def only(*nodes: str) -> Answer:
    """Answers with these nodes and their proposed victims."""

    def answer(body: Body) -> Document:
        proposed = body["NodeNameToMetaVictims"]
        return {
            "NodeNameToMetaVictims": {name: proposed[name] for name in nodes if name in proposed}
        }

    return answer


@in_virtual_time
async def test_without_extenders_the_cheapest_node_is_taken() -> None:
    async with full() as running:
        await running.create("Pod", crowded("high", 100))
        assert await running.node_of("high") == "a"
        assert await left(running) == {"on-b", "on-c", "stays"}


@in_virtual_time
async def test_extenders_receive_the_victims_and_remove_nodes_one_after_the_other() -> None:
    async with (
        small_extender({"preempt": only("b", "c")}) as first,
        small_extender({"preempt": only("a", "c")}) as second,
        full(entry(first, "preempt"), entry(second, "preempt")) as running,
    ):
        uids = {
            name: (await running.get("Pod", name))["metadata"]["uid"]
            for name in ("on-a", "on-b", "on-c")
        }
        await running.create("Pod", crowded("high", 100))
        assert await running.node_of("high") == "c"
        assert await left(running) == {"on-a", "on-b", "stays"}
        told, then = first.bodies("preempt")[0], second.bodies("preempt")[0]
        assert told["Pod"]["metadata"]["name"] == "high"
        named = told["NodeNameToMetaVictims"]
        assert {name: [p["UID"] for p in victims["Pods"]] for name, victims in named.items()} == {
            name: [uids[f"on-{name}"]] for name in "abc"
        }
        assert then["NodeNameToMetaVictims"].keys() == {"b", "c"}


@in_virtual_time
async def test_an_extender_may_add_victims() -> None:
    """It returns them in another order."""
    async with small_extender() as extender, full(entry(extender, "preempt")) as running:
        uids = [(await running.get("Pod", name))["metadata"]["uid"] for name in ("on-c", "stays")]
        both = {"c": {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}}
        extender.answers["preempt"] = lambda _: {"NodeNameToMetaVictims": both}
        await running.create("Pod", crowded("high", 100))
        assert await running.node_of("high") == "c"
        assert await left(running) == {"on-a", "on-b"}


@in_virtual_time
async def test_without_candidates_no_pod_is_preempted() -> None:
    async with (
        small_extender({"preempt": only()}) as extender,
        full(entry(extender, "preempt")) as running,
    ):
        await running.create("Pod", crowded("high", 100))
        reason, message = await refused(running, "high")
        assert reason == "Unschedulable"
        assert message.endswith("preemption: no candidate node for preemption")
        assert len(await left(running)) == 4


def unknown_pod(body: Body) -> Document:
    return {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "nobody"}]}}}


@in_virtual_time
async def test_an_invalid_answer_is_reported_and_no_pod_is_preempted() -> None:
    async with (
        small_extender({"preempt": unknown_pod}) as extender,
        full(entry(extender, "preempt")) as running,
    ):
        await running.create("Pod", crowded("high", 100))
        reason, message = await refused(running, "high")
        assert reason == "Unschedulable"
        assert "preemption: " in message
        assert "claims to preempt pod (UID: &{nobody}) on node: a, but" in message
        assert len(await left(running)) == 4


@in_virtual_time
async def test_an_ignorable_extender_that_fails_is_skipped() -> None:
    async with (
        small_extender({"preempt": unknown_pod}) as bad,
        small_extender({"preempt": only("b")}) as good,
        full(entry(bad, "preempt", ignorable=True), entry(good, "preempt")) as running,
    ):
        await running.create("Pod", crowded("high", 100))
        assert await running.node_of("high") == "b"
        assert await left(running) == {"on-a", "on-c", "stays"}


# ------------------------------------------------------------------------------------------ explain


def explained(folder: Path, *extenders: Document, output: str) -> str:
    kinds: list[tuple[str, str, list[Any]]] = [
        ("v1", "Node", [node(name) for name in "abc"]),
        ("v1", "Pod", [*LOW, crowded("high", 100)]),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            [priority_class(value) for value in (0, 5, 7, 100, 900)],
        ),
    ]
    objects = [
        {"apiVersion": version, "kind": kind, **fields}
        for version, kind, every in kinds
        for fields in every
    ]
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    (folder / "config.yaml").write_text(yaml.safe_dump(document(*extenders)))
    files = ["-f", str(folder / "cluster.yaml"), "--config", str(folder / "config.yaml")]
    result = CliRunner().invoke(
        explain, [*files, "--pod", "high", "-o", output], env={"COLUMNS": "160"}
    )
    assert result.exit_code == 0, result.output
    return result.stdout


async def test_explain_asks_the_extenders_and_shows_the_removed_candidates(tmp_path: Path) -> None:
    async with small_extender({"preempt": only("b", "c")}) as extender:
        verbs = entry(extender, "preempt")
        told = json.loads(
            await anyio.to_thread.run_sync(lambda: explained(tmp_path, verbs, output="json"))
        )
        report = await anyio.to_thread.run_sync(lambda: explained(tmp_path, verbs, output="table"))
    assert told["preemption"]["alternatives"] == ["b"]
    assert told["preemption"]["candidates"].keys() == {"b", "c"}
    assert "an extender left it out" in next(
        line for line in report.splitlines() if line.startswith("│ a ")
    )
    assert "default/high is nominated to b by DefaultPreemption: 1 pod is evicted first" in report


async def test_explain_keeps_the_nomination_when_an_extender_changes_its_answer(
    tmp_path: Path,
) -> None:
    answers = iter([only("b"), only()])
    async with small_extender({"preempt": lambda body: next(answers)(body)}) as extender:
        verbs = entry(extender, "preempt")
        told = json.loads(
            await anyio.to_thread.run_sync(lambda: explained(tmp_path, verbs, output="json"))
        )
    assert told["preemption"]["nominatedNode"] == "b"
    assert told["preemption"]["victims"] == ["default/on-b"]
