"""The pages of the server: the health checks of kube-scheduler, the metrics, and /debug."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from anyio.abc import TaskStatus

from berth.config.options import Options

from ..mailboxes import Mailboxes
from ..messages.cache import CountCached
from ..messages.queue import MeasureQueue
from ..process.heartbeat import Heartbeat
from ..process.watchdog import STALL_SECONDS
from ..runtime.ask import ask
from ..scheduling.decision.profile import Profile
from ..scheduling.decision.whereabouts import in_words, whereabouts
from ..server.actor import PROCESS_START, Measure, PageSources
from ..server.debug import Debug
from ..server.health import Check, Health, leader_election, ping
from ..server.metrics.informers import register_informers
from ..server.metrics.page import MetricsPage
from ..server.metrics.pod_resources import PodResources
from ..server.metrics.sizes import register_sizes
from ..server.metrics.slis import HealthMeasures
from ..telemetry.instruments import Instruments
from ..telemetry.measures import Registry
from .glance import Lookout, Parts
from .informers import Informers
from .view import Shown, pages_of_packages


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
        """Records that everything has started and, when cancelled, that the process is stopping."""
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


def pages_of(parts: Parts, readiness: Readiness, lookout: Lookout, debug: Debug) -> PageSources:
    """Returns the pages of the server."""
    slis = HealthMeasures(registry_for(parts.options), PROCESS_START.timestamp())
    return PageSources(
        _health(parts, readiness, slis),
        _metrics(parts, slis),
        parts.profiles.completed,
        debug,
        parts.instruments.registry,
        pages_of_packages(Shown(parts, lookout, debug)),
    )


def registry_for(options: Options) -> Registry:
    """Returns a registry of metrics with the settings of the flags."""
    return Registry(options.metrics.disabled, options.metrics.allow_labels)


def _health(parts: Parts, readiness: Readiness, measures: HealthMeasures) -> Health:
    """Returns the checks of kube-scheduler, in its order."""
    election, heartbeat = parts.profiles.configuration.leader_election, parts.heartbeat
    elected = (leader_election(parts.tenure, election),) if election.leader_elect else ()
    stall = parts.options.liveness_stall
    live = (ping(heartbeat.still_for, lambda: _blocked_loop(heartbeat), stall),)
    ready = (
        Check("shutdown", readiness.stopping),
        Check("sched-handler-sync", readiness.unsynchronized),
    )
    groups = {"healthz": elected, "livez": live, "readyz": (*elected, *ready)}
    return Health(groups, measures)


def _blocked_loop(heartbeat: Heartbeat) -> str:
    """Returns in words for how long the event loop has been blocked, and where."""
    frame = heartbeat.frame()
    where = "" if frame is None else in_words(whereabouts(frame))
    return f"the event loop has stood still for {heartbeat.still_for():.0f} s {where}".rstrip()


def _metrics(parts: Parts, health: HealthMeasures) -> dict[str, Measure]:
    """Returns the pages of metrics by path. Only a leader shows the metrics of pods."""
    registry, options, flight_file = parts.instruments.registry, parts.options, parts.flight_file
    register_sizes(
        registry,
        parts.mailboxes,
        parts.informers.count_unreadable,
        lambda: 0 if flight_file is None else flight_file.dropped,
        lambda: bool(parts.outdated()),
    )
    if options.feature_gates["InformerMetrics"]:
        register_informers(registry, parts.informers.resource_versions)
    page = MetricsPage(registry, options.version, options.feature_gates)
    pods = parts.informers.pods.objects
    resources = PodResources(lambda: list(pods().values()), options.metrics.disabled)

    async def of_leader() -> bytes:
        return await resources.text() if parts.tenure.permits() else b""

    return {
        "/metrics": page.text,
        "/metrics/resources": of_leader,
        "/metrics/slis": health.text,
    }


def debug_of(parts: Parts, lookout: Lookout) -> Debug:
    """Returns the pages below /debug."""
    heartbeat, flights = parts.heartbeat, parts.flights
    return Debug(
        parts.debugger.nodes,
        parts.debugger.compare,
        parts.mailboxes.queue,
        lambda: parts.in_binding.dump(parts.clock.now()),
        parts.clock,
        parts.informers.unreadable,
        None if flights is None else flights.page,
        lookout.glance,
        parts.informers.pods.objects().get,
        lambda: _blocked_loop(heartbeat) if heartbeat.still_for() > STALL_SECONDS else "",
        parts.breakers.dump,
    )


def count_when_read(
    instruments: Instruments, mailboxes: Mailboxes, profiles: Mapping[str, Profile]
) -> None:
    """Makes the queue, the cache and the profiles update their metrics before these are read."""

    async def count() -> None:
        queue = await ask(mailboxes.queue, MeasureQueue)
        cache = await ask(mailboxes.cache, CountCached)
        evaluations = {name: profile.evaluations for name, profile in profiles.items()}
        instruments.count(queue, cache, evaluations)

    instruments.registry.refresh_by(count)
