"""The scheduler of a demo, as a process: `python -m berth.tools.testing.demo.scheduler_process`.

Lines of JSON come through standard input: first a Start, then questions, the key of a pod or null.
Each question is answered by a line on standard output, once the scheduler has synced: with the
recorded attempts of the pod (an AttemptsPage), or for null with a Glance. There is one question at
a time. The process ends with its input, so it never outlives the demo.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from random import Random

import anyio
import msgspec

from berth.actors.client.access import remote
from berth.actors.client.extender.calls import Extenders, sent_whole
from berth.actors.client.kubeconfig import load
from berth.actors.process.collector import tune_collector
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.exceptions import first_of
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.system import Daemon
from berth.actors.telemetry.logs import configure_logs
from berth.config.load import ConfigError, from_mapping
from berth.config.options import Authentication, Authorization, Options, SecureServing
from berth.config.versions import VERSIONS

from .scheduler import Start

CHUNK = 1 << 16
NO_LIMIT = 0  # of requests a second


def options_of(start: Start) -> Options:
    """Returns the settings of the demo's scheduler, whose pages are open to everybody."""
    return Options(
        version=VERSIONS[start.minor],
        feature_gates=start.feature_gates,
        serving=SecureServing("127.0.0.1", start.secure_port),
        authentication=Authentication(skip_lookup=True),
        authorization=Authorization(always_allow_paths=("/*",)),
        reload_plugins=start.reload_plugins,
    )


async def _schedule(start: Start, lines: AsyncIterator[bytes], out: int) -> None:
    """Schedules, and answers questions, until there are no more lines."""
    clock, rng = SystemClock(), Random()
    options = options_of(start)
    connection = load(start.kubeconfig)
    configuration = from_mapping(start.configuration, start.feature_gates)
    whole = sent_whole(configuration.extenders)
    async with (
        remote(connection, clock, rng, NO_LIMIT, NO_LIMIT, keeps_whole=whole) as access,
        Extenders(configuration.extenders, access.tenure) as extenders,
        anyio.create_task_group() as group,
    ):
        daemon = Daemon(configuration, access, extenders, clock, rng, options)
        synced = anyio.Event()

        async def schedule() -> None:
            await group.start(daemon.run)
            synced.set()

        async def answer(key: str | None) -> None:
            await synced.wait()
            page: msgspec.Struct = await (
                daemon.lookout.glance() if key is None else daemon.debug.recorded(key)
            )
            _write(out, msgspec.json.encode(page) + b"\n")

        group.start_soon(schedule)
        async for line in lines:
            group.start_soon(answer, msgspec.json.decode(line, type=str | None))
        group.cancel_scope.cancel()


async def _lines() -> AsyncIterator[bytes]:
    """Yields the lines of standard input until it ends."""
    source, pending = sys.stdin.fileno(), b""
    while True:
        await anyio.wait_readable(source)
        chunk = os.read(source, CHUNK)
        if not chunk:
            return
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            yield line


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


async def _run(out: int) -> None:
    lines = _lines()
    async for line in lines:
        await _schedule(msgspec.json.decode(line, type=Start), lines, out)
        return


def main() -> None:
    configure_logs(quiet=True)
    tune_collector()
    answers = os.dup(1)
    os.dup2(2, 1)  # What a plugin prints is no answer.
    try:
        anyio.run(_run, answers, backend_options={"use_uvloop": True})
    except* (ConfigError, RegistryError) as problems:
        sys.exit(f"the scheduler cannot start: {first_of(problems)}")
    except* OSError as problems:
        sys.exit(f"the scheduler cannot go on: {first_of(problems)}")


if __name__ == "__main__":
    main()
