"""Which pods a kubelet rejects, and which a critical pod preempts. The cases are the kubelet's."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.pressure.pod_admission import (
    Rejection,
    Shortage,
    mismatch,
    shortages,
    under_pressure,
    victims_of,
    wrong_os,
)
from berth.tools.kubernetes.objects.structs import Node, Pod, read

from .objects import NODE_CRITICAL, NORMAL, SYSTEM_CRITICAL, container, pod, resources

MEMORY, DISK = "MemoryPressure", "DiskPressure"
TOLERATION = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}


@pytest.mark.parametrize(
    ("conditions", "admitted"),
    [
        ((), {"Guaranteed", "Burstable", "BestEffort"}),
        ((MEMORY,), {"Guaranteed", "Burstable"}),
        ((MEMORY, DISK), set()),
        ((DISK,), set()),
    ],
)
def test_pressure_rejects_pods_by_their_class(
    conditions: tuple[str, ...], admitted: set[str]
) -> None:
    classes = ("Guaranteed", "Burstable", "BestEffort")
    assert {qos for qos in classes if under_pressure(pod("p"), qos, conditions) is None} == admitted
    critical = pod("critical", SYSTEM_CRITICAL)
    assert under_pressure(critical, "BestEffort", conditions) is None


def test_a_pod_that_tolerates_the_taint_of_memory_pressure_is_admitted_under_it_alone() -> None:
    tolerant = pod("p", tolerations=[TOLERATION])
    assert under_pressure(tolerant, "BestEffort", (MEMORY,)) is None
    message = "The node had condition: [MemoryPressure DiskPressure]. "
    assert under_pressure(tolerant, "BestEffort", (MEMORY, DISK)) == Rejection("Evicted", message)


def node(**fields: Any) -> Node:
    allocatable = {"cpu": "2", "memory": "4Gi", "pods": "2", "ephemeral-storage": "10Gi"}
    document = {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "status": {"allocatable": {**allocatable, "example.com/gpu": "1"}},
        **fields,
    }
    return read(document, Node)


@pytest.mark.parametrize(
    ("requests", "used", "pods", "lacking"),
    [
        ({"cpu": 1000, "memory": 1}, {"cpu": 1000}, 1, []),
        ({"cpu": 1001}, {"cpu": 1000}, 1, [Shortage("cpu", 1001, 1000, 2000)]),
        ({"memory": 1 << 32}, {"memory": 1}, 1, [Shortage("memory", 1 << 32, 1, 1 << 32)]),
        ({}, {}, 2, [Shortage("pods", 1, 2, 2)]),
        (
            {"memory": 1 << 33, "cpu": 3000},
            {},
            0,
            [Shortage("cpu", 3000, 0, 2000), Shortage("memory", 1 << 33, 0, 1 << 32)],
        ),
        ({"example.com/gpu": 2}, {}, 0, [Shortage("example.com/gpu", 2, 0, 1)]),
        ({"example.com/other": 2, "cpu": 0}, {"cpu": 9999}, 0, []),
    ],
)
def test_a_node_lacks_what_exceeds_its_allocatable(
    requests: dict[str, int], used: dict[str, int], pods: int, lacking: list[Shortage]
) -> None:
    assert shortages(requests, used, pods, node()) == lacking


def test_a_node_that_says_nothing_yet_takes_as_many_pods_as_a_kubelet_by_default() -> None:
    new = node(status={})
    assert shortages({"cpu": 10**6}, {}, 109, new) == []
    assert shortages({}, {}, 110, new) == [Shortage("pods", 1, 110, 110)]


def test_a_rejection_names_the_resource_and_the_amounts() -> None:
    assert Shortage("cpu", 1001, 1000, 2000).rejection() == Rejection(
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 1001, used: 1000, capacity: 2000",
    )


def reason(pod_: Pod, node_: Node, *others: Pod) -> str:
    rejection = mismatch(pod_, node_, others)
    return "" if rejection is None else rejection.reason


def test_a_pod_must_still_match_its_node() -> None:
    def affine(zone: str) -> dict[str, Any]:
        expression = {"key": "zone", "operator": "In", "values": [zone]}
        terms = [{"matchExpressions": [expression]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return {"nodeAffinity": required}

    assert reason(pod("p"), node()) == ""
    assert reason(pod("p", nodeSelector={"zone": "a"}), node()) == ""
    assert reason(pod("p", nodeSelector={"zone": "b"}), node()) == "NodeAffinity"
    assert reason(pod("p", affinity=affine("a")), node()) == ""
    assert reason(pod("p", affinity=affine("b")), node()) == "NodeAffinity"


def test_a_host_port_is_claimed_once() -> None:
    def claims(*ports: dict[str, Any]) -> Pod:
        return pod("p", containers=[{**container("c"), "ports": list(ports)}])

    http = claims({"hostPort": 80, "containerPort": 80})
    assert reason(http, node(), http) == "NodePorts"
    assert reason(http, node(), claims({"hostPort": 81})) == ""
    assert reason(http, node(), claims({"hostPort": 80, "protocol": "UDP"})) == ""
    local = claims({"hostPort": 80, "hostIP": "127.0.0.1"})
    assert reason(http, node(), local) == "NodePorts"
    assert reason(claims({"hostPort": 80, "hostIP": "10.0.0.1"}), node(), local) == ""
    assert reason(pod("p"), node(), http) == ""
    port = {"hostPort": 80, "containerPort": 80}
    init = {**container("i"), "ports": [port]}
    sidecar = pod("p", initContainers=[{**init, "restartPolicy": "Always"}])
    assert reason(http, node(), sidecar) == reason(sidecar, node(), http) == "NodePorts"
    assert reason(http, node(), pod("p", initContainers=[init])) == ""


def test_a_pod_runs_on_its_operating_system_only() -> None:
    def problem(node_: Node, label: str = "", **spec: Any) -> str:
        labels = {"kubernetes.io/os": label} if label else {}
        document = {"metadata": {"name": "p", "labels": labels}, "spec": spec}
        rejection = wrong_os(read(document, Pod), node_)
        return "" if rejection is None else rejection.reason

    windows = node(metadata={"name": "n", "labels": {"kubernetes.io/os": "windows"}})
    assert problem(node()) == problem(windows) == ""
    assert problem(node(), os={"name": "linux"}) == ""
    assert problem(windows, os={"name": "windows"}) == ""
    assert problem(node(), os={"name": "windows"}) == "PodOSNotSupported"
    assert problem(windows, os={"name": "linux"}) == "PodOSNotSupported"
    assert problem(node(), "linux") == ""
    assert problem(node(), "windows") == "PodOSSelectorNodeLabelDoesNotMatch"


def test_a_pod_must_tolerate_taints_that_evict_unless_it_is_static() -> None:
    tainted = node(spec={"taints": [{"key": "gone", "effect": "NoExecute"}]})
    static = pod("p", annotations={"kubernetes.io/config.source": "file"})
    assert reason(pod("p"), tainted) == "TaintToleration"
    assert reason(pod("p", tolerations=[{"operator": "Exists"}]), tainted) == ""
    assert reason(static, tainted) == ""
    unschedulable = node(spec={"taints": [{"key": "x", "effect": "NoSchedule"}]})
    assert reason(pod("p"), unschedulable) == ""


QOS = {
    "best-effort": "BestEffort",
    "burstable": "Burstable",
    "burstable-high": "Burstable",
    "guaranteed": "Guaranteed",
    "guaranteed-high": "Guaranteed",
    "cluster-critical": "Burstable",
    "node-critical": "Burstable",
}
PODS = {
    "best-effort": pod("best-effort"),
    "burstable": pod("burstable", NORMAL, resources("100m", "100Mi")),
    "burstable-high": pod("burstable-high", NORMAL, resources("300m", "300Mi")),
    "guaranteed": pod("guaranteed", NORMAL, resources("100m", "100Mi")),
    "guaranteed-high": pod("guaranteed-high", NORMAL, resources("300m", "300Mi")),
    "cluster-critical": pod("cluster-critical", SYSTEM_CRITICAL, resources("100m", "100Mi")),
    "node-critical": pod("node-critical", NODE_CRITICAL, resources("100m", "100Mi")),
}
EVERYONE = ["cluster-critical", "best-effort", "burstable", "burstable-high"]
EVERYONE += ["guaranteed", "guaranteed-high"]


@pytest.mark.parametrize(
    ("preemptor", "others", "needs", "victims"),
    [
        ("cluster-critical", [], (0, 0, 0), []),
        ("cluster-critical", [], (0, 0, 1), None),
        ("cluster-critical", ["burstable"], (100, 100, 1), ["burstable"]),
        ("cluster-critical", ["burstable"], (200, 200, 2), None),
        ("cluster-critical", ["burstable", "best-effort"], (0, 0, 1), ["best-effort"]),
        ("cluster-critical", ["burstable", "guaranteed"], (0, 0, 1), ["burstable"]),
        (
            "cluster-critical",
            ["best-effort", "burstable-high", "burstable"],
            (100, 100, 0),
            ["burstable"],
        ),
        (
            "cluster-critical",
            ["best-effort", "burstable", "burstable-high"],
            (150, 150, 0),
            ["burstable-high"],
        ),
        ("cluster-critical", EVERYONE, (350, 350, 0), ["burstable", "burstable-high"]),
        ("cluster-critical", EVERYONE, (0, 550, 0), ["burstable-high", "guaranteed-high"]),
        ("node-critical", ["cluster-critical"], (100, 0, 0), ["cluster-critical"]),
        ("cluster-critical", ["node-critical"], (100, 0, 0), None),
        ("guaranteed", ["burstable"], (1, 1, 0), None),
    ],
)
def test_a_critical_pod_preempts_as_little_as_possible(
    preemptor: str, others: list[str], needs: tuple[int, int, int], victims: list[str] | None
) -> None:
    amounts = {"cpu": needs[0], "memory": needs[1] << 20, "pods": needs[2]}
    lacking = [Shortage(name, need, 0, 0) for name, need in amounts.items() if need]
    chosen = victims_of(
        PODS[preemptor],
        [PODS[name] for name in others],
        lacking,
        lambda other: QOS[other.metadata.name],
    )
    names = None if chosen is None else sorted(other.metadata.name for other in chosen)
    assert names == victims
