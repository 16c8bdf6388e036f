"""The reloader reads its file at SIGHUP; what it may change, and what it names and keeps."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import structlog

from berth.actors.configuration.file import ConfigurationFile
from berth.actors.runtime.clock import SystemClock
from berth.actors.wiring.reloader import Reloader, Swapped, effective, with_live_fields
from berth.config.load import from_mapping
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from tests.golden.configurations import HEAD


def read(**fields: object) -> KubeSchedulerConfiguration:
    return from_mapping({"apiVersion": API_VERSION, "kind": KIND, **fields})


def test_only_profiles_and_backoff_are_changed_while_it_runs() -> None:
    running = read(parallelism=3)
    new = read(
        parallelism=4,
        leaderElection={"resourceName": "x"},
        extenders=[{"urlPrefix": "http://h"}],
        podMaxBackoffSeconds=30,
        profiles=[{"schedulerName": "a"}],
    )
    found, kept = with_live_fields(running, new)
    assert found == read(parallelism=3, podMaxBackoffSeconds=30, profiles=[{"schedulerName": "a"}])
    assert kept == ("parallelism", "leaderElection", "extenders")


def test_a_profile_has_what_it_gets_from_the_rest_of_the_configuration() -> None:
    found = effective(
        read(
            percentageOfNodesToScore=30,
            profiles=[
                {"schedulerName": "a"},
                {"schedulerName": "b", "percentageOfNodesToScore": 0},
            ],
        )
    )
    assert {name: one.percentage_of_nodes_to_score for name, one in found.items()} == {
        "a": 30,
        "b": 0,
    }


async def test_a_signal_reads_the_file_also_if_it_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEAD)
    asked: list[KubeSchedulerConfiguration] = []
    done = anyio.Event()

    async def swap(new: KubeSchedulerConfiguration) -> Swapped:
        asked.append(new)
        done.set()
        return Swapped()

    file = ConfigurationFile(path)
    reloader = Reloader(file, lambda: read(parallelism=3), swap, SystemClock())
    async with anyio.create_task_group() as group:
        await group.start(reloader.run)
        os.kill(os.getpid(), signal.SIGHUP)
        with anyio.fail_after(5):
            await done.wait()
        group.cancel_scope.cancel()
    assert asked == [read(parallelism=3)]


async def test_a_signal_without_a_file_is_answered_in_the_log() -> None:
    async def swap(_: KubeSchedulerConfiguration) -> Swapped:
        raise AssertionError("there is nothing to swap")

    with structlog.testing.capture_logs() as lines:
        reloader = Reloader(None, read, swap, SystemClock())
        async with anyio.create_task_group() as group:
            await group.start(reloader.run)
            os.kill(os.getpid(), signal.SIGHUP)
            with anyio.fail_after(5):
                while not lines:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    (line,) = lines
    assert line["error"] == "there is no configuration file"
