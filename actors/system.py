"""The composition root: the only place where the actors are made and put in their order.

`schedule` reads from top to bottom: the configuration becomes profiles, the profiles decide which
kinds are followed, and the children of the process come out.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random

import anyio
from anyio.abc import TaskStatus

from berth.config.options import (
    Options,
    SecureServing,
)
from berth.config.types import (
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
)

from .attempt.decision_log import decision_log
from .binding.state import PodsInBinding
from .cache.debugger import CacheDebugger
from .client.access import Access, remote
from .client.extender.calls import Extenders
from .client.measures import ClientMeasures
from .client.objects import ApiObjects
from .client.rest import Connection
from .client.rights import NotedAccess, Refusals, Rights
from .client.tenure import ALWAYS
from .configuration.file import ConfigurationFile
from .configuration.plugin_packages import registry_with
from .informer.listers import Listers
from .leader.actor import LeaderActor, terms_of
from .leader.state import Terms
from .mailboxes import Mailboxes
from .messages.cache import CountCached
from .messages.queue import MeasureQueue
from .process.heartbeat import Heartbeat
from .process.version import BERTH, KUBERNETES
from .recorder.actor import RecorderActor
from .recorder.series import SeriesTracker
from .recorder.state import RecorderState
from .runtime.ask import ask
from .runtime.clock import BootClock, Clock
from .runtime.logger import get_logger
from .runtime.supervisor import Child, OnCrash, Supervisor
from .scheduling.decision.completion import completed
from .scheduling.decision.profile import Profile
from .scheduling.decision.scheduler import Scheduler
from .server.actor import PROCESS_START, ServerActor, Shown
from .server.debug import Debug
from .server.health import Check, Health, leader_election, ping
from .server.metrics.page import MetricsPage, warn_of_unknown
from .server.metrics.pod_resources import PodResources
from .server.metrics.sizes import Sizes
from .server.metrics.slis import HealthMeasures
from .telemetry.instruments import Instruments
from .telemetry.measures import Registry
from .telemetry.tracing import Tracing
from .wiring.core import DEFAULT_OPTIONS, Core, SchedulerHandle, profiles_of
from .wiring.informers import Informers, looked_up
from .wiring.reloader import Extra, Reloader, Swapped

log = get_logger(__name__)


# ------------------------------------------------------------------------------- health and metrics


async def _settling(
    instruments: Instruments,
    clock: Clock,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Counts observations from time to time, until cancelled."""
    task_status.started()
    await instruments.run(clock)


def _counting(core: Core) -> Callable[[], Awaitable[None]]:
    """Has the queue, the cache and the profiles counted for the metrics."""

    async def count() -> None:
        queue = await ask(core.mailboxes.queue, MeasureQueue)
        cache = await ask(core.mailboxes.cache, CountCached)
        asked = {name: profile.evaluations.by_point() for name, profile in core.profiles.items()}
        core.instruments.count(queue, cache, asked)

    return count


class Readiness(TaskStatus[None]):
    """Passes on that everything has started, and remembers it for /readyz.

    By then every informer has its first list, or an answer that it may not have one. The questions
    may be asked in any thread.
    """

    def __init__(self, started: TaskStatus[None], informers: Informers) -> None:
        self._started = started
        self._informers = informers
        self._reached = False
        self._stopping = False

    def started(self, value: None = None) -> None:
        self._reached = True
        self._started.started()

    async def watch_for_the_end(
        self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Note when the process begins to stop; as a child that is stopped before all others."""
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            self._stopping = True

    def unsynchronized(self) -> str | None:
        """None once all informers are synchronized; otherwise why they are not."""
        problems = self._informers.problems()
        if self._reached and not problems:
            return None
        return "; ".join(problems) or "handlers are not fully synchronized"

    def stopping(self) -> str | None:
        return "process is shutting down" if self._stopping else None


def _health(
    election: LeaderElectionConfiguration,
    readiness: Readiness,
    leader: Check,
    live: Check,
    measures: HealthMeasures,
) -> Health:
    """The checks of kube-scheduler, in its order."""
    elected = (leader,) if election.leader_elect else ()
    ready = (
        Check("shutdown", readiness.stopping),
        Check("sched-handler-sync", readiness.unsynchronized),
    )
    groups = {"healthz": elected, "livez": (live,), "readyz": (*elected, *ready)}
    return Health(groups, measures)


def _debugger(core: Core, informers: Informers) -> CacheDebugger:
    nodes, pods = informers.nodes.objects, informers.pods.objects
    in_binding, schedulers = core.in_binding.statistics, core.profiles.keys()
    return CacheDebugger(core.mailboxes, nodes, pods, schedulers, core.clock, in_binding)


def _server(
    serving: SecureServing,
    options: Options,
    core: Core,
    informers: Informers,
    debugger: CacheDebugger,
    health: Health,
    slis: HealthMeasures,
    page: MetricsPage,
    leads: Callable[[], bool],
    rng: Random,
) -> Child:
    clock, in_binding, gates = core.clock, core.in_binding, options.feature_gates
    debug = Debug(
        debugger.nodes,
        debugger.compare,
        core.mailboxes.queue,
        lambda: in_binding.dump(clock.now()),
        clock,
        informers.unreadable,
    )
    resources = PodResources(
        lambda: list(informers.pods.objects().values()), options.metrics.disabled
    )

    async def of_leader() -> bytes:
        return await resources.text() if leads() else b""

    measured = {
        "/metrics": page.text,
        "/metrics/resources": of_leader,
        "/metrics/slis": slis.text,
    }
    shown = Shown(
        health,
        measured,
        lambda: completed(core.configuration, registry_with(gates), gates),
        debug,
        core.instruments.registry,
    )
    return Child("server", ServerActor(serving, options, shown, rng).run, stop_deadline=10.0)


# ------------------------------------------------------------------------------------ the scheduler


def registry_for(options: Options) -> Registry:
    return Registry(options.metrics.disabled, options.metrics.allow_labels)


async def run_scheduler(
    configuration: KubeSchedulerConfiguration,
    connection: Connection,
    clock: Clock,
    rng: Random,
    options: Options = DEFAULT_OPTIONS,
    file: ConfigurationFile | None = None,
    tracing: Tracing | None = None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Schedule until cancelled; started means that the caches are synced. Raises the error that
    ended it, or that of the configuration. The profiles follow `file`, if there is one.
    """
    limits = configuration.client_connection
    registry = registry_for(options)
    async with (
        remote(
            connection, clock, rng, limits.qps, limits.burst, ClientMeasures(registry)
        ) as access,
        Extenders(configuration.extenders, access.tenure) as extenders,
    ):
        await schedule(
            configuration,
            access,
            extenders,
            clock,
            rng,
            options,
            Instruments(registry, clock.now, options.feature_gates, tracing),
            file=file,
            task_status=task_status,
        )


async def schedule(
    configuration: KubeSchedulerConfiguration,
    access: Access,
    extenders: Extenders,
    clock: Clock,
    rng: Random,
    options: Options = DEFAULT_OPTIONS,
    instruments: Instruments | None = None,
    scheduler: Scheduler | None = None,
    file: ConfigurationFile | None = None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """`run_scheduler` with access to an API server that is open already, instruments and a
    scheduler that may be of derived classes.
    """
    election = configuration.leader_election
    terms = terms_of(election, rng) if election.leader_elect else None
    in_binding, mailboxes = PodsInBinding(), Mailboxes()
    refusals = Refusals(clock)
    noted = NotedAccess(access, refusals)
    listers, api = Listers(mailboxes, clock), ApiObjects(noted.calls, noted.plugins)
    if instruments is None:
        instruments = Instruments(registry_for(options), clock.now, options.feature_gates)
    handle = SchedulerHandle(api, listers, in_binding, options.feature_gates, clock, instruments)
    profiles = profiles_of(configuration, handle, instruments.gate)
    api.add_kinds(looked_up(profiles.values()))
    _log_start(access, profiles, terms)
    core = Core(configuration, profiles, mailboxes, in_binding, clock, instruments, options)
    instruments.registry.refresh_by(_counting(core))
    informers = Informers(access, profiles, mailboxes, listers, options.feature_gates)
    rights = Rights(refusals, informers.paths, informers.refused, election, access.run_apart, clock)
    debugger = _debugger(core, informers)
    readiness = Readiness(task_status, informers)

    def build(new: KubeSchedulerConfiguration) -> dict[str, Profile]:
        return profiles_of(new, handle, instruments.gate)

    async def follow(new: Collection[Profile]) -> None:
        api.add_kinds(looked_up(new))
        await extra.start(informers.follow_for(new))

    async def swap(new: KubeSchedulerConfiguration) -> Swapped:
        return await core.swap(new, build, follow, informers.pods.objects)

    extra = Extra(clock, rng)
    reloader = Reloader(file, lambda: core.configuration, swap, clock)

    heartbeat = Heartbeat()
    served: tuple[Child, ...] = ()
    serving = options.serving
    if serving is not None and serving.secure_port:
        Sizes(instruments.registry, mailboxes, informers.count_unreadable)
        page = MetricsPage(instruments.registry, options.feature_gates)
        leader = leader_election(access.tenure, election)
        live = ping(heartbeat.still_for, options.liveness_stall)
        slis = HealthMeasures(registry_for(options), PROCESS_START.timestamp())
        health = _health(election, readiness, leader, live, slis)
        chance = Random(rng.random())
        served = (
            _server(
                serving,
                options,
                core,
                informers,
                debugger,
                health,
                slis,
                page,
                access.tenure.permits,
                chance,
            ),
        )
        warn_of_unknown(instruments.registry)

    outbox = RecorderState(SeriesTracker(socket.gethostname()))
    recorder = RecorderActor(mailboxes, outbox, noted.events, clock, rng)
    scheduler = scheduler or Scheduler(
        rng,
        configuration.percentage_of_nodes_to_score,
        configuration.extenders,
        remembers=options.feature_gates["OpportunisticBatching"],
        witness=decision_log(),
    )
    gated = (
        Child("recorder's writers", recorder.write),
        *core.gated(noted.calls, api, extenders, scheduler, rng),
    )
    if terms is not None:
        gated = (_leader(terms, core, noted, heartbeat, gated, rng),)
    else:
        access.tenure.lasts_until(ALWAYS)

    children = (
        Child("heartbeat", heartbeat.run),
        Child("reloader", reloader.run),
        Child("rights", rights.run, OnCrash.RETRY),
        Child("instruments", partial(_settling, instruments, clock)),
        *served,
        Child("recorder", recorder.run),
        *core.owners(),
        Child("informers of later profiles", extra.run),
        *informers.children(),
        Child("cache debugger", debugger.run),
        *gated,
        Child("watch for the end", readiness.watch_for_the_end),
    )
    try:
        await Supervisor(children, clock, rng).run(task_status=readiness)
    finally:
        mailboxes.close()


def _log_start(access: Access, profiles: Mapping[str, Profile], terms: Terms | None) -> None:
    lease = (
        {}
        if terms is None
        else {
            "identity": terms.identity,
            "lock": terms.lock,
        }
    )
    log.info(
        "starting",
        version=BERTH,
        kubernetes=KUBERNETES,
        server=access.server,
        profiles=",".join(profiles),
        **lease,
    )


def _leader(
    terms: Terms,
    core: Core,
    access: Access,
    heartbeat: Heartbeat,
    gated: Sequence[Child],
    rng: Random,
) -> Child:
    """The leader election, which runs the gated children while it holds the lease."""
    leader = LeaderActor(
        terms,
        access,
        core.mailboxes,
        core.instruments,
        next(iter(core.profiles)),
        heartbeat.still_for,
        Supervisor(gated, core.clock, rng).run,
        BootClock(),
        rng,
    )
    # A stop ends the gated part, undoes the bindings under way, and releases the lease.
    return Child("leader election", leader.run, stop_deadline=20.0)
