"""Chaos among real processes: what a run tells, and that its processes end with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from random import Random
from typing import cast

import pytest
from click.testing import CliRunner

from berth.actors.client.rest import ApiError, Client
from berth.actors.scheduling.kube.core import Pod, PodSpec
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.testing import run_virtually
from berth.tools.cluster.faults.fault_files import check_all
from berth.tools.cluster.faults.vocabulary import FaultPlace
from berth.tools.testing.chaos.chaos import Chaos
from berth.tools.testing.chaos.chaos_command import chaos
from berth.tools.testing.chaos.lent_folder import lent_folder
from berth.tools.testing.chaos.program import ChaosProgram, ProgramError
from berth.tools.testing.chaos.troubles import troubles
from berth.tools.testing.chaos.workload import Workload


def test_a_seed_draws_faults_that_processes_can_have() -> None:
    drawn = list(islice(troubles(3, 2), 500))
    check_all((fault for _, fault in drawn), FaultPlace.CHAOS)
    assert {"kill", "stop", "server-restart-cold", "lose"} <= {fault.does for _, fault in drawn}
    assert drawn == list(islice(troubles(3, 2), 500))


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("faults: [{does: plugin-raise}]")
    (tmp_path / "g.yaml").write_text("faults: [{does: stop, number: 2}]")
    for asked, problem in (
        (["--time", "long"], "--time: expected a duration such as"),
        (["--time", "0s"], "--time: expected more than 0 and at most a year, got '0s'"),
        (["--faults", str(tmp_path / "f.yaml")], "plugin-raise is not for berth chaos"),
        (["--page", str(tmp_path / "no" / "page.html")], "--page: expected a folder to write to"),
        (["--faults", str(tmp_path / "g.yaml")], "faults[0].number: expected one of 2 schedulers"),
    ):
        result = CliRunner().invoke(chaos, asked)
        assert result.exit_code == 2
        assert problem in result.output


def test_a_pod_that_is_bound_twice_is_told_once(tmp_path: Path) -> None:
    run = Chaos(tmp_path, 1)
    for node in ("node-1", "node-2", "node-2", "node-1"):
        run._note(Pod(metadata=ObjectMeta(name="a", uid="u"), spec=PodSpec(node_name=node)))
    assert run._problems == ["a was bound to node-1 and to node-2"]


def test_a_process_that_crashed_is_told(tmp_path: Path) -> None:
    run = Chaos(tmp_path, 1)
    (tmp_path / "scheduler-1.log").write_text(
        "  + Exception Group Traceback (most recent call last):"
    )
    run._check_crashes()
    assert run._problems == ["scheduler-1 crashed: scheduler-1.log has a traceback"]


def test_a_folder_that_cannot_be_made_is_told() -> None:
    with pytest.raises(OSError, match="no temporary folder"), lent_folder("no/such/folder-"):
        pass


async def test_a_leash_that_fails_is_told(tmp_path: Path) -> None:
    program = ChaosProgram("apiserver", tmp_path / "no" / "folder", ("version",), "berth")
    with pytest.raises(ProgramError, match="apiserver did not start"):
        await program.start()


def test_a_server_that_takes_no_nodes_ends_the_run() -> None:
    class Refusing:
        async def call(self, *_: object) -> None:
            raise ApiError(500, "", "no space left on device")

    async def story() -> None:
        with pytest.raises(ProgramError, match="takes no nodes: no space left on device"):
            await Workload(cast("Client", Refusing()), Random(1), 3).begin()

    run_virtually(story)


def test_a_leash_says_nothing_when_somebody_interrupts(tmp_path: Path) -> None:
    leash = [sys.executable, "-m", "berth.tools.testing.chaos.leash", str(tmp_path / "output")]
    with subprocess.Popen(
        [*leash, "sleep", "60"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)  # ends its input
    assert said == b""


@pytest.mark.full("processes")
def test_nothing_is_lost(tmp_path: Path) -> None:
    """A short run, in which every request to bind may lose its answer, and all watches end once."""
    away = "{does: server-restart, begin: 4, seconds: 0.2}"
    lost = "{does: unanswered, chance: 0.3, paths: [/binding]}"
    killed = "{does: kill, number: 1, begin: 1}"
    (tmp_path / "f.yaml").write_text(f"faults: [{lost}, {away}, {killed}]")
    page = tmp_path / "chaos.html"
    asked = ["--time", "8s", "--faults", str(tmp_path / "f.yaml"), "--page", str(page)]
    result = CliRunner().invoke(chaos, [*asked, "-o", "json"])
    told = json.loads(result.stdout)
    assert (result.exit_code, told["problems"], result.stderr) == (0, [], "")
    assert told["bound"] > 5
    assert told["met"]["unanswered"]
    assert told["starts"]["scheduler-1"] > 1
    assert "nothing is lost" in page.read_text()


@pytest.mark.full("processes")
def test_whoever_is_gone_before_a_leash_has_begun_leaves_no_process(tmp_path: Path) -> None:
    leash = [sys.executable, "-m", "berth.tools.testing.chaos.leash", str(tmp_path / "log")]
    says_its_number = [
        sys.executable,
        "-c",
        "import os, time; print(os.getpid(), flush=True); time.sleep(600)",
    ]
    started = subprocess.Popen(
        [*leash, *says_its_number], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert started.stdout is not None
    assert started.stdin is not None
    started.stdout.close()
    while not (said := (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""):
        time.sleep(0.01)
    started.stdin.close()
    started.wait(30)
    with pytest.raises(ProcessLookupError):
        os.kill(int(said), 0)


@pytest.mark.full("processes")
def test_a_process_ends_with_whoever_started_it(tmp_path: Path) -> None:
    leash = [sys.executable, "-m", "berth.tools.testing.chaos.leash", str(tmp_path / "log")]
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    started = subprocess.Popen([*leash, *sleeper], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdin is not None
    pid = int(started.stdout.readline())
    os.kill(pid, signal.SIGSTOP)
    started.stdin.close()
    assert started.wait(30) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    started.stdout.close()
