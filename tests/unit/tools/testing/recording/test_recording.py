"""Recordings: what is in them, and how another scheduler decides them."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from berth.testing import ServedCluster, node, nodes, pod
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.testing.recording import record_command
from berth.tools.testing.recording.record_command import record, replay
from berth.tools.testing.recording.recording import (
    BY_NAME,
    RecordedChange,
    RecordingError,
    lines_of,
    read_recording,
    without_secrets,
)
from berth.tools.testing.recording.replayed import replayed

Document = dict[str, Any]
MOST_ALLOCATED = {
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated"}},
                }
            ]
        }
    ]
}


def change(at: float, document: Document, node_name: str = "", **more: Any) -> RecordedChange:
    uid = document["metadata"]["name"]
    document = defaulted(BY_NAME[document["kind"]], document)
    spec = document["spec"] if not node_name else {**document["spec"], "nodeName": node_name}
    metadata = {"namespace": "default", **document["metadata"], "uid": uid}
    if document["kind"] == "Node":
        metadata.pop("namespace")
    return RecordedChange(
        at, document["kind"], {**document, "metadata": metadata, "spec": spec}, **more
    )


def story() -> list[RecordedChange]:
    """A pod that uses half of a node, then one that was put beside it, and one that did not fit."""
    machines = [{**each, "spec": {}} for each in nodes(2, cpu=4)]
    full = {**node("small", cpu=0.5), "spec": {}}
    first, second, big = pod("first", cpu=2), pod("second", cpu=1), pod("big", cpu=3)
    return [
        *(change(0, each) for each in (*machines, full)),
        change(1, first, "node-1"),
        change(2, second),
        change(3, second, "node-2"),
        change(4, big),
        change(5, big, "small"),
        change(50, first, gone=True),
    ]


def test_pods_are_decided_again() -> None:
    compared = {each.name: each for each in replayed(story())}
    assert compared.keys() == {"default/second", "default/big"}
    assert compared["default/second"].is_same
    big = compared["default/big"]
    assert (big.recorded, big.here, big.reason) == ("small", "node-2", "small: Insufficient cpu")


def test_another_configuration_gives_reasons() -> None:
    (second, _) = replayed(story(), MOST_ALLOCATED)
    assert (second.recorded, second.here) == ("node-2", "node-1")
    assert second.reason.startswith("node-1 scores ")


def test_a_pod_that_fits_nowhere_says_why() -> None:
    changes = [each for each in story() if each.object["metadata"]["name"] != "node-2"]
    (_, big) = replayed(changes)
    assert big.here == "node-1"  # once the first pod is gone
    (_, big) = replayed([each for each in changes if not each.gone])
    assert (big.here, "Insufficient cpu" in big.reason) == ("", True)


def test_fields_and_values_that_no_rule_here_knows_are_replayed() -> None:
    changes = story()
    for each in changes:
        if each.kind == "Pod":
            each.object["spec"]["fieldOfAnotherRelease"] = {"a": 1}
        else:
            each.object["metadata"]["labels"]["of/another/release"] = "a"
    assert replayed(changes, MOST_ALLOCATED) == replayed(story(), MOST_ALLOCATED)


def test_what_containers_are_told_is_left_out() -> None:
    secret = pod("a")
    sends = {"httpGet": {"port": 80, "httpHeaders": [{"name": "Key", "value": "s3cret"}]}}
    told = {"env": [{"name": "KEY", "value": "s3cret"}], "args": ["-p"], "command": ["s3cret"]}
    asked = dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), sends)
    secret["spec"]["containers"][0] |= {**told, **asked, "lifecycle": {"postStart": sends}}
    secret["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "app", **told}]
    secret["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": "s3cret"
    }
    secret["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    kept = without_secrets(secret)
    assert "s3cret" not in json.dumps(kept)
    assert kept["spec"]["containers"] == [{"name": "main", "image": "app"}]
    workload = {"metadata": {}, "spec": {"template": {"spec": secret["spec"]}}}
    assert "s3cret" not in json.dumps(without_secrets(workload))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x", "line 1"),
        ('{"at": 0, "kind": "Secret", "object": {}}', "unknown kind 'Secret'"),
        ('{"at": 1e300, "kind": "Pod", "object": {}}', "Expected `float` <= 31622400.0"),
        ('{"at": -1, "kind": "Pod", "object": {}}', "Expected `float` >= 0.0"),
        ('{"at": 0, "kind": "Node", "object": {}}', "line 1: object: .* `metadata`"),
        ('{"at": 0, "kind": "Node", "object": {"metadata": {"name": "n"}}}', "line 1: .* `uid`"),
        ('{"at": 0, "kind": "Pod", "object": {"metadata": {"name": "p", "uid": "u"}}}', "`spec`"),
        (lines_of(story()).decode() + '{"at": "soon"}', "line 10"),
        (lines_of(story()).decode() + '{"at": 1\n', "line 10"),
        ("", "expected a change in JSON on each line, got an empty file"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "r").write_text(text)
    with pytest.raises(RecordingError, match=problem):
        read_recording(tmp_path / "r")
    assert CliRunner().invoke(replay, [str(tmp_path / "r")]).exit_code == 2


def test_a_recording_whose_last_line_is_cut_is_read_up_to_it(tmp_path: Path) -> None:
    file = tmp_path / "cluster.rec"
    file.write_bytes(lines_of(story())[:-20])
    assert read_recording(file).changes == tuple(story()[:-1])
    result = CliRunner().invoke(replay, [str(file), "-o", "json"])
    assert result.stderr == f"{file}: line 9 is cut off; replayed what comes before it\n"
    assert len(json.loads(result.stdout)["pods"]) == 2


def test_a_recording_overwrites_nothing_unasked(tmp_path: Path) -> None:
    there, nowhere = tmp_path / "there", tmp_path / "no" / "folder"
    there.write_text("of another day")
    with ServedCluster() as served:
        asked = ["--kubeconfig", str(served.kubeconfig), "--time", "1ms"]
        for file, problem in (
            (there, "it exists; --force overwrites it"),
            (nowhere, "No such file or directory"),
        ):
            refused = CliRunner().invoke(record, [*asked, str(file)])
            assert (refused.exit_code, f"{file}: {problem}" in refused.output) == (2, True)
        assert there.read_text() == "of another day"
        assert CliRunner().invoke(record, [*asked, "--force", str(there)]).exit_code == 0
    assert "of another day" not in there.read_text()


def test_the_command_compares(tmp_path: Path) -> None:
    file = tmp_path / "cluster.rec"
    file.write_bytes(lines_of(story()))
    result = CliRunner().invoke(replay, [str(file)])
    assert result.exit_code == 1
    assert "2 pods: 1 as recorded, 1 otherwise" in result.output
    assert "Insufficient cpu" in result.output


MOVER = """
from berth.plugin import CycleState, NodeInfo, NodeScorePlugin, PodInfo

class Mover(NodeScorePlugin):
    name = "Mover"

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 100 if node.name == "node-1" else 0
"""


def test_a_plugin_moves_pods_and_each_move_has_a_reason(tmp_path: Path) -> None:
    recording, plugin = tmp_path / "cluster.rec", tmp_path / "mover.py"
    apart = [
        *(change(0, {**each, "spec": {}}) for each in nodes(3, cpu=4)),
        *(change(1, pod(name, cpu=1)) for name in "abc"),
        *(change(2, pod(name, cpu=1), f"node-{n}") for n, name in enumerate("abc", 1)),
        change(3, pod("late", cpu=2)),
    ]
    recording.write_bytes(lines_of(apart))
    plugin.write_text(MOVER)
    asked = [str(recording), "-o", "json", "--emulated-version", "1.37"]
    told = CliRunner().invoke(replay, [*asked, "--plugin", f"{plugin}:Mover"])
    assert told.exit_code == 1, told.output
    compared = {each["name"]: each for each in json.loads(told.stdout)["pods"]}
    assert {name: each["here"] for name, each in compared.items() if "late" not in name} == {
        "default/a": "node-1",
        "default/b": "node-1",
        "default/c": "node-1",
    }
    assert compared["default/a"]["reason"] == ""
    for name in ("default/b", "default/c"):
        assert compared[name]["reason"].endswith("most by Mover (100 and 0)")
    assert "pending until" in compared["default/late"]["reason"]


def test_options_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    file = tmp_path / "cluster.rec"
    file.write_bytes(lines_of(story()))
    for wrong in (
        ["--plugin", "nothing.py:Price"],
        ["--emulated-version", "1.12"],
        ["--feature-gates", "Nothing=true"],
    ):
        result = CliRunner().invoke(replay, [str(file), *wrong])
        assert (result.exit_code, "Error" in result.output) == (2, True), result.output


@pytest.mark.full("waits")
def test_a_cluster_is_recorded_and_decided_alike(tmp_path: Path) -> None:
    file = tmp_path / "cluster.rec"
    with ServedCluster(nodes=3) as served:
        served.call(lambda cluster: cluster.add(pod("early", cpu=1)))
        asked = ["--kubeconfig", str(served.kubeconfig), "--time", "4s", str(file)]
        import threading

        late = threading.Timer(
            2, lambda: served.call(lambda cluster: cluster.add(pod("late", cpu=8)))
        )
        late.start()
        result = CliRunner().invoke(record, asked)
        late.join()
    assert result.exit_code == 0, result.output
    compared = replayed(read_recording(file).changes)
    assert [each.name for each in compared] == ["default/late"]
    assert compared[0].recorded


@pytest.mark.parametrize("ended_by", ["its limit", "Ctrl-C"])
def test_each_line_is_in_the_file_while_the_recording_goes_on(
    ended_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cluster.rec"
    seen: list[bytes] = []

    class OneLine:
        changes = 1

        def __init__(self, _client: object, write: Callable[[bytes], object], _most: int) -> None:
            self.write, self.is_full = write, anyio.Event()

        async def run(self) -> None:
            self.write(b"a line\n")
            seen.append(file.read_bytes())
            if ended_by == "Ctrl-C":
                signal.raise_signal(signal.SIGINT)
            else:
                self.is_full.set()

    monkeypatch.setattr(record_command, "Recorder", OneLine)
    with ServedCluster() as served:
        result = CliRunner().invoke(record, ["--kubeconfig", str(served.kubeconfig), str(file)])
    assert (result.exit_code, seen) == (0, [b"a line\n"]), result.output
    assert result.output == f"1 changes in {file}\n"
