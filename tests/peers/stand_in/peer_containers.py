"""What the containers of the suites do: their commands run on this machine, in an empty folder.

Whoever runs a suite trusts it with this machine anyway.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from tempfile import mkdtemp
from typing import Any

from berth.tools.kubernetes.kubelet.scripts.script_rules import Process

_READ = 1 << 16
# The proxy stands for the network of the pods, whose addresses lead nowhere.
_OWN = {"PATH": os.environ["PATH"], "http_proxy": os.environ["BERTH_CONTAINERS_PROXY"]}


async def run(process: Process) -> int:
    """Runs a command of a suite with the environment of its container. Returns its exit code."""
    command = list(process.command) or _own_command(process)
    folder = mkdtemp(prefix="container-")
    try:
        running = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env={**_OWN, "HOME": folder, **_environment(process)},
        )
        feeding = asyncio.create_task(_feed(process, running))
        try:
            await asyncio.gather(
                _copy(running.stdout, process.write), _copy(running.stderr, process.write_error)
            )
            code = await running.wait()
        finally:
            feeding.cancel()
            if running.returncode is None:
                running.kill()
        return code if code >= 0 else 128 - code
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _feed(process: Process, running: asyncio.subprocess.Process) -> None:
    """Passes on what the client says, and then its end."""
    assert running.stdin is not None
    try:
        while data := await process.read():
            running.stdin.write(data)
            await running.stdin.drain()
        running.stdin.close()
    except ConnectionError:
        return  # the command has ended


async def _copy(
    stream: asyncio.StreamReader | None, write: Callable[[bytes], Awaitable[None]]
) -> None:
    assert stream is not None
    while data := await stream.read(_READ):
        await write(data)


def _container(process: Process) -> dict[str, Any]:
    spec = process.pod["spec"]
    fields = ("containers", "initContainers", "ephemeralContainers")
    containers = [each for field in fields for each in spec.get(field) or ()]
    return next(each for each in containers if each["name"] == process.container)


def _own_command(process: Process) -> list[str]:
    """Returns what the container itself runs; without a command, it repeats what it hears."""
    container = _container(process)
    return [*(container.get("command") or ()), *(container.get("args") or ())] or ["cat"]


def _environment(process: Process) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in _container(process).get("env") or ()}
