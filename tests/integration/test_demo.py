"""`berth demo` as its user runs it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from tools.demo.command import demo

BIG = """
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "100"}}}]}
"""


def test_the_sample_is_placed() -> None:
    result = CliRunner().invoke(demo, ["-o", "json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["placed"], summary["pending"]) == (5, 0)
    node_of = {pod["name"]: pod["node"] for pod in summary["pods"]}
    assert node_of["report"] == "batch-1"
    assert node_of["web-1"] != node_of["web-2"]
    assert {pod["phase"] for pod in summary["pods"]} == {"Running"}


def test_what_does_not_fit_is_told_why(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text(BIG)
    result = CliRunner().invoke(demo, ["-f", str(tmp_path), "--nodes", "2", "-o", "json"])
    assert result.exit_code == 0, result.output
    (pod,) = json.loads(result.stdout)["pods"]
    assert (pod["node"], pod["phase"]) == ("", "Pending")
    assert pod["message"] == "0/2 nodes are available: 2 Insufficient cpu."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "no valid YAML"),
        ("kind: Pod", "expected an object with apiVersion, kind and metadata"),
        ("{apiVersion: v1, kind: Boat, metadata: {name: b}}", "unknown kind v1 Boat"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: B_d}}", 'metadata.name: Invalid value: "B_d"'),
        ("{apiVersion: v1, kind: Pod, metadata: {name: b}}", "spec.containers: Required value"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_one_clear_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    result = CliRunner().invoke(demo, ["-f", str(tmp_path / "m.yaml")])
    assert result.exit_code == 1
    assert problem in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.output


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(demo, ["--port", str(taken.getsockname()[1])])
    assert result.exit_code == 1
    assert "cannot start" in result.stderr.splitlines()[-1]
