"""The pages of the server: the health checks of kube-scheduler, the metrics, and /debug."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from anyio.abc import TaskStatus

from berth.config.options import Options
from berth.config.types import LeaderElectionConfiguration

from ..attempt.flight_file import FlightFile
from ..attempt.flights import FlightRecorder
from ..binding.state import PodsInBinding
from ..cache.debugger import CacheDebugger
from ..client.tenure import Tenure
from ..mailboxes import Mailboxes
from ..messages.cache import CountCached
from ..messages.queue import MeasureQueue
from ..process.heartbeat import Heartbeat
from ..process.watchdog import STALL_SECONDS
from ..runtime.ask import ask
from ..runtime.clock import Clock
from ..scheduling.decision.profile import Profile
from ..scheduling.decision.whereabouts import in_words, whereabouts
from ..server.actor import Measure
from ..server.debug import Debug
from ..server.health import Check, Health, leader_election, ping
from ..server.metrics.page import MetricsPage
from ..server.metrics.pod_resources import PodResources
from ..server.metrics.sizes import register_sizes
from ..server.metrics.slis import HealthMeasures
from ..telemetry.instruments import Instruments
from .glance import Lookout
from .informers import Informers
from .reloader import Reloader


class Readiness:
    """The state of the process for /readyz: whether everything has started, and whether it is
    stopping.

    As a child it is the last to start and the first to stop. When it starts, every informer has its
    first list, or the answer that it may not have one. Any thread may call its methods.
    """

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._started = False
        self._stopping = False

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Notes that everything has started and, when it is cancelled, that the process is
        stopping.
        """
        self._started = True
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            self._stopping = True

    def unsynchronized(self) -> str | None:
        """Returns None once all informers are synchronized; otherwise why they are not."""
        problems = self._informers.problems()
        if self._started and not problems:
            return None
        return "; ".join(problems) or "handlers are not fully synchronized"

    def stopping(self) -> str | None:
        """Returns None until the process begins to stop."""
        return "process is shutting down" if self._stopping else None


def health_of(
    election: LeaderElectionConfiguration,
    tenure: Tenure,
    heartbeat: Heartbeat,
    readiness: Readiness,
    options: Options,
    measures: HealthMeasures,
) -> Health:
    """Makes the checks of kube-scheduler, in its order."""
    elected = (leader_election(tenure, election),) if election.leader_elect else ()
    live = (ping(heartbeat.still_for, lambda: _standstill(heartbeat), options.liveness_stall),)
    ready = (
        Check("shutdown", readiness.stopping),
        Check("sched-handler-sync", readiness.unsynchronized),
    )
    groups = {"healthz": elected, "livez": live, "readyz": (*elected, *ready)}
    return Health(groups, measures)


def _standstill(heartbeat: Heartbeat) -> str:
    """Returns for how long the event loop has been blocked, and where, in words."""
    frame = heartbeat.frame()
    where = "" if frame is None else in_words(whereabouts(frame))
    return f"the event loop has stood still for {heartbeat.still_for():.0f} s {where}".rstrip()


def metrics_of(
    instruments: Instruments,
    mailboxes: Mailboxes,
    informers: Informers,
    tenure: Tenure,
    options: Options,
    health: HealthMeasures,
    flight_file: FlightFile | None,
    reloads: Reloader,
) -> dict[str, Measure]:
    """Makes the pages of metrics, by path. Only a leader shows the metrics of pods."""
    register_sizes(
        instruments.registry,
        mailboxes,
        informers.count_unreadable,
        lambda: 0 if flight_file is None else flight_file.dropped,
        lambda: bool(reloads.problem),
    )
    page = MetricsPage(instruments.registry, options.feature_gates)
    resources = PodResources(
        lambda: list(informers.pods.objects().values()), options.metrics.disabled
    )

    async def of_leader() -> bytes:
        return await resources.text() if tenure.permits() else b""

    return {
        "/metrics": page.text,
        "/metrics/resources": of_leader,
        "/metrics/slis": health.text,
    }


def debug_of(
    debugger: CacheDebugger,
    informers: Informers,
    mailboxes: Mailboxes,
    in_binding: PodsInBinding,
    clock: Clock,
    flights: FlightRecorder | None,
    lookout: Lookout,
    heartbeat: Heartbeat,
) -> Debug:
    """Makes the pages below /debug."""
    return Debug(
        debugger.nodes,
        debugger.compare,
        mailboxes.queue,
        lambda: in_binding.dump(clock.now()),
        clock,
        informers.unreadable,
        None if flights is None else flights.page,
        lookout.glance,
        informers.pods.objects().get,
        lambda: _standstill(heartbeat) if heartbeat.still_for() > STALL_SECONDS else "",
    )


def count_when_read(
    instruments: Instruments, mailboxes: Mailboxes, profiles: Mapping[str, Profile]
) -> None:
    """Makes the queue, the cache and the profiles count whenever the metrics are read."""

    async def count() -> None:
        queue = await ask(mailboxes.queue, MeasureQueue)
        cache = await ask(mailboxes.cache, CountCached)
        evaluations = {name: profile.evaluations for name, profile in profiles.items()}
        instruments.count(queue, cache, evaluations)

    instruments.registry.refresh_by(count)
