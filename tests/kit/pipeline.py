"""The pipeline without an API server: queue, cache, cycle, binding and preemption, and a store that
takes bindings.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import TypeVar

import anyio
import msgspec

from berth.actors.attempt.ending import Attempts
from berth.actors.attempt.flights import FlightRecorder
from berth.actors.binding.actor import BindingActor
from berth.actors.binding.state import PodsInBinding
from berth.actors.cache.actor import CacheActor
from berth.actors.cache.state import CacheState
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.objects import ApiObjects
from berth.actors.client.rest import ApiError
from berth.actors.client.tenure import ALWAYS, Tenure
from berth.actors.cycle.actor import CycleActor
from berth.actors.cycle.doctor import Doctor
from berth.actors.informer.listers import Listers
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import AssignedPodAdded, NodeAdded
from berth.actors.messages.queue import ClusterChanged, PendingPodAdded, PodNoLongerPending
from berth.actors.messages.recorder import RecorderMessage, SetNominatedNode
from berth.actors.preemption.actor import PreemptionActor
from berth.actors.queue.actor import QueueActor
from berth.actors.queue.state import QueueState
from berth.actors.runtime.supervisor import Child, Supervisor
from berth.actors.scheduling.decision.registry import build_profiles
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.events import Action, ClusterEvent, Resource
from berth.actors.scheduling.framework.interface import Plugin
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.telemetry.plugin_metrics import PluginMetrics
from berth.actors.wiring.profiles import first_rules
from berth.actors.wiring.scheduler_handle import Outlets, SchedulerHandle
from berth.config.feature_gates import with_defaults
from berth.config.load import from_mapping
from berth.config.options import Options
from tests.kit.clock import VirtualClock
from tests.kit.inbox import Inbox
from tests.kit.instruments import unread
from tests.kit.tasks import started

T = TypeVar("T")


class Store:
    """Takes bindings as an API server does, and passes them on as its watches do.

    The first bindings are answered with the `refusals`. All wait until `ready` is set. `under_way`
    is the number of bindings that have no answer yet, `most` the highest there has been. It takes
    evictions if `evicting` is given; they wait until it is set, and the first are answered with
    `eviction_refusals`.
    """

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self.pods: dict[str, Pod] = {}
        self.bound: list[tuple[str, str]] = []
        self.refusals: list[ApiError] = []
        self.ready = anyio.Event()
        self.ready.set()
        self.under_way = self.most = 0
        self.evicting: anyio.Event | None = None
        self.eviction_refusals: list[ApiError] = []
        self.evicted: list[str] = []

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await anyio.lowlevel.checkpoint()
        await self.ready.wait()
        self.under_way -= 1
        if self.refusals:
            raise self.refusals.pop(0)
        pod = self.pods[f"{namespace}/{name}"]
        assert pod.metadata.uid == uid
        assert not pod.spec.node_name, f"{name} is bound twice"
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        self.pods[f"{namespace}/{name}"] = bound
        self.bound.append((name, node))
        self._mailboxes.queue.tell(PodNoLongerPending(pod))
        self._mailboxes.cache.tell(AssignedPodAdded(bound))

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "",
    ) -> T:
        if method == "GET":
            _, namespace, _, name = path.rsplit("/", 3)
            return msgspec.convert(msgspec.to_builtins(self.pods[f"{namespace}/{name}"]), answer)
        if self.evicting is None:
            raise AssertionError(f"{method} {path}: this store only takes bindings")
        await self.evicting.wait()
        if self.eviction_refusals:
            raise self.eviction_refusals.pop(0)
        if method == "DELETE":
            self.evicted.append(path.rpartition("/")[2])
        return msgspec.convert({}, answer)

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        return await self.call("PATCH", path, answer, body, kind)


class Pipeline:
    """A running pipeline; time is virtual. Messages for the recorder are kept in `recorder`."""

    def __init__(
        self, plugins: Sequence[type[Plugin]], gates: Mapping[str, bool], recorder_bytes: int
    ) -> None:
        self.clock = VirtualClock()
        self.flights = FlightRecorder(recorder_bytes, self.clock) if recorder_bytes else None
        self.recorder: Inbox[RecorderMessage] = Inbox("recorder")
        self.mailboxes = Mailboxes(recorder=self.recorder)
        self.queue, self.cache = self.mailboxes.queue, self.mailboxes.cache
        self.binding = self.mailboxes.binding
        self.store = Store(self.mailboxes)
        self.in_binding = PodsInBinding()
        self.listers = Listers(self.mailboxes, self.clock)
        extra = {"enabled": [{"name": plugin.name} for plugin in plugins]}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": extra}}],
        }
        configuration = from_mapping(document)
        registry = {**IN_TREE, **{plugin.name: plugin for plugin in plugins}}
        api = ApiObjects(self.store, self.clock, Random(1))
        options = Options(feature_gates=with_defaults(gates))
        self.instruments = unread(self.clock)
        tenure = Tenure(self.clock.now)
        tenure.lasts_until(ALWAYS)
        handle = SchedulerHandle(
            api,
            self.listers,
            self.in_binding,
            options.feature_gates,
            self.clock.now,
            self.clock.wall,
            self.instruments,
            Outlets(
                self.mailboxes,
                tenure,
                PluginMetrics(self.instruments.registry),
                api.kind_of,
            ),
        )
        profiles = build_profiles(configuration, registry, handle)
        self.queue_state = QueueState(
            first_rules(configuration, profiles, self.instruments, options)
        )
        self.cache_state = CacheState()
        mailboxes, clock, instruments, rng = self.mailboxes, self.clock, self.instruments, Random(1)
        extenders, gates = Extenders(), options.feature_gates
        queue = QueueActor(mailboxes, self.queue_state, clock, instruments)
        attempts = Attempts(mailboxes, clock, instruments, self.flights)
        preemption = PreemptionActor(
            mailboxes,
            self.store,
            api,
            clock,
            rng,
            configuration.parallelism,
            attempts,
        )
        binding = BindingActor(
            mailboxes,
            extenders,
            api,
            clock,
            self.in_binding,
            attempts,
            nominates=gates["NominatedNodeNameForExpectation"],
        )
        cycle = CycleActor(
            mailboxes,
            profiles,
            Scheduler(Random(1), observer=self.flights),
            extenders,
            clock,
            attempts,
            preempts_aside=gates["SchedulerAsyncPreemption"],
        )
        self.children = (
            Child("cache", CacheActor(mailboxes, self.cache_state).run),
            Child("queue", queue.run),
            Child("preemption", preemption.run),
            Child("binding", binding.run, stop_deadline=10.0),
            Child("cycle", cycle.run),
            Child("doctor", Doctor(mailboxes, profiles, extenders, clock).run),
        )

    async def add_node(self, node: Node) -> None:
        self.cache.tell(NodeAdded(node))
        self.queue.tell(
            ClusterChanged(ClusterEvent(Resource.NODE, Action.ADD, "NodeAdd"), None, node)
        )

    async def add_pod(self, pod: Pod) -> None:
        self.store.pods[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
        self.queue.tell(PendingPodAdded(pod))

    def nominated(self) -> list[tuple[str, str]]:
        """Returns the nominations that the recorder was sent alone; takes all its messages out."""
        return [
            (order.pod.metadata.name, order.nominated_node)
            for order in self.recorder.take()
            if isinstance(order, SetNominatedNode)
        ]


@asynccontextmanager
async def pipeline(
    *plugins: type[Plugin], recorder_bytes: int = 0, **gates: bool
) -> AsyncIterator[Pipeline]:
    """Runs a pipeline with these feature gates until the block is left, then validates its
    states. It has a flight recorder if `recorder_bytes` is above 0.
    """
    running = Pipeline(plugins, gates, recorder_bytes)
    async with started(Supervisor(running.children, running.clock, Random(1)).run):
        yield running
        await running.clock.settle()
    running.queue_state.validate()
    running.cache_state.validate()
    running.in_binding.validate()
    running.mailboxes.close()
