"""Runs the examples of the documentation: writes their files, installs their packages and compares
the output of their commands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from berth.actors.scheduling.decision.registry import build_profiles
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.load import from_mapping
from berth.plugin import Plugin, Pod, PodInfo
from berth.tools.answers.explain.decision import Decision, decide
from berth.tools.bench.command import bench
from berth.tools.bench.measure import Result
from tests.docs.blocks import (
    BENCH,
    EXPLAIN,
    PLUGINS,
    PREEMPTION,
    ROOT,
    WHATIF,
    Block,
    blocks,
    exchanges,
    install,
    preview,
    run_berth,
    write_files,
)
from tests.kit.handle import NoApi
from tests.kit.snapshots import snapshot_of

README = ROOT / "README.md"
SEVERAL_FILES = 5


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    write_files(EXPLAIN, folder)
    write_files(PREEMPTION, folder)
    return folder


@pytest.mark.full
@pytest.mark.parametrize(
    "block", [*blocks(EXPLAIN, "console"), *blocks(PREEMPTION, "console")], ids=str
)
def test_explain_prints_what_the_page_shows(block: Block, explained: Path) -> None:
    for command, printed in exchanges(block):
        assert run_berth(command, explained) == printed


@pytest.mark.full
@pytest.mark.parametrize("block", blocks(WHATIF, "console"), ids=str)
def test_a_what_if_prints_what_the_page_shows(block: Block, tmp_path: Path) -> None:
    write_files(WHATIF, tmp_path)
    for command, printed in exchanges(block):
        assert run_berth(command, tmp_path) == printed


@pytest.mark.full
def test_the_preview_is_the_preemption_part_of_explain(explained: Path) -> None:
    ((command, _),) = exchanges(blocks(PREEMPTION, "console")[0])
    (shown,) = blocks(PREEMPTION, "json")
    assert preview(command, explained) == shown.text
    careful = explained / "careful.yaml"
    careful.write_text(
        next(b.text for b in blocks(PREEMPTION, "yaml") if "neverBreakBudgets: true" in b.text)
    )
    assert json.loads(preview(f"{command} --config careful.yaml", explained))[
        "candidates"
    ].keys() == {"b"}


@pytest.mark.full
def test_the_workload_of_the_page_is_measured(tmp_path: Path) -> None:
    write_files(BENCH, tmp_path)
    done = CliRunner().invoke(
        bench, [str(tmp_path / "small.yaml"), "--api", "inproc", "-o", "json"]
    )
    assert done.exit_code == 0, done.output
    (result,) = msgspec.json.decode(done.stdout, type=list[Result])
    assert (result.name, result.pods) == ("Small/50Nodes", 200)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder with the page's files, and the folder into which pip installed their package."""
    folder, site = tmp_path_factory.mktemp("plugins"), tmp_path_factory.mktemp("site")
    write_files(PLUGINS, folder)
    assert len(list(folder.rglob("*.*"))) >= SEVERAL_FILES
    install(folder, site)
    return folder, site


@pytest.mark.full
@pytest.mark.parametrize("block", blocks(PLUGINS, "console"), ids=str)
def test_plugins_decide_as_the_page_shows(block: Block, packaged: tuple[Path, Path]) -> None:
    for command, printed in exchanges(block):
        assert run_berth(command, *packaged) == printed


def test_the_first_plugin_is_short() -> None:
    first = blocks(PLUGINS, "python")[0]
    body = first.text[first.text.index("class ") :]
    assert len([line for line in body.splitlines() if line]) <= 15


def test_the_readme_has_a_plugin_that_decides() -> None:
    (block,) = blocks(README, "python")
    namespace: dict[str, object] = {}
    exec(compile(block.text, str(block), "exec"), namespace)
    (plugin,) = (
        thing
        for thing in namespace.values()
        if isinstance(thing, type) and issubclass(thing, Plugin) and thing.__module__ == "builtins"
    )
    configuration = from_mapping(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {"plugins": {"multiPoint": {"enabled": [{"name": plugin.name, "weight": 100}]}}}
            ],
        }
    )
    profiles = build_profiles(configuration, {**IN_TREE, plugin.name: plugin}, NoApi())
    nodes = [
        {"metadata": {"name": "busy"}, "status": {"allocatable": {"cpu": "64", "pods": "10"}}},
        {"metadata": {"name": "quiet"}, "status": {"allocatable": {"cpu": "1", "pods": "10"}}},
    ]
    sitting = {
        "metadata": {"name": "p", "namespace": "d", "uid": "1"},
        "spec": {"nodeName": "busy"},
    }
    objects: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "Node", **node} for node in nodes
    ]
    snapshot = snapshot_of(
        [*objects, {"apiVersion": "v1", "kind": "Pod", **sitting}], profiles.keys()
    )
    decision = decide(profiles["default-scheduler"], PodInfo(Pod()), snapshot)
    assert isinstance(decision, Decision), decision
    assert decision.hosts == ["quiet"]
    assert plugin.name in decision.score


@pytest.mark.full
def test_the_test_of_a_plugin_passes(tmp_path: Path) -> None:
    write_files(PLUGINS, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_gang.py"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
