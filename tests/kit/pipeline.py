"""The pipeline without an API server: queue, cache, cycle, binding, and a store of bindings in its
place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import anyio
import msgspec
from berth.actors.binding.actor import BindingActor
from berth.actors.binding.state import PodsInBinding
from berth.actors.cache.actor import CacheActor
from berth.actors.cache.state import CacheState
from berth.actors.client.extender.calls import Extenders
from berth.actors.cycle.actor import CycleActor
from berth.actors.messages import (
    AssignedPodAdded,
    BindingMessage,
    CacheMessage,
    ClusterChanged,
    NodeAdded,
    PendingPodAdded,
    PendingPodDeleted,
    PreemptionMessage,
    QueueMessage,
    RecorderMessage,
    SetNominatedNode,
)
from berth.actors.queue.actor import QueueActor
from berth.actors.queue.state import QueueRules, QueueState
from berth.actors.runtime.mailbox import Mailbox
from berth.actors.scheduling.decision.registry import build_profiles
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.events import Action, ClusterEvent, Resource
from berth.actors.scheduling.framework.interface import Plugin
from berth.actors.scheduling.framework.status import SUCCESS, Status
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping

from tests.kit.clock import VirtualClock


class Store:
    """Takes bindings as an API server does and echoes them to the pipeline; `refusals` are answered
    first.

    It answers once `ready` is set. `under_way` is how many bindings it was asked for and has not
    answered, `most` how many there ever were at a time.
    """

    def __init__(self, queue: Mailbox[QueueMessage], cache: Mailbox[CacheMessage]) -> None:
        self._queue = queue
        self._cache = cache
        self.pods: dict[str, Pod] = {}
        self.bound: list[tuple[str, str]] = []
        self.refusals: list[Status] = []
        self.ready = anyio.Event()
        self.ready.set()
        self.under_way = self.most = 0

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await anyio.lowlevel.checkpoint()
        await self.ready.wait()
        self.under_way -= 1
        if self.refusals:
            return self.refusals.pop(0)
        pod = self.pods[f"{namespace}/{name}"]
        assert pod.metadata.uid == uid
        assert not pod.spec.node_name, f"{name} is bound twice"
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        self.pods[f"{namespace}/{name}"] = bound
        self.bound.append((name, node))
        await self._queue.tell(PendingPodDeleted(pod))
        await self._cache.tell(AssignedPodAdded(bound))
        return SUCCESS


class StoreHandle:
    feature_gates = DEFAULTS

    def __init__(self, api: Store, waiting: PodsInBinding) -> None:
        self.api = api
        self.waiting = waiting


class Pipeline:
    """A running pipeline; time is virtual."""

    def __init__(self, plugins: Sequence[type[Plugin]]) -> None:
        self.clock = VirtualClock()
        self.queue: Mailbox[QueueMessage] = Mailbox("queue", None)
        self.cache: Mailbox[CacheMessage] = Mailbox("cache", None)
        self.binding: Mailbox[BindingMessage] = Mailbox("binding", None)
        self.preemption: Mailbox[PreemptionMessage] = Mailbox("preemption", None)
        self.recorder: Mailbox[RecorderMessage] = Mailbox("recorder", None)
        self.store = Store(self.queue, self.cache)
        self.in_binding = PodsInBinding()
        extra = {"enabled": [{"name": plugin.name} for plugin in plugins]}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": extra}}],
        }
        registry = {**IN_TREE, **{plugin.name: plugin for plugin in plugins}}
        profiles = build_profiles(
            from_mapping(document), registry, StoreHandle(self.store, self.in_binding)
        )
        profile = profiles["default-scheduler"]
        hints = {name: p.hints() for name, p in profiles.items()}
        rules = QueueRules(profile.sort_key, profile.pre_enqueue, hints)
        self.queue_state, self.cache_state = QueueState(rules), CacheState()
        extenders = Extenders()
        self.actors = (
            CacheActor(self.cache, self.cache_state, self.clock, self.queue, self.binding),
            QueueActor(self.queue, self.queue_state, self.clock, self.cache, self.recorder),
            BindingActor(
                self.binding,
                profiles,
                extenders,
                self.clock,
                self.queue,
                self.cache,
                self.recorder,
                self.in_binding,
            ),
            CycleActor(
                profiles,
                Scheduler(Random(1)),
                extenders,
                self.clock,
                self.queue,
                self.cache,
                self.binding,
                self.preemption,
                self.recorder,
            ),
        )

    async def add_node(self, node: Node) -> None:
        await self.cache.tell(NodeAdded(node))
        await self.queue.tell(
            ClusterChanged(ClusterEvent(Resource.NODE, Action.ADD, "NodeAdd"), None, node)
        )

    async def add_pod(self, pod: Pod) -> None:
        self.store.pods[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
        await self.queue.tell(PendingPodAdded(pod))

    async def nominated(self) -> list[tuple[str, str]]:
        """Which nominations the recorder was told to write alone so far; all that it was told is
        taken out.
        """
        told = await self.told()
        return [
            (m.pod.metadata.name, m.nominated_node) for m in told if isinstance(m, SetNominatedNode)
        ]

    async def told(self) -> list[RecorderMessage]:
        """What the recorder was given so far, taken out."""
        return await self.recorder.drain() if self.recorder.statistics().depth else []


@asynccontextmanager
async def pipeline(*plugins: type[Plugin]) -> AsyncIterator[Pipeline]:
    """A pipeline that runs until the block is left; its states are validated then."""
    running = Pipeline(plugins)
    async with anyio.create_task_group() as group:
        for actor in running.actors:
            await group.start(actor.run)
        yield running
        await running.clock.settle()
        group.cancel_scope.cancel()
    running.queue_state.validate()
    running.cache_state.validate()
    running.in_binding.validate()
    for mailbox in (
        running.queue,
        running.cache,
        running.binding,
        running.preemption,
        running.recorder,
    ):
        mailbox.close()
