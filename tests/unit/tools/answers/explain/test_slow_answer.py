"""A command whose plugin does not return says where it is."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from berth.actors.configuration.plugin_files import offering
from berth.testing import Cluster, pod, run_virtually
from berth.tools.answers.explain import slow_answer
from berth.tools.views.commands.explain import explain
from berth.tools.views.commands.whatif import whatif
from tests.kit.processes import install

PLUGIN = """
import threading

from berth.plugin import *

TOLD = threading.Event()


class Slow(NodeFilterPlugin):
    name = "Slow"

    def filter_node(self, state, info, node):
        assert TOLD.wait(30)
        return SUCCESS
"""
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: x}]}
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Slow}]}}}]
"""


@pytest.mark.parametrize("command", [explain, whatif])
def test_a_plugin_that_does_not_return_is_named(
    command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, f"slow_in_{command.name}", PLUGIN, Slow=f"slow_in_{command.name}:Slow")
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slow_answer, "EVERY_SECONDS", 0.01)
    said: list[str] = []

    def say(text: str, *, err: bool) -> None:
        assert err
        said.append(text)
        if "Slow" in text:
            import_module(f"slow_in_{command.name}").TOLD.set()

    monkeypatch.setattr(slow_answer, "echo", say)
    result = CliRunner().invoke(command, ["-f", "cluster.yaml", "--config", "scheduler.yaml"])
    assert result.exit_code == 0, result.output
    (line,) = {line.partition(" s: ")[2] for line in said if "Slow" in line}
    assert line.startswith("in Filter of the plugin Slow about default/web (")


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("differs", ["pod", "call"])
@pytest.mark.parametrize("of_plugins", [True, False])
def test_a_plugin_that_never_returns_ends_the_command(
    same: bool, differs: str, of_plugins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many calls that are slow do not: each has been left at the next moment."""
    told = threading.Event()
    said: list[str] = []
    places = iter(range(100))

    def place(frame: object) -> dict[str, str]:
        number = next(places)
        if number == 2 * slow_answer.MOST_TIMES:
            told.set()
        pod = "default/web" if same or differs == "call" else f"default/web-{number}"
        return {"plugin": "Slow", "point": "Filter", "pod": pod, "at": "slow.py:3"}

    def end(status: int) -> None:
        said.append(f"ended with {status}")
        told.set()

    monkeypatch.setattr(slow_answer, "EVERY_SECONDS", 0.001)
    monkeypatch.setattr(slow_answer, "whereabouts", place)
    if differs == "call":
        call = object()
        monkeypatch.setattr(slow_answer, "caller", lambda _: call if same else object())
    monkeypatch.setattr(slow_answer, "echo", lambda text, *, err: said.append(text))
    monkeypatch.setattr(os, "_exit", end)
    with slow_answer.progress_reports(of_plugins=of_plugins):
        assert told.wait(10)
    expected = ["Error: the plugin Slow does not return", "ended with 2"]
    if same:
        assert said[slow_answer.MOST_TIMES - of_plugins :][:2] == expected
    else:
        assert "ended with 2" not in said
        assert of_plugins == (not said)


INTERRUPTED = """
import signal

from berth.plugin import *


class Interrupted(NodeFilterPlugin):
    name = "Interrupted"

    def filter_node(self, state, info, node):
        signal.raise_signal(signal.SIGINT)
        return SUCCESS
"""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(slow_answer, "echo", lambda text, *, err: lines.append(text))
    return lines


@pytest.mark.parametrize("command", [explain, whatif])
def test_ctrl_c_tells_in_which_plugin_the_command_was(
    command: click.Command, tmp_path: Path, said: list[str]
) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    options = [
        "-f",
        f"{tmp_path}/cluster.yaml",
        "--plugin",
        f"{tmp_path}/interrupted.py:Interrupted",
    ]
    result = CliRunner().invoke(command, options)
    assert result.exit_code == 1
    (line,) = said
    assert line.startswith("stopped in Filter of the plugin Interrupted about default/web (")


def test_ctrl_c_ends_a_coroutine_that_is_in_a_plugin(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    async def story() -> None:
        async with Cluster(nodes=1) as cluster:
            with slow_answer.stops_in_plugins():
                await cluster.add(pod("web"))
                await cluster.run_for(5)

    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    monkeypatch.setattr(os, "_exit", ended.append)
    with offering([f"{tmp_path}/interrupted.py:Interrupted"]), pytest.raises(KeyboardInterrupt):
        run_virtually(story)
    assert ended[0] == 1
    assert said[0].startswith("stopped in Filter of the plugin Interrupted about default/web (")
