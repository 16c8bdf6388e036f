"""A run of a workload: in process, on the embedded API server, or on a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Literal

import anyio
import msgspec

from berth.actors.client.rest import (
    Client,
    Connection,
)
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.exceptions import first_of
from berth.config.versions import CURRENT, emulated

from ..cluster.controllers.cluster_access import OverHttp
from ..cluster.controllers.controller_manager import OF_CLAIMS, run_controllers
from ..kubernetes.api.types.releases import release_of
from .measure import NoMeter, Result
from .opcodes import WorkloadError
from .operations import Executor, Report
from .pod_counts import PodTracker
from .pod_waits import StalledError, UnsupportedError
from .processes import ProcessEndedError, Worker, api_server, worker
from .remote import remote_cluster
from .templates import TemplateError
from .worker import (
    NotRun,
    RunScheduler,
    RunWorkload,
    WorkerProgress,
    WorkloadFinished,
    scheduler_config_of,
)
from .workload import WorkloadRun
from .workload_cluster import ClusterError

Where = Literal["inproc", "embedded", "kubeconfig"]
FAILURES = (ClusterError, StalledError, TemplateError, WorkloadError, ProcessEndedError)


class Settings(msgspec.Struct, frozen=True):
    """Where and how workloads run.

    If `scheduler` is False, the run only measures; `connection` is the connection of the
    kubeconfig. `check` is the number of decisions to repeat for each window. `config` is the file
    of a configuration to use in place of the workload's own. berth decides as this `version` of
    Kubernetes, and the API server that is started is of it.
    """

    where: Where
    scheduler: bool
    stall: float
    profile: bool
    check: int = 0
    kubeconfig: str = ""
    connection: Connection | None = None
    config: str = ""
    version: str = CURRENT.text


class NotRunError(Exception):
    """The workload did not finish; the message says why."""

    def __init__(self, reason: str, *, unsupported: bool) -> None:
        super().__init__(reason)
        self.unsupported = unsupported


async def measure(
    file: Path, run: WorkloadRun, settings: Settings, report: Report, say: Callable[[str], None]
) -> list[Result]:
    """Returns a result for each window of the workload. Raises NotRunError."""
    try:
        if settings.where == "inproc":
            return await _in_process(file, run, settings, report)
        return await _remotely(run, settings, report, say)
    except* UnsupportedError as problems:
        failure = NotRunError(str(first_of(problems)), unsupported=True)
    except* FAILURES as problems:
        failure = NotRunError(str(first_of(problems)), unsupported=False)
    except* NotRunError as problems:
        failure = _only_error(problems)
    raise failure


async def _in_process(
    file: Path, run: WorkloadRun, settings: Settings, report: Report
) -> list[Result]:
    case, _, workload = run.name.partition("/")
    config = settings.config or scheduler_config_of(run)
    order = RunWorkload(
        str(file),
        case,
        workload,
        settings.stall,
        settings.profile,
        config,
        settings.check,
        settings.version,
    )
    async with worker(order) as running:
        while True:
            match await running.answer():
                case WorkerProgress(step, done, total):
                    report(step, done, total)
                case WorkloadFinished(results):
                    return results
                case NotRun(reason, unsupported):
                    raise NotRunError(reason, unsupported=unsupported)
                case other:
                    raise ProcessEndedError(f"unexpected answer from the worker: {other}")


async def _remotely(
    run: WorkloadRun, settings: Settings, report: Report, say: Callable[[str], None]
) -> list[Result]:
    pods = PodTracker()
    async with (
        _connection(settings) as connection,
        _meter(run, settings, connection) as meter,
        remote_cluster(connection, pods) as cluster,
        _controllers(run, connection),
    ):
        if not settings.scheduler:
            say(f"{run.name}: waiting for a scheduler of {connection.server}")
        try:
            results = await Executor(run, cluster, pods, meter, settings.stall, report).run()
            if settings.check and isinstance(meter, Worker):
                pairs = zip(results, await meter.check(report), strict=True)
                results = [
                    msgspec.structs.replace(result, checked=checked) for result, checked in pairs
                ]
            return results
        finally:
            if settings.where == "kubeconfig":
                with anyio.CancelScope(shield=True):
                    await cluster.clean_up()


@asynccontextmanager
async def _connection(settings: Settings) -> AsyncIterator[Connection]:
    if settings.connection is not None:
        yield settings.connection
    else:
        async with api_server(release_of(emulated(settings.version)).version.text) as url:
            yield Connection(url)


@asynccontextmanager
async def _meter(
    run: WorkloadRun, settings: Settings, connection: Connection
) -> AsyncIterator[Worker | NoMeter]:
    """Yields the meter of berth's scheduler, or a meter that measures nothing for another
    scheduler.
    """
    if not settings.scheduler:
        yield NoMeter()
        return
    master = "" if settings.connection is not None else connection.server
    config = settings.config or scheduler_config_of(run)
    order = RunScheduler(
        config,
        settings.kubeconfig,
        master,
        settings.profile,
        settings.check,
        version=settings.version,
    )
    async with worker(order) as scheduler, anyio.create_task_group() as group:
        await scheduler.ready()
        group.start_soon(scheduler.wait)
        yield scheduler
        group.cancel_scope.cancel()


@asynccontextmanager
async def _controllers(run: WorkloadRun, connection: Connection) -> AsyncIterator[None]:
    """Runs the controllers that scheduler_perf runs for a workload with dynamic resources: that of
    resource claims and the garbage collector.
    """
    if not run.feature_gates.get("DynamicResourceAllocation"):
        yield
        return
    async with Client(connection) as client, anyio.create_task_group() as group:
        clock, rng = SystemClock(), Random(0)
        access = OverHttp(client, clock, rng)
        await group.start(run_controllers, access, clock, rng, OF_CLAIMS)
        yield
        group.cancel_scope.cancel()


def _only_error(group: BaseExceptionGroup[NotRunError]) -> NotRunError:
    inner = first_of(group)
    assert isinstance(inner, NotRunError)
    return inner
