"""Nodes that a pod may go to, though their kubelets would refuse it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from berth.tools.views.commands.explain import explain

NODE = """
apiVersion: v1
kind: Node
metadata: {name: NAME, labels: {LABELS}}
status: {allocatable: {cpu: "CPU", memory: 8Gi, pods: "110"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {LABELS}}
spec: {OShostNetwork: false, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
"""
LINUX, WINDOWS = "kubernetes.io/os: linux", "kubernetes.io/os: windows"


def node(name: str, labels: str, cpu: str = "16") -> str:
    return NODE.replace("NAME", name).replace("LABELS", labels).replace("CPU", cpu)


def pod(os: str = "", labels: str = "") -> str:
    return POD.replace("OS", os).replace("LABELS", labels)


def warnings(*texts: str) -> list[str]:
    result = CliRunner().invoke(explain, ["-f", "-", "web", "-o", "json"], input="---".join(texts))
    assert result.exit_code == 0, result.output
    told: list[str] = json.loads(result.stdout).get("warnings", [])
    return told


@pytest.mark.parametrize(
    ("asking", "reason"),
    [
        (pod("os: {name: linux}, "), "PodOSNotSupported"),
        (pod(labels=LINUX), "PodOSSelectorNodeLabelDoesNotMatch"),
    ],
)
def test_another_system_is_warned_of(asking: str, reason: str) -> None:
    (warning,) = warnings(node("w", WINDOWS), node("l", LINUX, "4"), asking)
    assert warning == (
        f"would be refused by the kubelet of w ({reason}), as the node's system is windows, and "
        "the pod's linux. With the nodeSelector kubernetes.io/os: linux it fits on l"
    )


def test_no_selector_is_advised_that_does_not_help() -> None:
    (warning,) = warnings(node("w", WINDOWS), pod("os: {name: linux}, "))
    assert warning.endswith("and the pod's linux")


@pytest.mark.parametrize(
    ("labels", "asking"),
    [
        (LINUX, pod("os: {name: linux}, ")),
        (WINDOWS, pod()),
        ("", pod("os: {name: windows}, ")),  # the node's system is not known
    ],
)
def test_nothing_is_warned_of(labels: str, asking: str) -> None:
    assert warnings(node("m", labels), asking) == []


def test_the_warning_follows_the_conclusion() -> None:
    texts = node("w", WINDOWS), pod("os: {name: linux}, ")
    runner = CliRunner(env={"COLUMNS": "300"})
    lines = runner.invoke(explain, ["-f", "-", "web"], input="---".join(texts)).output.splitlines()
    assert lines[0] == "default/web goes to w"
    assert lines[1].startswith("default/web would be refused by the kubelet of w (PodOSNot")
