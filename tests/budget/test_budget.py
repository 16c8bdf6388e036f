"""The function calls that one pod costs from the queue to its binding, against a budget.

Pods of one kind are scheduled one after the other on a running pipeline. Run `python -m
tests.budget.record` to record the new cost after a change that saves calls or has to add some.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.plugin import Node, Pod
from tests.kit.calls import CallCounter
from tests.kit.pipeline import Pipeline, pipeline

BUDGET = Path(__file__).with_name("budget.json")
NODES, WARM, MEASURED = 300, 40, 100
REGRESSION = 1.25  # more calls than the budget, by this factor, are a regression
GAIN = 0.75  # fewer calls than this part of the budget are a gain that must be recorded

SELECTOR = {"matchLabels": {"app": "web"}}
KINDS: dict[str, dict[str, Any]] = {
    "basic": {},
    "spreading": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 5,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
            }
        ]
    },
    "anti-affinity": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": SELECTOR}
                ]
            }
        }
    },
}


def node(number: int) -> Node:
    labels = {
        "kubernetes.io/hostname": f"n{number}",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
    }
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    document = {
        "metadata": {"name": f"n{number}", "labels": labels},
        "status": {"allocatable": allocatable},
    }
    return msgspec.convert(document, Node)


def pod(name: str, kind: str) -> Pod:
    container = {
        "name": "c",
        "image": "web",
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
    }
    document = {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "labels": {"app": "web"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **KINDS[kind]},
    }
    return msgspec.convert(document, Pod)


async def schedule(running: Pipeline, kind: str, first: int, last: int) -> None:
    before = len(running.store.bound)
    for number in range(first, last):
        await running.add_pod(pod(f"p{number}", kind))
        await running.clock.settle()
    assert len(running.store.bound) - before == last - first


async def calls_per_pod(kind: str, recorder_bytes: int = 0) -> float:
    async with pipeline(recorder_bytes=recorder_bytes) as running:
        for number in range(NODES):
            await running.add_node(node(number))
        await schedule(running, kind, 0, WARM)
        with CallCounter() as counter:
            await schedule(running, kind, WARM, WARM + MEASURED)
        return counter.calls / MEASURED


@pytest.mark.parametrize("kind", KINDS)
async def test_a_pod_costs_no_more_than_its_budget(kind: str) -> None:
    budget = json.loads(BUDGET.read_text())[kind]
    calls = await calls_per_pod(kind)
    assert calls < budget * REGRESSION, f"{kind}: {calls:.0f} calls a pod, the budget is {budget}"
    assert calls > budget * GAIN, f"{kind}: {calls:.0f} calls a pod of {budget}: record the gain"


async def calls_per_rejection(recorder_bytes: int = 0) -> float:
    """Returns the calls of one pod of its own template that fits nowhere."""
    async with pipeline(recorder_bytes=recorder_bytes) as running:
        for number in range(NODES):
            await running.add_node(node(number))
        await schedule(running, "basic", 0, WARM)
        pods = [pod(f"large{number}", "basic") for number in range(MEASURED)]
        with CallCounter() as counter:
            for number, each in enumerate(pods):
                await running.add_pod(rejected(each, number))
                await running.clock.settle()
        return counter.calls / MEASURED


def rejected(pod: Pod, number: int) -> Pod:
    """Returns the pod with a request that no node can give, for another reason than the last."""
    document = {"requests": {("cpu", "memory")[number % 2]: f"{1_000_000 + number}Mi"}}
    containers = (
        msgspec.structs.replace(
            pod.spec.containers[0],
            resources=msgspec.convert(document, type(pod.spec.containers[0].resources)),
        ),
    )
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, containers=containers)
    )


async def test_the_flight_recorder_costs_at_most_2_percent_of_an_attempt() -> None:
    without = await calls_per_pod("basic")
    recorded = await calls_per_pod("basic", recorder_bytes=1 << 20)
    assert without < recorded <= without * 1.02


async def test_the_flight_recorder_costs_at_most_2_percent_of_a_rejection() -> None:
    without = await calls_per_rejection()
    recorded = await calls_per_rejection(recorder_bytes=1 << 20)
    assert without < recorded <= without * 1.02
