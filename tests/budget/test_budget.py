"""The work that one pod makes from the queue to its binding, as calls from berth's own functions,
against a budget.

Counted are the calls of Python functions in actors/ and the C functions that these call, by pods of
one kind scheduled one after the other on a running pipeline. `python -m tests.budget.record`
records what a change saves, or has to cost.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import berth.actors
import msgspec
import pytest
from berth.actors.scheduling.kube.core import Node, Pod

from tests.kit.pipeline import Pipeline, pipeline

BUDGET = Path(__file__).with_name("budget.json")
OURS = str(Path(berth.actors.__file__).parent)
NODES, WARM, MEASURED = 300, 40, 100
SLACK = 1.25  # a regression fails, the extraction of a helper does not
HOARD = 0.75  # a budget of which so little is used is out of date

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


class Counter:
    """Counts while it is entered."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> Counter:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(OURS):
            self.calls += 1


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


async def calls_per_pod(kind: str) -> float:
    async with pipeline() as running:
        for number in range(NODES):
            await running.add_node(node(number))
        await schedule(running, kind, 0, WARM)
        with Counter() as counter:
            await schedule(running, kind, WARM, WARM + MEASURED)
        return counter.calls / MEASURED


@pytest.mark.parametrize("kind", KINDS)
async def test_a_pod_costs_no_more_than_its_budget(kind: str) -> None:
    budget = json.loads(BUDGET.read_text())[kind]
    calls = await calls_per_pod(kind)
    assert calls <= budget * SLACK, f"{kind}: {calls:.0f} calls a pod, the budget is {budget}"
    assert calls >= budget * HOARD, f"{kind}: {calls:.0f} calls a pod of {budget}: record the gain"
