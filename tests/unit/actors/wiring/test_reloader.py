"""The reloader reads its file at SIGHUP."""

from __future__ import annotations

import os
import signal
import threading
from errno import EMFILE
from pathlib import Path

import anyio
import pytest

from berth.actors.configuration.file import ConfigurationFile
from berth.actors.runtime.clock import SystemClock
from berth.actors.wiring import reloader as reloader_module
from berth.actors.wiring.reloader import Reloader
from berth.actors.wiring.swap import SwapResult
from berth.config.load import from_mapping
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from tests.golden.configurations import HEAD
from tests.kit.logs import capture_logs
from tests.kit.tasks import started


class HastyClock(SystemClock):
    """Sleeps a millisecond instead of any time, and counts how often."""

    def __init__(self) -> None:
        self.slept = 0

    async def sleep(self, seconds: float) -> None:
        self.slept += 1
        await anyio.sleep(0.001)


def read(**fields: object) -> KubeSchedulerConfiguration:
    return from_mapping({"apiVersion": API_VERSION, "kind": KIND, **fields})


async def test_a_signal_reads_the_file_also_if_it_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEAD)
    swaps: list[KubeSchedulerConfiguration] = []
    done = anyio.Event()

    async def swap(new: KubeSchedulerConfiguration) -> SwapResult:
        swaps.append(new)
        done.set()
        return SwapResult(new)

    file = ConfigurationFile(path)
    reloader = Reloader(file, swap, SystemClock())
    async with started(reloader.run):
        os.kill(os.getpid(), signal.SIGHUP)
        with anyio.fail_after(5):
            await done.wait()
    assert swaps == [read()]


async def test_a_file_that_hangs_holds_up_nobody() -> None:
    class Hanging(ConfigurationFile):
        def read(self) -> bytes:
            reading.set()
            assert over.wait(10)
            return HEAD.encode()

    async def swap(new: KubeSchedulerConfiguration) -> SwapResult:
        return SwapResult(new)

    reading, over = threading.Event(), threading.Event()
    file = Hanging("scheduler.yaml")
    async with started(Reloader(file, swap, SystemClock()).run):
        with anyio.fail_after(5):
            while not reading.is_set():
                await anyio.sleep(0.001)
    over.set()


async def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    os.mkfifo(path)

    async def swap(_: KubeSchedulerConfiguration) -> SwapResult:
        raise AssertionError("there is nothing to swap")

    file, clock = ConfigurationFile(path), HastyClock()
    file.parse(HEAD.encode())
    with capture_logs() as lines:
        async with started(Reloader(file, swap, clock).run):
            with anyio.fail_after(5):
                while clock.slept < 3:
                    await anyio.sleep(0.001)
            assert lines == []
            os.kill(os.getpid(), signal.SIGHUP)
            with anyio.fail_after(5):
                while not lines:
                    await anyio.sleep(0.001)
    assert lines[0]["error"].startswith("expected a regular file")


async def test_a_signal_without_a_file_is_answered_in_the_log() -> None:
    async def swap(_: KubeSchedulerConfiguration) -> SwapResult:
        raise AssertionError("there is nothing to swap")

    with capture_logs() as lines:
        reloader = Reloader(None, swap, SystemClock())
        async with started(reloader.run):
            os.kill(os.getpid(), signal.SIGHUP)
            with anyio.fail_after(5):
                while not lines:
                    await anyio.lowlevel.checkpoint()
    (line,) = lines
    assert line["error"] == "there is no configuration file"


async def test_a_content_that_cannot_be_used_is_a_problem_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scheduler.yaml"

    def no_more_files(_: float) -> list[str]:
        raise OSError(EMFILE, "Too many open files")

    monkeypatch.setattr(reloader_module, "changed_since", no_more_files)

    async def swap(new: KubeSchedulerConfiguration) -> SwapResult:
        return SwapResult(new)

    file, clock = ConfigurationFile(path), HastyClock()
    file.parse(HEAD.encode())
    path.write_text(HEAD + "paralelism: 3\n")
    reloader = Reloader(file, swap, clock)
    async with started(reloader.run):
        with anyio.fail_after(5):
            while not reloader.problem:
                await anyio.sleep(0.001)
        assert reloader.problem == (
            f"{path} is not in use: {path}: paralelism: unknown field, did you mean parallelism?"
        )
        path.write_text(HEAD)
        with anyio.fail_after(5):
            while reloader.problem:
                await anyio.sleep(0.001)
