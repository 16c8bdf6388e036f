"""GpuPacking: pods with GPUs fill one node after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.testing import check_plugin, decide, node, pod
from berth.tools.docs.examples.gpu_packing import GpuPacking

GPU = "nvidia.com/gpu"
Document = dict[str, Any]


def with_gpus(name: str, gpus: int) -> Document:
    made = node(name, cpu=32)
    made["status"]["allocatable"][GPU] = str(gpus)
    made["status"]["capacity"] = dict(made["status"]["allocatable"])
    return made


def asking(name: str, gpus: int, on: str = "") -> Document:
    made = pod(name, cpu=1, node=on)
    made["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1", GPU: str(gpus)},
        "limits": {GPU: str(gpus)},
    }
    return made


NODES = [with_gpus("a", 8), with_gpus("b", 8), node("plain", cpu=32)]


def scores(subject: Document, *others: Document) -> Mapping[str, int]:
    decision = decide(subject, NODES, *others, plugins=[GpuPacking])
    return decision.scores_by_plugin["GpuPacking"]


def test_the_fuller_node_is_better() -> None:
    assert scores(asking("x", 2), asking("y", 4, on="b")) == {"a": 25, "b": 75}


def test_pods_without_gpus_keep_off() -> None:
    assert scores(pod("x", cpu=1)) == {"a": 0, "b": 0, "plain": 100}


def test_its_contracts() -> None:
    check_plugin(GpuPacking, nodes=NODES, pods=[asking("x", 2)], examples=5)


def test_another_resource() -> None:
    args = {"GpuPacking": {"resource": "example.com/fpga"}}
    decision = decide(pod("x"), NODES, plugins=[GpuPacking], args=args)
    assert set(decision.scores_by_plugin["GpuPacking"].values()) == {100}
