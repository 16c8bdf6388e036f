"""A separate process for the scheduler that is measured: `python -m berth.tools.bench.worker`.

The first line of its input is its order: either a whole workload with the scheduler in the same
process, or the scheduler alone, which starts and stops measuring when later lines say so. Answers
are lines of JSON; the logs are the daemon's, on standard error. It ends when its input ends, so it
never outlives the process that started it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random

import anyio
import msgspec

from berth.actors.client.access import remote
from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.extender.calls import Extenders, sent_whole
from berth.actors.client.kubeconfig import load as load_connection
from berth.actors.client.rest import Connection
from berth.actors.configuration.file import file_or_default
from berth.actors.process.collector import (
    collecting,
    tune_collector,
)
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.exceptions import first_of
from berth.actors.runtime.race import race
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.system import Daemon
from berth.actors.telemetry.logs import configure_logs
from berth.config.feature_gates import DEFAULTS, defaults_of
from berth.config.load import (
    ConfigError,
)
from berth.config.options import Options
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import CURRENT, emulated

from ..answers.explain.slow_answer import progress_reports
from .check import SampledDecisions, SamplingMeter, check
from .inproc import InProcess
from .measure import CheckResult, Effort, Meter, Result, Stopwatch, TimedInstruments
from .opcodes import WorkloadError
from .operations import Executor
from .pauses import PauseMeter
from .pod_counts import PodTracker
from .pod_waits import StalledError, UnsupportedError
from .templates import TemplateError
from .workload import WorkloadRun, load, plan, select
from .workload_cluster import ClusterError

REPORT_SECONDS = 0.2
CHECKING = "checking decisions"
QPS = 5000.0  # the limit of scheduler_perf
BURST = 5000
BAD_CONFIGURATION = (ConfigError, RegistryError, KubeconfigError)
BAD_WORKLOAD = (WorkloadError, TemplateError, ClusterError, StalledError)


class RunWorkload(msgspec.Struct, frozen=True, tag=True):
    """The order to run a workload of a file, by case and name, with the scheduler in process.

    `config` is the file of the scheduler's configuration, "" for the default one. `check` is the
    number of decisions to repeat for each window, `version` that of Kubernetes to decide as.
    """

    file: str
    case: str
    workload: str
    stall: float
    profile: bool
    config: str = ""
    check: int = 0
    version: str = CURRENT.text


class RunScheduler(msgspec.Struct, frozen=True, tag=True):
    """The order to run the scheduler against the API server of a kubeconfig or at the URL `master`.

    `pauses` says whether to measure pauses, `version` which Kubernetes to decide as.
    """

    config: str
    kubeconfig: str
    master: str
    profile: bool
    check: int = 0
    pauses: bool = False
    version: str = CURRENT.text


class StartMeasuring(msgspec.Struct, frozen=True, tag=True):
    pass


class StopMeasuring(msgspec.Struct, frozen=True, tag=True):
    pass


class CheckDecisions(msgspec.Struct, frozen=True, tag=True):
    """The order to stop scheduling and repeat the recorded decisions."""


class WorkerProgress(msgspec.Struct, frozen=True, tag=True):
    step: str
    done: int
    total: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The answer that says that the scheduler has synced, or that measuring has started."""


class MeasuringStopped(msgspec.Struct, frozen=True, tag=True):
    effort: Effort


class DecisionsChecked(msgspec.Struct, frozen=True, tag=True):
    """The answer with the comparison of each window."""

    windows: list[CheckResult]


class WorkloadFinished(msgspec.Struct, frozen=True, tag=True):
    results: list[Result]


class NotRun(msgspec.Struct, frozen=True, tag=True):
    """The answer for a workload that did not finish; `reason` says why."""

    reason: str
    unsupported: bool


Order = RunWorkload | RunScheduler | StartMeasuring | StopMeasuring | CheckDecisions
Answer = WorkerProgress | Ready | MeasuringStopped | DecisionsChecked | WorkloadFinished | NotRun
_ORDERS = msgspec.json.Decoder(Order)


def find(file: str, case: str, workload: str) -> WorkloadRun:
    """Returns a workload of a file, ready to run. Raises WorkloadError."""
    for test_case, candidate in select(load(Path(file)), [], []):
        if (test_case.name, candidate.name) == (case, workload):
            return plan(Path(file), test_case, candidate)
    raise WorkloadError(f"{file}: no workload {case}/{workload}")


def options_of(version: str) -> Options:
    """Returns the options of a scheduler that decides as a version of Kubernetes."""
    release = emulated(version)
    return Options(version=release, feature_gates=defaults_of(release))


def configuration_of(path: str, gates: Mapping[str, bool] = DEFAULTS) -> KubeSchedulerConfiguration:
    """Returns the configuration in the file, or the default one.

    It has no leader election, which workloads do not measure, and scheduler_perf's limit on
    requests. Raises ConfigError.
    """
    configuration = file_or_default(path, gates)
    election = msgspec.structs.replace(configuration.leader_election, leader_elect=False)
    connection = msgspec.structs.replace(configuration.client_connection, qps=QPS, burst=BURST)
    return msgspec.structs.replace(
        configuration, leader_election=election, client_connection=connection
    )


def scheduler_config_of(run: WorkloadRun) -> str:
    return str(run.folder / run.scheduler_config) if run.scheduler_config else ""


async def run_in_process(order: RunWorkload) -> Answer:
    """Runs the workload and the scheduler on one event loop."""
    ended: Answer
    try:
        run = find(order.file, order.case, order.workload)
        options = options_of(order.version)
        gates = options.feature_gates
        configuration = configuration_of(order.config, gates)
        pods, watch, report = PodTracker(), Stopwatch(profile=order.profile), _Reporter().report
        cluster, clock, rng = InProcess(pods), SystemClock(), Random(0)
        decisions, meter = _decision_sample(rng, watch, order.check)
        async with (
            Extenders(configuration.extenders) as extenders,
            anyio.create_task_group() as group,
        ):
            daemon = Daemon(
                configuration,
                cluster,
                extenders,
                clock,
                rng,
                options,
                instruments=TimedInstruments(watch, clock.now),
                observer=decisions,
            )
            await group.start(daemon.run)
            results = await Executor(run, cluster, pods, meter, order.stall, report).run()
            group.cancel_scope.cancel()
        if decisions is not None:
            checks = check(decisions.windows, configuration, partial(report, CHECKING), gates)
            pairs = zip(results, checks, strict=True)
            results = [
                msgspec.structs.replace(result, checked=checked) for result, checked in pairs
            ]
        ended = WorkloadFinished(results)
    except* UnsupportedError as problems:
        ended = NotRun(str(first_of(problems)), True)
    except* (*BAD_WORKLOAD, *BAD_CONFIGURATION) as problems:
        ended = NotRun(str(first_of(problems)), False)
    return ended


async def _run_scheduler(order: RunScheduler, orders: _Orders) -> None:
    try:
        options = options_of(order.version)
        gates = options.feature_gates
        configuration = configuration_of(order.config, gates)
        connection = Connection(order.master) if order.master else load_connection(order.kubeconfig)
    except BAD_CONFIGURATION as problem:
        _write_answer(NotRun(str(problem), False))
        return
    clock, rng, watch = SystemClock(), Random(0), Stopwatch(profile=order.profile)
    decisions, meter = _decision_sample(rng, watch, order.check)
    pauses = PauseMeter(meter)
    limits, sent = configuration.client_connection, sent_whole(configuration.extenders)
    refused: NotRun | None = None
    try:
        async with (
            remote(connection, clock, rng, limits.qps, limits.burst, keeps_whole=sent) as access,
            Extenders(configuration.extenders) as extenders,
            anyio.create_task_group() as group,
            AsyncExitStack() as listening,
        ):
            if order.pauses:
                meter = pauses
                listening.enter_context(pauses.listening())
                group.start_soon(pauses.tick)
            daemon = Daemon(
                configuration,
                access,
                extenders,
                clock,
                rng,
                options,
                instruments=TimedInstruments(watch, clock.now),
                observer=decisions,
            )
            await group.start(daemon.run)
            _write_answer(Ready())
            while True:
                match await orders.next():
                    case StartMeasuring():
                        await meter.start()
                        _write_answer(Ready())
                    case StopMeasuring():
                        _write_answer(MeasuringStopped(await meter.stop()))
                    case last:
                        break
            group.cancel_scope.cancel()
    except* BAD_CONFIGURATION as problems:
        refused = NotRun(str(first_of(problems)), False)
    if refused is not None:
        _write_answer(refused)
        return
    if isinstance(last, CheckDecisions) and decisions is not None:
        report = partial(_Reporter().report, CHECKING)
        _write_answer(
            DecisionsChecked(list(check(decisions.windows, configuration, report, gates)))
        )
        while await orders.next() is not None:
            pass


def _decision_sample(
    rng: Random, watch: Stopwatch, number: int
) -> tuple[SampledDecisions | None, Meter]:
    """Returns the keeper of `number` decisions (None for 0), and the meter to use with it."""
    if not number:
        return None, watch
    decisions = SampledDecisions(rng, number)
    return decisions, SamplingMeter(watch, decisions)


class _Orders:
    """The lines of standard input, read without a thread, which would delay the exit."""

    def __init__(self) -> None:
        self._pending = b""

    async def next(self) -> Order | None:
        """Returns the next order; None at the end of the input."""
        while b"\n" not in self._pending:
            await anyio.wait_readable(sys.stdin.fileno())
            chunk = os.read(sys.stdin.fileno(), 1 << 16)
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        order: Order = _ORDERS.decode(line)
        return order


def _write_answer(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


class _Reporter:
    """A reporter of progress that limits its own frequency."""

    def __init__(self) -> None:
        self._reported_at = 0.0

    def report(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._reported_at > REPORT_SECONDS:
            self._reported_at = now
            _write_answer(WorkerProgress(step, done, total))


async def _main() -> None:
    orders = _Orders()
    match await orders.next():
        case RunWorkload() as order:

            async def end_with_input() -> None:
                while await orders.next() is not None:
                    pass

            async def run(order: RunWorkload = order) -> None:
                _write_answer(await run_in_process(order))

            await race(end_with_input, run)
        case RunScheduler() as order:
            await _run_scheduler(order, orders)
        case _:
            pass


if __name__ == "__main__":
    configure_logs()
    tune_collector()
    with progress_reports(of_plugins=True):
        anyio.run(collecting, _main, backend_options={"use_uvloop": True})
