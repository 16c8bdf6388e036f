"""The composition root: the actors in their order, and the only place where they are wired
together.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any
from uuid import UUID

import anyio
import msgspec
from anyio.abc import TaskStatus
from berth.actors.binding.actor import BindingActor
from berth.actors.binding.state import PodsInBinding
from berth.actors.cache.actor import CacheActor
from berth.actors.cache.debugger import CacheDebugger
from berth.actors.cache.state import CacheState
from berth.actors.client.access import Access, Calls, remote
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.rest import ApiError, Connection, ConnectionFailedError
from berth.actors.client.tenure import ALWAYS
from berth.actors.cycle.actor import CycleActor
from berth.actors.informer.actor import InformerActor
from berth.actors.informer.routing import route_node, route_object, route_pod
from berth.actors.informer.stand_ins import node_without_new_pods, pod_with_its_room
from berth.actors.leader.actor import LeaderActor
from berth.actors.leader.election import Election
from berth.actors.leader.state import Terms
from berth.actors.messages import (
    BindingMessage,
    CacheMessage,
    KindListed,
    PreemptionMessage,
    QueueMessage,
    RecorderMessage,
)
from berth.actors.preemption.actor import PreemptionActor
from berth.actors.queue.actor import QueueActor
from berth.actors.queue.state import QueueRules, QueueState
from berth.actors.recorder.actor import RecorderActor
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState
from berth.actors.runtime.clock import BootClock, Clock
from berth.actors.runtime.heartbeat import Heartbeat
from berth.actors.runtime.mailbox import Mailbox
from berth.actors.runtime.observer import NOBODY, Both, Observer
from berth.actors.runtime.supervisor import Child, OnCrash, Supervisor
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import build_profiles, with_entry_points
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.interface import Handle
from berth.actors.scheduling.framework.status import SUCCESS, Status, error
from berth.actors.scheduling.kube.kinds import LOOKED_UP, NODES, PODS, WatchedKind
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.server.actor import Address, ServerActor
from berth.actors.server.debug import Debug
from berth.actors.server.metrics import Metrics
from berth.config.extenders import without_ignored_resources
from berth.config.feature_gates import DEFAULTS
from berth.config.load import to_document
from berth.config.types import KubeSchedulerConfiguration

ASSUMED_TTL_SECONDS = (
    0.0  # for ever, as in kube-scheduler: only the watch says what became of a binding
)


class Options(msgspec.Struct, frozen=True):
    """What `berth run` is told by flags, as kube-scheduler is, and not by its configuration.

    `max_unschedulable` is in seconds; `serve_at` is where health and metrics are served, None for
    nowhere.
    """

    max_unschedulable: float = 300.0
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=lambda: DEFAULTS)
    serve_at: Address | None = None


DEFAULT_OPTIONS = Options()


class ApiWrites:
    """The writes that plugins may make, through the client; refusals come back as statuses."""

    def __init__(self, client: Calls) -> None:
        self._client = client

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
        try:
            await self._client.bind(namespace, name, uid, node)
        except (ApiError, ConnectionFailedError) as failure:
            return error(str(failure))
        return SUCCESS


class ClientHandle:
    """What plugins are given."""

    def __init__(
        self, api: ApiWrites, waiting: PodsInBinding, feature_gates: Mapping[str, bool]
    ) -> None:
        self.api = api
        self.waiting = waiting
        self.feature_gates = feature_gates


class Readiness(TaskStatus[None]):
    """Passes on that all is started, and remembers it: every informer has its first list then, or
    may not have it.

    `problems` are the informers' as they are now.
    """

    def __init__(self, told: TaskStatus[None], problems: Callable[[], Sequence[str]]) -> None:
        self._told = told
        self._problems = problems
        self._reached = False

    def started(self, value: None = None) -> None:
        self._reached = True
        self._told.started()

    def missing(self) -> str | None:
        """None if nothing is, else what the API server refuses to list, as far as that is why."""
        problems = self._problems()
        return None if self._reached and not problems else "; ".join(problems)


def _cached(cache: CacheState) -> dict[str, int]:
    counts = cache.statistics()
    return {"nodes": counts.nodes, "pods": counts.pods, "assumed_pods": counts.assumed_pods}


def _mended(cache: CacheState, queue: QueueState) -> dict[str, int]:
    counts = cache.statistics()
    return {
        "difference": counts.healed,
        "snapshot": counts.repaired,
        "pending_pod": queue.statistics().healed,
    }


def _pending(queue: QueueState) -> dict[str, int]:
    counts = queue.statistics()
    return {
        "active": counts.active,
        "backoff": counts.backoff,
        "unschedulable": counts.unschedulable,
        "gated": counts.gated,
    }


def _looked_up(profiles: Collection[Profile]) -> set[WatchedKind]:
    """The kinds that plugins look up, or whose events they wait for."""
    types = {kind for profile in profiles for plugin in profile.plugins for kind in plugin.lookups}
    registered = (
        each for profile in profiles for events in profile.hints().values() for each in events
    )
    waited_for = {registration.event.resource.kind for registration in registered}
    return {kind for kind in LOOKED_UP if kind.type in types or kind.kind in waited_for}


def profiles_of(configuration: KubeSchedulerConfiguration, handle: Handle) -> dict[str, Profile]:
    """The profiles by scheduler name. Raises RegistryError or ProfileError with the path of what
    does not fit.
    """
    return build_profiles(
        without_ignored_resources(configuration), with_entry_points(IN_TREE), handle
    )


async def run_scheduler(
    configuration: KubeSchedulerConfiguration,
    connection: Connection,
    clock: Clock,
    rng: Random,
    options: Options = DEFAULT_OPTIONS,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Schedule until cancelled; started once the caches are synced. Raises what ended it, or a
    configuration error.
    """
    limits = configuration.client_connection
    async with (
        remote(connection, clock, rng, limits.qps, limits.burst) as access,
        Extenders(configuration.extenders, access.tenure) as extenders,
    ):
        await schedule(
            configuration, access, extenders, clock, rng, options, task_status=task_status
        )


async def schedule(
    configuration: KubeSchedulerConfiguration,
    access: Access,
    extenders: Extenders,
    clock: Clock,
    rng: Random,
    options: Options = DEFAULT_OPTIONS,
    observer: Observer = NOBODY,
    scheduler: Scheduler | None = None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """`run_scheduler` with access to an API server that is open already; what takes long is told to
    the observer.

    Decisions are made by `scheduler`, or by one of its own.
    """
    in_binding = PodsInBinding()
    handle = ClientHandle(ApiWrites(access.calls), in_binding, options.feature_gates)
    profiles = profiles_of(configuration, handle)
    queue: Mailbox[QueueMessage] = Mailbox("queue", None)
    cache: Mailbox[CacheMessage] = Mailbox("cache", None)
    binding: Mailbox[BindingMessage] = Mailbox("binding", None)
    preemption: Mailbox[PreemptionMessage] = Mailbox("preemption", None)
    recorder: Mailbox[RecorderMessage] = Mailbox("recorder", None)
    first = next(iter(profiles.values()))
    rules = QueueRules(
        first.sort_key,
        lambda pod: profiles[pod.spec.scheduler_name].pre_enqueue(pod),
        {name: profile.hints() for name, profile in profiles.items()},
        configuration.pod_initial_backoff_seconds,
        configuration.pod_max_backoff_seconds,
        options.max_unschedulable,
    )
    nodes = InformerActor(
        access.follow(NODES.path, NODES.type), route_node, cache, queue, node_without_new_pods
    )
    pods = InformerActor(
        access.follow(PODS.path, PODS.type, PODS.selector),
        lambda change: route_pod(change, profiles.keys()),
        cache,
        queue,
        pod_with_its_room,
    )
    informers: dict[str, InformerActor[Any]] = {}
    wanted = _looked_up(profiles.values())
    for kind in LOOKED_UP:
        if kind in wanted:
            source = access.follow(kind.path, kind.type)
            informers[kind.kind] = InformerActor(
                source, route_object, cache, queue, looked_up=kind.type
            )
        else:
            cache.tell_nowait(
                KindListed(kind.type, f"no enabled plugin names {kind.kind} in its lookups")
            )
    informers |= {NODES.kind: nodes, PODS.kind: pods}
    queue_state, cache_state = QueueState(rules), CacheState(ASSUMED_TTL_SECONDS)
    readiness = Readiness(
        task_status, lambda: [i.problem() for i in informers.values() if i.problem()]
    )
    statistics = {
        "cache": cache_state.statistics,
        "queue": queue_state.statistics,
        "binding": in_binding.statistics,
    }
    debugger = CacheDebugger(
        cache, queue, nodes.objects, pods.objects, profiles.keys(), clock, statistics
    )
    served: tuple[Child, ...] = ()
    if options.serve_at is not None:
        metrics = Metrics(
            lambda: _pending(queue_state),
            lambda: _cached(cache_state),
            lambda: _mended(cache_state, queue_state),
            lambda: {name: len(informer.unreadable()) for name, informer in informers.items()},
        )
        observer = metrics if observer is NOBODY else Both(observer, metrics)
        debug = Debug(
            debugger.nodes,
            debugger.compare,
            queue,
            lambda: in_binding.dump(clock.now()),
            clock,
            lambda: [found for informer in informers.values() for found in informer.unreadable()],
        )
        server = ServerActor(
            options.serve_at, readiness.missing, metrics.text, to_document(configuration), debug
        )
        served = (Child("server", server.run),)
    if scheduler is None:
        scheduler = Scheduler(
            rng, configuration.percentage_of_nodes_to_score, configuration.extenders
        )
    heartbeat = Heartbeat()
    records = RecorderActor(
        recorder, RecorderState(SeriesTracker(socket.gethostname())), access.events, clock, rng
    )
    children: tuple[Child, ...] = (
        Child("heartbeat", heartbeat.run),
        *served,
        Child("recorder", records.run),
        Child("cache", CacheActor(cache, cache_state, clock, queue, binding).run),
        Child("queue", QueueActor(queue, queue_state, clock, cache, recorder).run),
        *(
            Child(f"informer of {name}", informer.run, OnCrash.RETRY)
            for name, informer in informers.items()
        ),
        Child("cache debugger", debugger.run),
    )
    binder = BindingActor(
        binding, profiles, extenders, clock, queue, cache, recorder, in_binding, observer
    )
    preemptor = PreemptionActor(
        preemption, in_binding, access.calls, clock, rng, queue, recorder, configuration.parallelism
    )
    cycle = CycleActor(
        profiles, scheduler, extenders, clock, queue, cache, binding, preemption, recorder, observer
    )
    gated = (
        Child("recorder's writers", records.write),
        Child("preemption", preemptor.run),
        Child("binding", binder.run, stop_deadline=10.0),
        Child("cycle", cycle.run),
    )
    election = configuration.leader_election
    if election.leader_elect:
        terms = Terms(
            f"{socket.gethostname()}_{UUID(int=rng.getrandbits(128), version=4)}",
            election.resource_namespace,
            election.resource_name,
            election.lease_duration,
            election.renew_deadline,
            election.retry_period,
        )
        chance = Random(rng.getrandbits(64))  # of another thread

        async def elect(leads: Callable[[], None]) -> None:
            await access.run_apart(
                lambda calls: Election(
                    terms, calls, BootClock(), chance, access.tenure, heartbeat.still_for
                ).run(leads)
            )

        leader = LeaderActor(
            terms, elect, recorder, first.scheduler_name, Supervisor(gated, clock, rng).run
        )
        # Stopping it ends the gated part, undoes what it must and gives the lease back.
        children += (Child("leader election", leader.run, stop_deadline=20.0),)
    else:
        access.tenure.lasts_until(ALWAYS)
        children += gated
    try:
        await Supervisor(children, clock, rng).run(task_status=readiness)
    finally:
        for mailbox in (queue, cache, binding, preemption, recorder):
            mailbox.close()
