"""A process of its own for what is measured: `python -m tools.bench.worker`, told by the first line of its input.

Either a whole workload with the scheduler in the same process, or the scheduler alone, which starts and stops
measuring when the lines after it say so. Answers are lines of JSON; the logs are the daemon's own, on standard error.
It ends when its input does, so that it never outlives who started it.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from random import Random

import anyio
import msgspec

from actors.client.access import remote
from actors.client.credentials import KubeconfigError
from actors.client.extender import Extenders
from actors.client.kubeconfig import load as load_connection
from actors.client.rest import Connection
from actors.framework.registry import RegistryError
from actors.runtime.clock import SystemClock
from actors.runtime.collector import tune_collector
from actors.runtime.logs import configure_logs
from actors.system import schedule
from config.load import ConfigError, from_mapping, load_file
from config.profiles import ProfileError
from config.types import KubeSchedulerConfiguration
from tools.bench.cluster import ClusterError
from tools.bench.inproc import InProcess
from tools.bench.measure import Effort, Result, Stopwatch
from tools.bench.opcodes import WorkloadError
from tools.bench.operations import Executor
from tools.bench.pods import PodTracker
from tools.bench.templates import TemplateError
from tools.bench.waiting import StalledError, UnsupportedError
from tools.bench.workload import Run, load, plan, select

REPORT_SECONDS = 0.2
VERBOSITY = 2  # the daemon's default
QPS = 5000.0  # scheduler_perf's limit
BURST = 5000
BAD_CONFIGURATION = (ConfigError, RegistryError, ProfileError, KubeconfigError)
BAD_WORKLOAD = (WorkloadError, TemplateError, ClusterError, StalledError)


class RunWorkload(msgspec.Struct, frozen=True, tag=True):
    """Run a workload of a file, by both its names, with the scheduler in process."""

    file: str
    case: str
    workload: str
    stall: float
    profile: bool


class RunScheduler(msgspec.Struct, frozen=True, tag=True):
    """Run the scheduler against an API server: that of a kubeconfig, or the URL."""

    config: str
    kubeconfig: str
    master: str
    profile: bool


class StartMeasuring(msgspec.Struct, frozen=True, tag=True):
    pass


class StopMeasuring(msgspec.Struct, frozen=True, tag=True):
    pass


class Progress(msgspec.Struct, frozen=True, tag=True):
    step: str
    done: int
    total: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The scheduler is synced, or measuring has started."""


class Measured(msgspec.Struct, frozen=True, tag=True):
    effort: Effort


class Finished(msgspec.Struct, frozen=True, tag=True):
    results: list[Result]


class NotRun(msgspec.Struct, frozen=True, tag=True):
    """The workload did not come to its end, and why."""

    reason: str
    unsupported: bool


Order = RunWorkload | RunScheduler | StartMeasuring | StopMeasuring
Answer = Progress | Ready | Measured | Finished | NotRun
_ORDERS = msgspec.json.Decoder(Order)


def find(file: str, case: str, workload: str) -> Run:
    """Raises WorkloadError."""
    for found, its in select(load(Path(file)), [], []):
        if (found.name, its.name) == (case, workload):
            return plan(Path(file), found, its)
    raise WorkloadError(f"{file}: no workload {case}/{workload}")


def configuration_of(path: str) -> KubeSchedulerConfiguration:
    """The file's, or the defaults; without an election, which a workload is not about, and with scheduler_perf's limit
    on requests. Raises ConfigError.
    """
    found = load_file(path) if path else from_mapping(None)
    election = msgspec.structs.replace(found.leader_election, leader_elect=False)
    connection = msgspec.structs.replace(found.client_connection, qps=QPS, burst=BURST)
    return msgspec.structs.replace(found, leader_election=election, client_connection=connection)


def scheduler_config_of(run: Run) -> str:
    return str(run.folder / run.scheduler_config) if run.scheduler_config else ""


async def run_in_process(order: RunWorkload) -> Answer:
    """The workload and the scheduler on one event loop."""
    ended: Answer
    try:
        run = find(order.file, order.case, order.workload)
        configuration = configuration_of(scheduler_config_of(run))
        pods, watch = PodTracker(), Stopwatch(profile=order.profile)
        cluster, clock = InProcess(pods), SystemClock()
        async with Extenders(configuration.extenders) as extenders, anyio.create_task_group() as group:
            await group.start(partial(schedule, configuration, cluster, extenders, clock, Random(0), observer=watch))
            results = await Executor(run, cluster, pods, watch, order.stall, _Reporter().tell).run()
            group.cancel_scope.cancel()
        ended = Finished(results)
    except* UnsupportedError as problems:
        ended = NotRun(_first(problems), True)
    except* (*BAD_WORKLOAD, *BAD_CONFIGURATION) as problems:
        ended = NotRun(_first(problems), False)
    return ended


async def _run_scheduler(order: RunScheduler, orders: _Orders) -> None:
    try:
        configuration = configuration_of(order.config)
        connection = Connection(order.master) if order.master else load_connection(order.kubeconfig)
    except BAD_CONFIGURATION as problem:
        _say(NotRun(str(problem), False))
        return
    clock, rng, watch = SystemClock(), Random(0), Stopwatch(profile=order.profile)
    limits = configuration.client_connection
    async with (
        remote(connection, clock, rng, limits.qps, limits.burst) as access,
        Extenders(configuration.extenders) as extenders,
        anyio.create_task_group() as group,
    ):
        await group.start(partial(schedule, configuration, access, extenders, clock, rng, observer=watch))
        _say(Ready())
        while True:
            match await orders.next():
                case StartMeasuring():
                    await watch.start()
                    _say(Ready())
                case StopMeasuring():
                    _say(Measured(await watch.stop()))
                case _:
                    break
        group.cancel_scope.cancel()


class _Orders:
    """The lines of standard input; without a thread, which would hold up the end of the process."""

    def __init__(self) -> None:
        self._pending = b""

    async def next(self) -> Order | None:
        """None at the end of the input."""
        while b"\n" not in self._pending:
            await anyio.wait_readable(sys.stdin.fileno())
            chunk = os.read(sys.stdin.fileno(), 1 << 16)
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        order: Order = _ORDERS.decode(line)
        return order


def _say(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return str(inner)


class _Reporter:
    """Says how far it is, not too often."""

    def __init__(self) -> None:
        self._said = 0.0

    def tell(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said > REPORT_SECONDS:
            self._said = now
            _say(Progress(step, done, total))


async def _main() -> None:
    orders = _Orders()
    match await orders.next():
        case RunWorkload() as order:
            async with anyio.create_task_group() as group:

                async def until_left() -> None:
                    while await orders.next() is not None:
                        pass
                    group.cancel_scope.cancel()

                group.start_soon(until_left)
                _say(await run_in_process(order))
                group.cancel_scope.cancel()
        case RunScheduler() as order:
            await _run_scheduler(order, orders)
        case _:
            pass


if __name__ == "__main__":
    configure_logs(VERBOSITY, "text")
    tune_collector()
    anyio.run(_main, backend_options={"use_uvloop": True})
