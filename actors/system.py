"""The whole process: its parts, and the order in which they start.

Every actor is made here, the informers all at once; details of the parts are in `wiring`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import anyio
from anyio.abc import TaskStatus

from berth.config.options import Options
from berth.config.types import KubeSchedulerConfiguration

from .attempt.decision_log import decision_log
from .attempt.ending import Attempts
from .attempt.flight_file import FlightFile
from .attempt.flights import FlightRecorder
from .binding.actor import BindingActor
from .binding.state import PodsInBinding
from .cache.actor import CacheActor
from .cache.debugger import CacheDebugger
from .cache.state import CacheState
from .client.access import Access, remote
from .client.extender.calls import Extenders, sent_whole
from .client.measures import ClientMeasures
from .client.objects import ApiObjects
from .client.rest import Connection
from .client.rights import NotedAccess, Refusals, Rights
from .client.tenure import ALWAYS
from .configuration.file import ConfigurationFile
from .configuration.plugin_packages import origin_of
from .cycle.actor import CycleActor
from .cycle.doctor import Doctor
from .informer.listers import Listers
from .leader.actor import LeaderActor, terms_of
from .leader.state import Terms
from .mailboxes import Mailboxes
from .preemption.actor import PreemptionActor
from .process.heartbeat import Heartbeat
from .process.memory import Memory, limit
from .process.version import BERTH
from .queue.actor import QueueActor
from .queue.state import QueueState
from .recorder.actor import RecorderActor
from .recorder.series import SeriesTracker
from .recorder.state import RecorderState
from .runtime.clock import BootClock, Clock
from .runtime.supervisor import Child, OnCrash, Stage, Supervisor
from .scheduling.decision.observer import DecisionObserver, observed_by
from .scheduling.decision.scheduler import Scheduler
from .scheduling.framework.breaker import Breaker
from .scheduling.framework.interface import Plugin
from .scheduling.framework.logger import get_logger
from .server.actor import ServerActor
from .server.metrics.page import warn_of_unknown
from .telemetry.instruments import Instruments
from .telemetry.plugin_metrics import PluginMetrics
from .telemetry.tracing import Tracing
from .wiring.breaker_reports import BreakerReports, limits_of, patience_of
from .wiring.glance import Lookout, Parts
from .wiring.informers import Informers, looked_up
from .wiring.pages import Readiness, count_when_read, debug_of, pages_of, registry_for
from .wiring.plugin_lives import PluginLives
from .wiring.plugin_reloader import PluginReloader
from .wiring.profiles import ProfilesInUse, first_rules
from .wiring.reloader import Reloader
from .wiring.scheduler_handle import Outlets, SchedulerHandle
from .wiring.swap import Swap

log = get_logger(__name__)

DEFAULT_OPTIONS = Options()


class Daemon:
    """The scheduler as a process. The constructor makes each part from those above it, and
    `children` lists the parts in the order of their start.

    `instruments` may be of a derived class. `observer` sees each decision; without it, the log
    does. The profiles follow `file`, if there is one. Attempts are also written to `flight_file`.
    `lease_clock` is that of the access' tenure, by default one that includes the time for which the
    machine slept. `host` is the name by which the scheduler signs, by default the machine's.
    `plugins` are those that no package registers. `on_abandoned` is called when a part does not
    end in its time.
    """

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        access: Access,
        extenders: Extenders,
        clock: Clock,
        rng: Random,
        options: Options = DEFAULT_OPTIONS,
        *,
        instruments: Instruments | None = None,
        observer: DecisionObserver | None = None,
        file: ConfigurationFile | None = None,
        flight_file: FlightFile | None = None,
        lease_clock: Clock | None = None,
        host: str = "",
        plugins: Sequence[type[Plugin]] = (),
        on_abandoned: Callable[[], None] = lambda: None,
    ) -> None:
        """Makes the parts. Raises RegistryError with every field of the configuration that is
        wrong.
        """
        gates, election = options.feature_gates, configuration.leader_election
        host = host or socket.gethostname()
        names = [profile.scheduler_name for profile in configuration.profiles]
        self._terms = terms_of(election, rng, names, host) if election.leader_elect else None
        self._lease_clock = lease_clock or BootClock()
        self._configuration, self._options = configuration, options
        self._clock, self._rng, self._access = clock, rng, access
        self._on_abandoned = on_abandoned

        # The parts that all others share.
        self._mailboxes = mailboxes = Mailboxes()
        self._heartbeat = Heartbeat()
        if instruments is None:
            instruments = Instruments(registry_for(options), clock.now, gates)
        self._instruments = instruments
        self._in_binding = PodsInBinding()
        refusals = Refusals(clock)
        noted = NotedAccess(access, refusals)
        retries = gates["BindingRetried"]
        api = ApiObjects(noted.calls, clock, rng, noted.plugins, retries_binding=retries)
        flights: FlightRecorder | None = None
        if options.recorder_bytes:
            put = None if flight_file is None else flight_file.put
            flights = FlightRecorder(options.recorder_bytes, clock, put)

        # The profiles, and the informers of the kinds that they need.
        listers = Listers(mailboxes, clock)
        own = PluginMetrics(instruments.registry)
        outlets = Outlets(mailboxes, access.tenure, own, api.kind_of)
        handle = SchedulerHandle(
            api, listers, self._in_binding, gates, clock.now, clock.wall, instruments, outlets
        )
        reports = BreakerReports(mailboxes, instruments.registry, access.tenure, self._plugins)

        patience = patience_of(options)

        def breaker_of(plugin: type[Plugin], profile: str) -> Breaker:
            return Breaker(
                plugin.name,
                profile,
                limits_of(options),
                clock.now,
                reports.tell,
                left_out=plugin.may_be_left_out,
                patience=patience,
            )

        self._profiles = ProfilesInUse(configuration, handle, instruments.gate, plugins, breaker_of)
        profiles = self._profiles.by_name
        api.add_kinds(looked_up(profiles.values()))
        self._informers = informers = Informers(
            access, profiles, mailboxes, listers, gates, clock, rng
        )
        self._rights = Rights(
            refusals, informers.paths, informers.refused, election, access.run_apart, clock
        )
        self._lives = PluginLives(self._profiles.plugins, clock, rng)
        swap = Swap(self._profiles, informers, api, mailboxes, self._lives)
        self._reloader = Reloader(file, swap.go_on_with, clock)
        self._plugin_reloader: PluginReloader | None = None
        if options.reload_plugins:
            self._plugin_reloader = PluginReloader(swap.go_on_with_other_classes, clock)

        # The owners of state.
        outbox = RecorderState(SeriesTracker(host))
        self._recorder = RecorderActor(mailboxes, outbox, noted.events, clock, rng)
        self._cache = CacheActor(mailboxes, CacheState())
        rules = first_rules(configuration, profiles, instruments, options)
        self._queue = QueueActor(mailboxes, QueueState(rules), clock, instruments)

        # The parts that show the others.
        nodes, pods = informers.nodes.objects, informers.pods.objects
        self._debugger = CacheDebugger(
            mailboxes, nodes, pods, profiles.keys(), clock, self._in_binding.statistics
        )
        count_when_read(instruments, mailboxes, profiles)
        self._readiness = Readiness(informers)
        parts = Parts(
            options,
            mailboxes,
            instruments,
            self._profiles,
            informers,
            self._in_binding,
            self._debugger,
            access.tenure,
            self._heartbeat,
            self._outdated,
            flights,
            flight_file,
            clock,
            reports,
        )
        self.lookout = Lookout(parts)
        self.debug = debug_of(parts, self.lookout)
        self._serving: tuple[Child, ...] = ()
        if options.serving is not None and options.serving.secure_port:
            pages = pages_of(parts, self._readiness, self.lookout, self.debug)
            server = ServerActor(options.serving, options, pages, Random(rng.random()))
            self._serving = (Child("server", server.run, stop_deadline=10.0),)

        # The actors that decide and write, which only a leader may do.
        attempts = Attempts(mailboxes, clock, instruments, flights)
        observer = observed_by(observer or decision_log(), flights)
        self._gated = self._deciding(noted, api, extenders, attempts, observer)
        self._leading = self._gated if self._terms is None else self._leader(self._terms, noted)

    def _plugins(self) -> list[Plugin]:
        return self._profiles.plugins()

    def _outdated(self) -> str:
        """Returns why the configuration file or that of a plugin is not in use, "" if they are."""
        of_plugins = "" if self._plugin_reloader is None else self._plugin_reloader.problem
        return self._reloader.problem or of_plugins

    def _deciding(
        self,
        noted: NotedAccess,
        api: ApiObjects,
        extenders: Extenders,
        attempts: Attempts,
        observer: DecisionObserver | None,
    ) -> tuple[Child, ...]:
        """Makes the actors that decide and write, which only a leader may do. Returns them in the
        order in which they start.
        """
        mailboxes, clock, rng = self._mailboxes, self._clock, self._rng
        configuration, profiles = self._configuration, self._profiles.by_name
        gates = self._options.feature_gates
        preemption = PreemptionActor(
            mailboxes, noted.calls, api, clock, rng, configuration.parallelism, attempts
        )
        binding = BindingActor(
            mailboxes,
            extenders,
            api,
            clock,
            self._in_binding,
            attempts,
            nominates=gates["NominatedNodeNameForExpectation"],
            known=self._informers.pods.objects,
        )
        scheduler = Scheduler(
            rng,
            configuration.percentage_of_nodes_to_score,
            configuration.extenders,
            remembers=gates["OpportunisticBatching"],
            observer=observer,
        )
        cycle = CycleActor(
            mailboxes,
            profiles,
            scheduler,
            extenders,
            clock,
            attempts,
            preempts_aside=gates["SchedulerAsyncPreemption"],
        )
        doctor = Doctor(mailboxes, profiles, extenders, clock)
        return (
            Child("recorder's writers", self._recorder.write),
            Child("plugins' tasks with the lease", self._lives.lead),
            Child("preemption", preemption.run),
            Child("binding", binding.run, stop_deadline=10.0),
            Child("cycle", cycle.run),
            Child("doctor", doctor.run, OnCrash.RETRY),
        )

    def _leader(self, terms: Terms, noted: NotedAccess) -> tuple[Child, ...]:
        """Makes the actor that holds the lease, and runs the gated parts while it does."""
        leader = LeaderActor(
            terms,
            noted,
            self._mailboxes,
            self._instruments,
            next(iter(self._profiles.by_name)),
            self._heartbeat.still_for,
            Supervisor(self._gated, self._clock, self._rng, self._on_abandoned).run,
            self._lease_clock,
            self._rng,
        )
        # A stop ends the gated part, undoes the bindings under way, and releases the lease.
        return (Child("leader election", leader.run, stop_deadline=20.0),)

    def children(self, *, of_process: bool = True) -> tuple[Stage, ...]:
        """Returns the parts in the order in which they start. They stop in reverse.

        Without `of_process`, those are left out that need a process of their own: they wait for
        signals, or measure how long the loop is blocked and what memory is used.
        """
        heartbeat = Child("heartbeat", self._heartbeat.run)
        memory = Child("memory", Memory(self._clock, limit()).run)
        reloader = Child("reloader", self._reloader.run)
        debugger = Child("cache debugger", self._debugger.run)
        of_plugins = self._plugin_reloader
        return (
            *((heartbeat, memory, reloader) if of_process else ()),
            Child("rights", self._rights.run, OnCrash.RETRY),
            Child("instruments", partial(self._instruments.run, self._clock)),
            *self._serving,
            Child("recorder", self._recorder.run),
            Child("cache", self._cache.run),
            Child("queue", self._queue.run),
            self._informers.children(),  # They have started when they are synced.
            *((debugger,) if of_process else ()),
            Child("plugins", self._lives.run, stop_deadline=10.0),
            *self._leading,
            *(() if of_plugins is None else (Child("plugin reloader", of_plugins.run),)),
            Child("watch for the end", self._readiness.run),
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Schedules until cancelled; started means that the caches are synced. Raises the error
        that ended it.
        """
        self._log_start()
        if self._terms is None:
            self._access.tenure.lasts_until(ALWAYS)
        supervisor = Supervisor(self.children(), self._clock, self._rng, self._on_abandoned)
        try:
            await supervisor.run(task_status=task_status)
        finally:
            self._mailboxes.close()

    def _log_start(self) -> None:
        terms = self._terms
        lease = {} if terms is None else {"identity": terms.identity, "lock": terms.lock}
        origins = {type(each).name: origin_of(type(each)) for each in self._plugins()}
        others = [f"{name} ({origin})" for name, origin in origins.items() if origin is not None]
        plugins = {"plugins": ", ".join(others)} if others else {}
        log.info(
            "starting",
            version=BERTH,
            kubernetes=self._options.version.release,
            server=self._access.server,
            profiles=",".join(self._profiles.by_name),
            **plugins,
            **lease,
        )
        if self._serving:
            warn_of_unknown(self._instruments.registry)


async def run_scheduler(
    configuration: KubeSchedulerConfiguration,
    connection: Connection,
    clock: Clock,
    rng: Random,
    options: Options = DEFAULT_OPTIONS,
    file: ConfigurationFile | None = None,
    tracing: Tracing | None = None,
    flight_file: FlightFile | None = None,
    *,
    on_abandoned: Callable[[], None] = lambda: None,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a Daemon against the API server of a connection, with instruments that trace if there is
    `tracing`.
    """
    limits, registry = configuration.client_connection, registry_for(options)
    measures, sent = ClientMeasures(registry), sent_whole(configuration.extenders)
    streams = options.feature_gates["WatchListClient"]
    async with (
        remote(
            connection,
            clock,
            rng,
            limits.qps,
            limits.burst,
            measures,
            streams=streams,
            keeps_whole=sent,
        ) as access,
        Extenders(configuration.extenders, access.tenure) as extenders,
    ):
        instruments = Instruments(registry, clock.now, options.feature_gates, tracing)
        daemon = Daemon(
            configuration,
            access,
            extenders,
            clock,
            rng,
            options,
            instruments=instruments,
            file=file,
            flight_file=flight_file,
            on_abandoned=on_abandoned,
        )
        await daemon.run(task_status=task_status)
