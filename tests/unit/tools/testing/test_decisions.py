"""One decision without a cluster."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

import pytest

from berth.config.load import ConfigError
from berth.testing import (
    ApiError,
    BlockingCluster,
    ManifestError,
    decide,
    deployment,
    node,
    nodes,
    pod,
)
from berth.tools.answers.explain.cluster_source import SourceError


def test_a_request_of_an_extended_resource_has_the_limit_that_a_cluster_wants() -> None:
    with_gpu = node("b", resources={"example.com/gpu": 1})
    asks = pod("a", requests={"example.com/gpu": 1, "memory": "1Gi"})
    assert decide(asks, [node("a"), with_gpu]).node == "b"
    assert asks["spec"]["containers"][0]["resources"]["limits"] == {"example.com/gpu": "1"}


def test_a_pod_goes_where_the_scores_are_highest() -> None:
    decision = decide(pod("a", cpu=2), nodes(2, cpu=4), pod("b", cpu=1, node="node-1"))
    assert decision.node == "node-2"
    assert not decision.message
    assert decision.scores["node-2"] > decision.scores["node-1"]
    assert set(decision.scores_by_plugin) >= {"NodeResourcesFit", "TaintToleration"}
    assert repr(decision) == "<on node-2>"


def test_a_single_node_needs_no_list() -> None:
    assert decide(pod("a", cpu=2), node("n", cpu=4)).node == "n"


def test_each_node_says_why_a_pod_does_not_fit() -> None:
    rooms = [node("small", cpu=1), node("tainted", taints=["gpu=a:NoSchedule"])]
    decision = decide(pod("a", cpu=2), rooms)
    assert not decision.node
    assert decision.message.startswith("0/2 nodes are available")
    assert decision.rejections == {
        "small": ["Insufficient cpu"],
        "tainted": ["node(s) had untolerated taint(s)"],
    }
    assert "pending" in repr(decision)


def test_preemption_names_the_node_and_the_victims() -> None:
    low = pod("low", cpu=3, node="node-1", priority=0)
    decision = decide(pod("high", cpu=3, priority=10), nodes(1, cpu=4), low)
    assert (decision.nominated, decision.victims) == ("node-1", ["default/low"])


def test_a_configuration_is_read_once_and_counts() -> None:
    packing = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": packing}}
    config = {"profiles": [{"pluginConfig": [fit]}]}
    objects = [*nodes(2, cpu=8), pod("b", cpu=2, node="node-1")]
    assert decide(pod("a", cpu=2), objects).node == "node-2"
    scores = decide(pod("a", cpu=2), objects, config=config).scores_by_plugin["NodeResourcesFit"]
    assert scores["node-1"] > scores["node-2"]
    with pytest.raises(ConfigError):
        decide(pod("a"), nodes(1), config={"parallelism": -1})


def test_a_configuration_file_counts_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    file.write_text(head)
    assert decide(pod("a"), nodes(1), config=file).node == "node-1"
    file.write_text(f"{head}profiles: [{{schedulerName: another}}]\n")
    with pytest.raises(SourceError, match="another"):
        decide(pod("a"), nodes(1), config=file)


def test_the_version_counts() -> None:
    empty = pod("a", cpu=2, resources={"requests": {}})
    assert decide(empty, nodes(1), version="1.37").node == "node-1"
    with pytest.raises(ValueError, match=r"2\.0"):
        decide(empty, nodes(1), version="2.0")


def test_what_no_api_server_would_take_is_refused() -> None:
    rooms: Any = nodes(1)
    with pytest.raises(
        ManifestError, match=r'decide, Pod default/a: unknown field "spec.node_selec'
    ):
        decide(pod("a", node_selector={"a": "b"}), rooms)
    with pytest.raises(ManifestError, match="Node n: unknown field"):
        decide(pod("a"), node("n", unscheduleable=True))
    with pytest.raises(ManifestError, match="Pod default/b: unknown field"):
        decide(pod("a"), rooms, pod("b", nodename="node-1"))
    with pytest.raises(TypeError, match="expected a Pod, got Deployment default/web"):
        decide(deployment("web"), rooms)
    with pytest.raises(TypeError, match="expected a Pod as a mapping, got \\["):
        decide(rooms, pod("a"))


def test_values_are_refused_in_the_words_of_the_cluster() -> None:
    tolerations = [{"key": "k", "operator": "Is"}]
    wrong: dict[str, Any] = {
        r'Pod "A_b" is invalid: metadata.name: Invalid value: "A_b"': pod("A_b"),
        r'requests\[cpu\]: Invalid value: "-1": must be greater than or': pod("a", cpu=-1),
        r"tolerations.*operator: Unsupported value": pod("a", tolerations=tolerations),
        r"spec.containers: Required value": pod("a", containers=[]),
        r'Node "n" is invalid: .*Invalid value: "-2"': node("n", cpu=-2),
        r'Unsupported value: "Never"': node("n", taints=["gpu=a:Never"]),
    }
    with BlockingCluster() as cluster:
        for why, document in wrong.items():
            with pytest.raises(ApiError, match=why) as refused:
                cluster.add(document)
            asked = [document, []] if document["kind"] == "Pod" else [pod("a"), document]
            for objects in (asked, [pod("a"), [], document]):
                with pytest.raises(ApiError) as told:
                    decide(*objects)
                assert (str(told.value), told.value.code) == (str(refused.value), 422)


def test_what_is_no_object_is_refused() -> None:
    unusual: Any = [[3], nodes(1)]
    with pytest.raises(TypeError, match="expected an object as a mapping, got 3"):
        decide(pod("a"), unusual[0])
    with pytest.raises(TypeError, match=r"expected an object as a mapping, got \[\{"):
        decide(pod("a"), nodes(1), unusual[1])
    with pytest.raises(ManifestError, match="expected an object with apiVersion and kind"):
        decide(pod("a"), {"metadata": {"name": "n"}})
    with pytest.raises(ManifestError, match="unknown kind v2 Node: expected v1"):
        decide(pod("a"), {**node("n"), "apiVersion": "v2"})
    assert decide(pod("a"), nodes(1), {"apiVersion": "cars/v1", "kind": "Wheel"}).node


def test_a_gated_pod_is_not_decided_about() -> None:
    decision = decide(pod("a", schedulingGates=[{"name": "quota"}]), nodes(1))
    assert (decision.node, decision.message) == ("", "waiting for scheduling gates: [quota]")


@pytest.mark.parametrize(
    "value", [object(), b"x", "half-\udcff", nan, (1,), {1}], ids=lambda value: type(value).__name__
)
def test_a_value_that_json_does_not_have_is_told_with_its_field(value: Any) -> None:
    labels: Any = {"a": value}
    with pytest.raises((TypeError, ManifestError), match=r"metadata\.labels\.a: "):
        decide(pod("x", labels=labels), node("n"))
    with pytest.raises((TypeError, ManifestError), match=r"metadata\.labels\.a: "):
        decide(pod("x"), node("n", labels=labels))
