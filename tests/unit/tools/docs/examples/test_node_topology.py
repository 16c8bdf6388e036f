"""NodeResourceTopologyMatch: no pod goes where its kubelet cannot align it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from berth.testing import Cluster, check_plugin, decide, node, pod, run_virtually
from berth.tools.docs.examples.node_topology import NodeResourceTopologyMatch

DEFINITION = Path("tools/docs/examples/node_topology/topologies.yaml").resolve()
GPU = "example.com/gpu"
NAME = NodeResourceTopologyMatch.name
Document = dict[str, Any]
Amounts = Mapping[str, int | str]


def large(name: str) -> Document:
    made = node(name, cpu=32)
    made["status"]["allocatable"][GPU] = "8"
    return made


def topology(
    of: str, *zones: Amounts, policy: str = "single-numa-node", scope: str = "container"
) -> Document:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": of},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": scope},
        ],
        "zones": [
            {
                "name": f"node-{number}",
                "type": "Node",
                "resources": [
                    {"name": name, "capacity": most, "allocatable": most, "available": most}
                    for name, most in amounts.items()
                ],
            }
            for number, amounts in enumerate(zones)
        ],
    }


def asking(
    name: str, *containers: Amounts, shared: bool = False, init: Amounts | None = None
) -> Document:
    """A pod of the class Guaranteed, or with `shared` of the class Burstable."""

    def container(number: int, amounts: Amounts) -> Document:
        requests = {of: str(amount) for of, amount in amounts.items()}
        limits = {of: text for of, text in requests.items() if of == GPU or not shared}
        resources = {"requests": requests, "limits": limits}
        return {"name": f"c{number}", "image": "app", "resources": resources}

    made = pod(name)
    made["spec"]["containers"] = [container(*each) for each in enumerate(containers)]
    if init:
        made["spec"]["initContainers"] = [{**container(9, init), "name": "init"}]
    return made


def amounts(cpu: int = 4, memory: str = "1Gi", gpus: int = 0) -> Amounts:
    return {"cpu": cpu, "memory": memory, **({GPU: gpus} if gpus else {})}


def rejections(subject: Document, *topologies: Document) -> Mapping[str, list[str]]:
    decision = decide(subject, [large("a")], *topologies, plugins=[NodeResourceTopologyMatch])
    return decision.rejections


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (asking("p", amounts(4)), ""),
        (asking("p", amounts(5)), "cannot align container"),
        (asking("p", amounts(3), amounts(3)), ""),
        (
            asking("p", amounts(3, "100Mi"), amounts(2, "100Mi"), amounts(3, "100Mi")),
            "cannot align container",
        ),
        (asking("p", amounts(2), init=amounts(5)), "cannot align init container"),
        (asking("p", amounts(4), init=amounts(4)), ""),  # It has ended when the container starts.
        (asking("p", amounts(8), shared=True), ""),
        (asking("p", amounts(8, gpus=2), shared=True), "cannot align container"),
        (asking("p", amounts(1, "100Mi", gpus=1)), ""),
        (asking("p", {**amounts(1), "ephemeral-storage": "1Gi"}), ""),
        (asking("p", {**amounts(1), "hugepages-2Mi": "2Mi"}), "cannot align container"),
        (pod("p"), ""),
    ],
)
def test_each_container_fits_into_one_numa_node(subject: Document, why: str) -> None:
    has = topology("a", amounts(gpus=1), amounts(gpus=1))
    roomy = large("a")
    roomy["status"]["allocatable"]["hugepages-2Mi"] = "4Mi"
    decision = decide(subject, [roomy], has, plugins=[NodeResourceTopologyMatch])
    assert decision.rejections == ({"a": [why]} if why else {})


def test_pods_are_aligned_as_a_whole_where_the_kubelet_does_so() -> None:
    apart = asking("p", amounts(3), amounts(3))
    assert rejections(apart, topology("a", amounts(), amounts())) == {}
    assert rejections(apart, topology("a", amounts(), amounts(), scope="pod")) == {
        "a": ["cannot align pod"]
    }


def test_the_older_form_of_the_policy() -> None:
    older = topology("a", amounts(), amounts()) | {"topologyPolicies": ["SingleNUMANodePodLevel"]}
    del older["attributes"]
    assert rejections(asking("p", amounts(3), amounts(3)), older) == {"a": ["cannot align pod"]}


def test_other_policies_and_nodes_without_an_object_are_left_alone() -> None:
    assert rejections(asking("p", amounts(8))) == {}
    assert rejections(asking("p", amounts(8)), topology("a", amounts(), policy="best-effort")) == {}


def scores(
    subject: Document, strategy: str, policy: str = "single-numa-node", scope: str = "container"
) -> Mapping[str, int]:
    """Of the nodes of scheduler-plugins' own tests."""
    zones = {"a": amounts(4, "500Mi"), "b": amounts(2, "50Mi"), "c": amounts(6, "60Mi")}
    topologies = [topology(name, of, of, policy=policy, scope=scope) for name, of in zones.items()]
    args = {NAME: {"scoringStrategy": {"type": strategy}}}
    nodes = [large(name) for name in zones]
    decision = decide(subject, nodes, *topologies, plugins=[NodeResourceTopologyMatch], args=args)
    return decision.scores_by_plugin[NAME]


@pytest.mark.parametrize(
    ("strategy", "best", "score"),
    [("MostAllocated", "b", 70), ("LeastAllocated", "a", 73), ("BalancedAllocation", "c", 100)],
)
def test_strategies(strategy: str, best: str, score: int) -> None:
    found = scores(asking("p", amounts(2, "20Mi")), strategy)
    assert max(found, key=lambda name: found[name]) == best
    assert found[best] == score


@pytest.mark.parametrize(
    ("containers", "scope", "expected"),
    [
        ([amounts(2, "50Mi")], "container", (94, 94, 94)),
        ([amounts(4, "50Mi")], "container", (94, 82, 94)),
        ([amounts(6, "50Mi")], "container", (82, 0, 94)),
        ([amounts(1, "50Mi"), amounts(3, "50Mi")], "container", (94, 82, 94)),
        ([amounts(5, "50Mi"), amounts(3, "50Mi")], "container", (82, 0, 94)),
        ([amounts(2, "50Mi"), amounts(2, "50Mi")], "pod", (94, 82, 82)),
        ([amounts(5, "50Mi"), amounts(3, "50Mi")], "pod", (82, 0, 82)),
    ],
)
def test_fewer_numa_nodes_are_better(
    containers: list[Amounts], scope: str, expected: tuple[int, ...]
) -> None:
    found = scores(asking("p", *containers), "LeastNUMANodes", "best-effort", scope)
    assert tuple(found[name] for name in "abc") == expected


def test_near_numa_nodes_are_better_than_far_ones() -> None:
    def with_gpus(name: str, *zones: int) -> Document:
        zone_amounts = [amounts(2, gpus=int(number in zones)) for number in range(3)]
        made = topology(name, *zone_amounts, policy="best-effort")
        for number, zone in enumerate(made["zones"]):
            distances = {other: (10, 12, 20)[abs(other - number)] for other in range(3)}
            zone["costs"] = [{"name": f"node-{o}", "value": of} for o, of in distances.items()]
        return made

    args = {NAME: {"scoringStrategy": {"type": "LeastNUMANodes"}}}
    decision = decide(
        asking("p", amounts(2, gpus=2)),
        [large("near"), large("far")],
        with_gpus("near", 1, 2),
        with_gpus("far", 0, 2),
        plugins=[NodeResourceTopologyMatch],
        args=args,
    )
    assert decision.scores_by_plugin[NAME] == {"near": 82, "far": 76}


def test_pods_that_the_agent_does_not_know_yet_count() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(topology("a", amounts(), amounts()))
        await cluster.add(*(asking(name, amounts(3, "100Mi")) for name in ("one", "two", "three")))
        await cluster.settled()
        assert cluster.pod("one").placed_on("a")
        assert cluster.pod("two").placed_on("a")
        assert cluster.pod("three").pending_because("cannot align container")
        # The agent writes what is left, and later that a pod has ended.
        await cluster.patch("NodeResourceTopology", "a", topology("a", amounts(1), amounts(1)))
        await cluster.run_for("1m")
        assert cluster.pod("three").pending()
        await cluster.delete("Pod", "two")
        await cluster.patch("NodeResourceTopology", "a", topology("a", amounts(1), amounts(4)))
        await cluster.run_for("1m")
        assert cluster.pod("three").placed_on("a")

    async def whole() -> None:
        async with Cluster(DEFINITION, large("a"), plugins=[NodeResourceTopologyMatch]) as cluster:
            await story(cluster)

    run_virtually(whole)


def test_a_node_that_comes_wakes_the_pod() -> None:
    async def whole() -> None:
        async with Cluster(DEFINITION, large("a"), plugins=[NodeResourceTopologyMatch]) as cluster:
            await cluster.add(topology("a", amounts(), amounts()), asking("p", amounts(6)))
            await cluster.settled()
            assert cluster.pod("p").pending_because("cannot align container")
            await cluster.add(large("b"))
            await cluster.run_for("1m")
            assert cluster.pod("p").placed_on("b")

    run_virtually(whole)


def test_its_contracts() -> None:
    nodes, pods = [large("a"), large("b")], [asking("p", amounts(2))]
    check_plugin(NodeResourceTopologyMatch, nodes=nodes, pods=pods, examples=5)
