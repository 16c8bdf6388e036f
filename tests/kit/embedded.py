"""A whole cluster in one process and in virtual time: the parts talk by calls, not over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import anyio

from berth.actors.client.extender.calls import Extenders
from berth.actors.client.tenure import ALWAYS
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.supervisor import Supervisor
from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.actors.system import DEFAULT_OPTIONS, Daemon
from berth.config.options import Options
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.cluster.controllers.controller_manager import run_controllers
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.cluster.kubelets.kubelets import run_kubelets
from tests.kit.cluster import UNLIMITED


@asynccontextmanager
async def running(
    access: EmbeddedAccess,
    clock: Clock,
    rng: Random,
    configuration: KubeSchedulerConfiguration = UNLIMITED,
    observer: DecisionObserver | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> AsyncIterator[None]:
    """Runs the kubelets, the controllers and the scheduler of an API server for the duration of
    the block, without the parts of the scheduler that need a process of their own.
    """
    async with Extenders((), access.tenure) as extenders, anyio.create_task_group() as group:
        await group.start(run_kubelets, access, clock, rng)
        await group.start(run_controllers, access, clock, rng)
        daemon = Daemon(configuration, access, extenders, clock, rng, options, observer=observer)
        daemon._access.tenure.lasts_until(ALWAYS)
        parts = daemon.children(of_process=False)
        await group.start(Supervisor(parts, clock, rng).run)
        yield
        group.cancel_scope.cancel()
