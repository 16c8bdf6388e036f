"""Compares the lives of pods on hollow kubelets with those that kubelets of Kubernetes 1.36.2 gave.

Each line of data/pod_lives.jsonl.gz has a pod, the steps that were taken with it, each version of
the pod on a kubelet with kubemark's runtime, and its events. The API server was the embedded one. A
kubelet may leave out versions that last for a moment, since it writes the latest status only; it
never shows other versions, or another order.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import anyio

from berth.actors.client.watch import ObjectChanged, ObjectDeleted, Reflector
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import LoopClock
from tests.kit import documents
from tests.kit.cluster import Cluster, cluster
from tests.kit.documents import Document
from tests.kit.pod_lives import BRIEF_SECONDS, event, version
from tests.kit.virtual_loop import in_virtual_time

MOST_SECONDS = 60.0  # a step that has not happened by then shows in the versions
STRATEGIC = "application/strategic-merge-patch+json"
DATA = Path(__file__).with_name("data") / "pod_lives.jsonl.gz"
# The known differences. A kubelet shows the exit of a container, and ten seconds later that it
# waits; a hollow one says so at once. The runtime of the recording ends killed containers with 0.
BACKING_OFF = re.compile(r"waiting CrashLoopBackOff [^;]*;(.*? after )(terminated Error 1)")
KILLED = ("terminated Error 137", "terminated Completed 0")


class Lives:
    """The versions of all pods and the events about them, as they are watched."""

    def __init__(self) -> None:
        self.pods: dict[str, Document] = {}
        self.versions: dict[str, list[Document]] = defaultdict(list)
        self.gone: set[str] = set()

    async def follow(self, pods: Reflector[Document]) -> None:
        async for change in pods.changes():
            match change:
                case ObjectChanged(pod):
                    self._note(pod)
                case ObjectDeleted(pod):
                    self.gone.add(pod["metadata"]["name"])

    def _note(self, pod: Document) -> None:
        name = pod["metadata"]["name"]
        self.pods[name] = pod
        versions, latest = self.versions[name], version(pod)
        if not versions or versions[-1] != latest:
            versions.append(latest)


def condition(pod: Document | None, kind: str) -> str:
    return documents.condition(pod, kind) if pod else ""


async def live(running: Cluster, lives: Lives, recorded: Document, node: str) -> None:
    """Creates a pod, and takes the steps that were taken when its life was recorded."""
    name = recorded["name"]
    metadata = {**recorded["pod"]["metadata"], "name": name}
    spec = {**recorded["pod"]["spec"], "nodeName": node}
    await running.create("Pod", {"metadata": metadata, "spec": spec})
    path = f"/api/v1/namespaces/default/pods/{name}"

    def happened(what: str, *arguments: Any) -> bool:
        pod: Document | None = lives.pods.get(name)
        match what:
            case "ready":
                return condition(pod, "Ready") == "True"
            case "phase":
                return bool(pod and pod["status"].get("phase") == arguments[0])
            case "restarts":
                statuses = pod["status"].get("containerStatuses", ()) if pod else ()
                return bool(sum(each["restartCount"] for each in statuses) >= arguments[0])
            case _:
                return name in lives.gone

    for step in recorded["steps"]:
        match step:
            case ["ready" | "phase" | "restarts" | "gone" as what, *arguments]:
                with anyio.move_on_after(MOST_SECONDS):
                    while not happened(what, *arguments):
                        await anyio.sleep(0.1)
            case ["sleep", seconds]:
                await anyio.sleep(seconds)
            case ["delete", grace]:
                options = {} if grace is None else {"gracePeriodSeconds": grace}
                await running.client.call("DELETE", path, dict, options)
            case ["evict"]:
                body = {"metadata": {"name": name, "namespace": "default"}}
                await running.client.call("POST", f"{path}/eviction", dict, body)
            case ["condition", kind, status]:
                body = {"status": {"conditions": [{"type": kind, "status": status}]}}
                await running.client.call("PATCH", f"{path}/status", dict, body, STRATEGIC)
            case ["unfinalize"]:
                await running.patch("Pod", name, {"metadata": {"finalizers": None}})
            case ["taint"]:
                taint = {"key": "k", "value": "v", "effect": "NoExecute"}
                await running.patch("Node", node, {"spec": {"taints": [taint]}})
            case _:
                raise AssertionError(step)


def small_node(number: int) -> Document:
    """Returns a node of one core, like those of the recording."""
    node = hollow_node(number)
    for amounts in ("capacity", "allocatable"):
        node["status"][amounts] = {**node["status"][amounts], "cpu": "1"}
    return node


def differences(recorded: Document, ours: list[Document]) -> list[str]:
    """Returns the versions that a kubelet does not show here, or that it must show."""
    told = [view for _, view in recorded["versions"]]
    times = [*(at for at, _ in recorded["versions"][1:]), recorded["end"]]
    lasting = [
        view
        for (at, view), end in zip(recorded["versions"], times, strict=True)
        if end - at >= BRIEF_SECONDS or view is told[-1]
    ]
    problems, place = [], 0
    for view in map(forgiven, ours):
        if view in told[place:]:
            place = told.index(view, place) + 1
        else:
            problems.append(f"{recorded['name']}: no kubelet shows now: {view}")
    seen = list(map(forgiven, ours))
    problems += [f"{recorded['name']}: never shown: {view}" for view in lasting if view not in seen]
    return problems


def forgiven(view: Document) -> Document:
    """Returns a version with the two known differences taken back."""
    text = BACKING_OFF.sub(r"\2;\1\2", json.dumps(view)).replace(*KILLED)
    forgiving: Document = json.loads(text)
    return forgiving


def about(document: Document) -> str:
    return str(document["involvedObject"]["name"])


def told(document: Document, pod: Document) -> tuple[str, ...]:
    return tuple(map(unprobed, event(document, pod["metadata"])))


def unprobed(text: str) -> str:
    """Returns the text of an event without what a failed probe has seen."""
    return re.sub("(?<=probe failed: ).*", "", text)


@in_virtual_time
async def test_pods_live_as_on_kubelets() -> None:
    with gzip.open(DATA, "rt") as lines:
        recordings = [json.loads(line) for line in lines]
    for recorded in recordings:
        recorded["name"] = f"pod-{recorded['name']}"
    lives = Lives()
    async with cluster() as running:
        await running.start_hollow(small_node(n) for n in range(1, len(recordings) + 1))
        pods = Reflector(running.client, "/api/v1/pods", dict, LoopClock(), Random(2))
        async with anyio.create_task_group() as group:
            group.start_soon(lives.follow, pods)
            await anyio.sleep(1)
            async with anyio.create_task_group() as pod_group:
                for number, recorded in enumerate(recordings, start=1):
                    pod_group.start_soon(live, running, lives, recorded, f"node-{number}")
                    await anyio.sleep(1)  # or some events would be lost
            group.cancel_scope.cancel()
        events = await running.all("Event")
    problems = [
        problem
        for recorded in recordings
        for problem in differences(recorded, lives.versions[recorded["name"]])
    ]
    assert not problems, "\n".join(problems)
    for recorded in recordings:
        name = recorded["name"]
        ours = {told(each, lives.pods[name]) for each in events if about(each) == name}
        theirs = {tuple(map(unprobed, each)) for each in recorded["events"]}
        assert ours <= theirs, name
        # those of sidecars that end with their pod, and of pods that are deleted at once
        assert {reason for _, reason, *_ in theirs - ours} <= {"Killing"}, name
