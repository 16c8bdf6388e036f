"""A scheduler in the event loop of a test, which may be killed, stopped, and started again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from random import Random

import anyio
from anyio.abc import TaskStatus

from berth.actors.attempt.decision_log import decision_log
from berth.actors.client.access import Access
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.tenure import ALWAYS
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.supervisor import Supervisor
from berth.actors.scheduling.decision.observer import DecisionObserver, observed_by
from berth.actors.system import Daemon
from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Gauge
from berth.actors.wiring.pages import registry_for
from berth.config.options import Options
from berth.config.types import KubeSchedulerConfiguration
from berth.plugin import Plugin

from ..cluster.controllers.embedded_access import EmbeddedAccess
from .faulty_access import FaultyAccess, Program
from .faulty_plugin import IN_FORCE

HOST = "berth"
# The host of the scheduler to which a task belongs; "" outside of schedulers.
CURRENT_HOST: ContextVar[str] = ContextVar("host of the scheduler", default="")
HELD = ("scheduler_cache_size", "scheduler_pending_pods", "scheduler_inflight_events")
AGAIN_SECONDS = 1.0  # until a scheduler that has ended is started again


async def run_scheduler(
    configuration: KubeSchedulerConfiguration,
    access: Access,
    clock: Clock,
    rng: Random,
    options: Options,
    host: str = HOST,
    plugins: Sequence[type[Plugin]] = (),
    instruments: Instruments | None = None,
    observer: DecisionObserver | None = None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Schedules until cancelled, without the parts that need a process. Its lease, if it has one,
    runs by the same clock.
    """
    async with Extenders(configuration.extenders, access.tenure) as extenders:
        daemon = Daemon(
            configuration,
            access,
            extenders,
            clock,
            rng,
            options,
            instruments=instruments,
            lease_clock=clock,
            host=host,
            plugins=plugins,
            observer=observed_by(observer, decision_log()),
        )
        if not configuration.leader_election.leader_elect:
            access.tenure.lasts_until(ALWAYS)
        parts = daemon.children(of_process=False)
        await Supervisor(parts, clock, rng).run(task_status=task_status)


class KeptScheduler:
    """A scheduler behind faults that is started again whenever it has ended: killed by a fault, or
    because its lease was lost.

    `program` makes what the API server sees of it, from the name of its host: each start has
    another.
    """

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        options: Options,
        inner: EmbeddedAccess,
        program: Callable[[str], Program],
        rng: Random,
        host: str = HOST,
        plugins: Sequence[type[Plugin]] = (),
        observer: DecisionObserver | None = None,
    ) -> None:
        self._configuration = configuration
        self._options = options
        self._inner = inner
        self._program = program
        self._rng = rng
        self.host = host
        self._instruments: Instruments | None = None
        self._plugins = plugins
        self._observer = observer
        self._scope: anyio.CancelScope | None = None
        self._running: Program | None = None
        self._again = AGAIN_SECONDS

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Schedules until cancelled; started when the first of them is."""
        starts = 0
        while True:
            host = f"{self.host}-{starts}" if starts else self.host
            program = self._program(host)
            starts += 1
            self._running = program
            IN_FORCE.set(program.faults.faults)
            CURRENT_HOST.set(host)
            access = FaultyAccess(self._inner, program)
            self._again = AGAIN_SECONDS
            registry = registry_for(self._options)
            gates = self._options.feature_gates
            self._instruments = Instruments(registry, program.machine.now, gates)
            with anyio.CancelScope() as self._scope:
                try:
                    await run_scheduler(
                        self._configuration,
                        access,
                        program.machine,
                        self._rng,
                        self._options,
                        host,
                        self._plugins,
                        self._instruments,
                        self._observer,
                        task_status=task_status,
                    )
                except Exception as error:
                    if not is_loss_of_lease(error):
                        raise
            task_status = anyio.TASK_STATUS_IGNORED
            await anyio.sleep(self._again)

    async def held(self) -> dict[str, float]:
        """Returns the numbers of what the scheduler holds of a cluster, by their metrics."""
        if self._instruments is None:
            return {}
        registry = self._instruments.registry
        await registry.refresh()
        return {
            f"{family.name}{{{','.join(values)}}}": child.value
            for family in registry.families()
            if family.name in HELD
            for values, child in family.children()
            if isinstance(child, Gauge)
        }

    def end(self) -> None:
        """Ends the scheduler in order; another starts at once."""
        if self._scope is not None:
            self._scope.cancel()

    def kill(self, seconds: float) -> None:
        """Ends the scheduler at once: it writes nothing more. Another starts after a time."""
        if self._running is not None:
            self._running.is_dead = True
        self._again = seconds
        self.end()

    def stop(self, seconds: float) -> None:
        """Stops the scheduler for a time, as SIGSTOP does."""
        if self._running is not None:
            self._running.machine.stop(seconds)


def is_loss_of_lease(error: BaseException) -> bool:
    """True if an error is how a scheduler ends when it has lost its lease."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_loss_of_lease, error.exceptions))
    return type(error).__name__ == "LeaseLostError"
