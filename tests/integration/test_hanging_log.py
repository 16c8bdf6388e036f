"""The reader of the log hangs: pods are scheduled, and a signal ends the process."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.kit.daemons import ELECTION, Daemons, daemons
from tests.kit.processes import Berth, berth, install

pytestmark = pytest.mark.full

# A plugin that writes to standard error itself hangs with its reader. Regular expressions do not
# release the interpreter.
SOURCE = """
import re
import sys
from berth.actors.process import watchdog
from berth.plugin import SUCCESS, NodeFilterPlugin

watchdog.STALL_SECONDS, watchdog.GRACE_SECONDS, watchdog.FLUSH_SECONDS = 1.0, 2.0, 0.5

class Stuck(NodeFilterPlugin):
    name = "Stuck"

    def filter_node(self, state, info, node):
        if info.pod.metadata.name == "loud":
            print("hello", file=sys.stderr)
        if info.pod.metadata.name == "busy":
            re.match("(a+)+$", "a" * 60 + "b")
        return SUCCESS
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Stuck}]}}}]
"""


class Log:
    """The log of a process: a pipe that is full at first."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        try:
            while True:
                os.write(self._pipe, bytes(1 << 16))
        except BlockingIOError:
            pass

    async def read(self, text: str) -> None:
        """Reads until there is a line with this text."""
        received = b""
        with anyio.fail_after(20):
            while text.encode() not in received:
                try:
                    received += os.read(self._pipe, 1 << 20)
                except BlockingIOError:
                    await anyio.sleep(0.01)

    def close(self) -> None:
        os.close(self._pipe)


@asynccontextmanager
async def unread(
    running: Daemons, log: Log, *flags: str, site: Path | None = None
) -> AsyncIterator[Berth]:
    """Runs a scheduler whose log nobody reads."""
    flags = ("run", f"--master={running.url}", "--secure-port=0", *ELECTION, *flags)
    async with berth(running.folder, *flags, site=site, errors=log.path) as process:
        yield process
    log.close()


async def test_scheduling_goes_on_and_a_signal_ends_the_process(tmp_path: Path) -> None:
    async with daemons(tmp_path) as running:
        await running.node("n")
        async with unread(running, Log(tmp_path / "log"), "--v=4") as scheduler:
            await running.burst("p", 20)
            await running.all_bound(20)
            scheduler.send(signal.SIGTERM)
            assert await scheduler.end() == 0


async def test_a_reader_that_recovers_gets_the_lines(tmp_path: Path) -> None:
    async with daemons(tmp_path) as running:
        await running.node("n")
        log = Log(tmp_path / "log")
        async with unread(running, log, "--v=4") as scheduler:
            await running.pod("p")
            await running.bound("p")
            await log.read("Successfully bound pod to node")
            scheduler.send(signal.SIGTERM)
            await log.read('"stopping"')
            assert await scheduler.end() == 0


@pytest.mark.parametrize(("pod", "code"), [("loud", 1), ("busy", -signal.SIGALRM)])
async def test_a_plugin_that_hangs_is_ended_without_a_log(
    tmp_path: Path, pod: str, code: int
) -> None:
    site, file = tmp_path / "site", tmp_path / "config.yaml"
    install(site, "stuck", SOURCE, Stuck="stuck:Stuck")
    file.write_text(CONFIGURATION)
    async with daemons(tmp_path) as running:
        await running.node("n")
        log = Log(tmp_path / "log")
        async with unread(running, log, f"--config={file}", site=site) as scheduler:
            await running.pod("p")
            await running.bound("p")
            await running.pod(pod)
            await anyio.sleep(1)  # The loop hangs, and nothing can tell so.
            scheduler.send(signal.SIGTERM)
            assert await scheduler.end(20) == code
