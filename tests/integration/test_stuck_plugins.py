"""A plugin does not return: the log names it and its line, and a signal still ends the process."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.kit.daemons import Daemons, daemons
from tests.kit.processes import Berth, install

pytestmark = pytest.mark.full

# Real seconds: the plugin must block another process for longer than its watchdog's times, which it
# shortens.
SOURCE = """
import hashlib
import re
import sys
import time

import anyio
from berth.actors.process import watchdog
from berth.plugin import SUCCESS, NodeFilterPlugin, PreBindPlugin, ReservePlugin

watchdog.STALL_SECONDS, watchdog.GRACE_SECONDS, watchdog.FLUSH_SECONDS = 1.0, 2.0, 0.5


class Stuck(NodeFilterPlugin, ReservePlugin, PreBindPlugin):
    name = "Stuck"

    def filter_node(self, state, info, node):
        if info.pod.metadata.name != "undo":
            print("it begins", file=sys.stderr)
            getattr(self, info.pod.metadata.name)()
        return SUCCESS

    def reserve(self, state, info, node):
        return SUCCESS

    def unreserve(self, state, info, node):
        self.undo()

    async def pre_bind(self, state, info, node):
        if info.pod.metadata.name == "undo":
            print("it begins", file=sys.stderr)
            await anyio.sleep_forever()
        return SUCCESS

    def undo(self):
        while True:
            time.sleep(0.1)

    def loop(self):
        while True:
            pass

    def expression(self):
        re.match("(a+)+$", "a" * 60 + "b")

    def library(self):
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)

    def nap(self):
        time.sleep(2)
"""
LINES = {
    "undo": ("while True", "time.sleep"),
    "loop": ("while True", "pass"),
    "library": ("hashlib.pbkdf2",),
    "nap": ("time.sleep",),
}


@asynccontextmanager
async def in_plugin(running: Daemons, site: Path, way: str) -> AsyncIterator[Berth]:
    """Runs a scheduler with a pod that makes the plugin hang in this way. Yields when it hangs."""
    profile = {"schedulerName": way, "plugins": {"multiPoint": {"enabled": [{"name": "Stuck"}]}}}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    file = running.folder / f"{way}.json"
    file.write_text(json.dumps(configuration))
    spec = {"schedulerName": way, "containers": [{"name": "c", "image": "nginx"}]}
    await running.create("Pod", {"metadata": {"name": way}, "spec": spec})
    async with running.scheduler(
        "--leader-elect=false", f"--config={file}", site=site
    ) as scheduler:
        await scheduler.says("it begins")
        yield scheduler


def told(scheduler: Berth, event: str) -> dict[str, Any]:
    """Returns the fields of the only log line with this event."""
    matching = [line for line in scheduler.output.splitlines() if f'"{event}"' in line]
    assert len(matching) == 1, scheduler.output
    fields: dict[str, Any] = json.loads(matching[0])
    return fields


def assert_named(fields: dict[str, Any], site: Path, way: str) -> None:
    lines = enumerate(SOURCE.splitlines(), 1)
    places = [
        f"{site}/stuck.py:{number}" for number, line in lines if line.strip().startswith(LINES[way])
    ]
    assert fields["at"] in places
    assert (fields["plugin"], fields["pod"]) == ("Stuck", {"name": way, "namespace": "default"})
    assert fields["point"] == ("Unreserve" if way == "undo" else "Filter")
    assert f"in {way}\n" in fields["stack"]


async def test_a_signal_ends_a_scheduler_that_is_stuck(tmp_path: Path) -> None:
    """A stall that ends by itself is logged."""
    site = tmp_path / "site"
    install(site, "stuck", SOURCE, Stuck="stuck:Stuck")

    async def end(way: str) -> None:
        async with in_plugin(running, site, way) as scheduler:
            scheduler.send(signal.SIGTERM)
            assert await scheduler.end(40) == 1
            assert not running.nodes_of.get(way)
            if way == "expression":  # This C code does not release the interpreter.
                assert "Timeout" in scheduler.output
                assert f'File "{site}/stuck.py"' in scheduler.output
            else:
                assert_named(told(scheduler, "event loop stands still"), site, way)
                assert_named(told(scheduler, "ended by force"), site, way)

    async def nap() -> None:
        async with in_plugin(running, site, "nap") as scheduler:
            await running.bound("nap")
            await scheduler.says('"event loop goes on"')
            assert told(scheduler, "event loop goes on")["after_seconds"] > 1
            assert_named(told(scheduler, "event loop stands still"), site, "nap")
            scheduler.send(signal.SIGTERM)
            assert await scheduler.end() == 0
            assert "ended by force" not in scheduler.output

    async with daemons(tmp_path) as running:
        await running.node("n")
        async with anyio.create_task_group() as group:
            group.start_soon(nap)
            for way in ("loop", "expression", "library", "undo"):
                group.start_soon(end, way)
