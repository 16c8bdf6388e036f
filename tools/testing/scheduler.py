"""A scheduler in the event loop of a test."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import anyio
from anyio.abc import TaskStatus

from berth.actors.client.access import Access
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.tenure import ALWAYS
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.supervisor import Supervisor
from berth.actors.system import Daemon
from berth.config.options import Options
from berth.config.types import KubeSchedulerConfiguration
from berth.plugin import Plugin

HOST = "berth"


async def run_scheduler(
    configuration: KubeSchedulerConfiguration,
    access: Access,
    clock: Clock,
    rng: Random,
    options: Options,
    host: str = HOST,
    plugins: Sequence[type[Plugin]] = (),
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
            lease_clock=clock,
            host=host,
            plugins=plugins,
        )
        if not configuration.leader_election.leader_elect:
            access.tenure.lasts_until(ALWAYS)
        parts = daemon.children(of_process=False)
        await Supervisor(parts, clock, rng).run(task_status=task_status)
