"""`berth demo` as its user runs it."""

from __future__ import annotations

import json
import re
import socket
from collections import defaultdict
from pathlib import Path

import pytest
from berth.tools.demo.command import demo
from berth.tools.hollow.kubelet import hollow_node
from click.testing import CliRunner

ZONE = "topology.kubernetes.io/zone"
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
    assert (summary["placed"], summary["pending"]) == (13, 0)
    nodes: dict[str, list[str]] = defaultdict(list)
    for pod in summary["pods"]:
        nodes[re.split(r"-\w{5}$|-\w{10}-\w{5}$|-\d$", pod["name"])[0]].append(pod["node"])
        assert pod["phase"] in ("Running", "Succeeded")

    def zones(name: str) -> list[str]:
        return [
            hollow_node(int(node.removeprefix("node-")))["metadata"]["labels"][ZONE]
            for node in nodes[name]
        ]

    assert sorted(zones("web")) == ["zone-a", "zone-b", "zone-c"]
    assert len(set(nodes["database"])) == len(set(nodes["gateway"])) == 2
    assert set(zones("cache")) <= set(zones("database"))
    assert nodes["report"] == ["batch-1"]
    assert len(nodes["thumbnails"]) == 3


def test_the_kubeconfig_to_use_is_told_and_goes_with_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text(BIG)
    arguments = ["-f", str(tmp_path / "big.yaml"), "--nodes", "1"]
    kept = tmp_path / "kept"
    for options, stays in (([], False), (["--kubeconfig-out", str(kept)], True)):
        told = CliRunner().invoke(demo, [*arguments, *options]).stderr
        found = re.fullmatch(
            r"API server at (\S+); try: kubectl --kubeconfig (\S+) get pods -o wide\n", told
        )
        assert found is not None, told
        assert Path(found[2]).exists() == stays
        if stays:
            assert json.loads(kept.read_text())["clusters"][0]["cluster"]["server"] == found[1]


def test_a_kubeconfig_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(demo, ["--kubeconfig-out", str(tmp_path / "none" / "here")])
    assert result.exit_code == 1
    assert (
        result.stderr == f"Error: cannot start: {tmp_path}/none/here: No such file or directory\n"
    )


def test_what_does_not_fit_is_told_why(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text(BIG)
    result = CliRunner().invoke(demo, ["-f", str(tmp_path), "--nodes", "2", "-o", "json"])
    assert result.exit_code == 0, result.output
    (pod,) = json.loads(result.stdout)["pods"]
    assert (pod["node"], pod["phase"]) == ("", "Pending")
    assert pod["message"].startswith("0/2 nodes are available: 2 Insufficient cpu. ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "m.yaml: cannot be read: line 2: did not find expected node content"),
        ("kind: Pod", "expected an object with apiVersion, kind and metadata"),
        ("{apiVersion: v1, kind: Boat, metadata: {name: b}}", "unknown kind v1 Boat"),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: B_d}}",
            'metadata.name: Invalid value: "B_d"',
        ),
        ("{apiVersion: v1, kind: Pod, metadata: {name: b}}", "spec.containers: Required value"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_one_clear_line(
    tmp_path: Path, text: str, problem: str
) -> None:
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
