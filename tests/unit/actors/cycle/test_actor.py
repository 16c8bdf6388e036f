"""The cycle actor: whatever ends a decision, the snapshot is given back."""

from __future__ import annotations

from random import Random
from typing import TypeVar

import anyio
import msgspec
from berth.actors.cache.actor import CacheActor
from berth.actors.cache.state import CacheState
from berth.actors.client.extender.calls import Extenders
from berth.actors.cycle.actor import CycleActor
from berth.actors.messages import (
    BindingMessage,
    CacheMessage,
    NextPod,
    PreemptionMessage,
    QueuedPod,
    QueueMessage,
    RecorderMessage,
    TakeSnapshot,
)
from berth.actors.runtime.ask import ask
from berth.actors.runtime.mailbox import Mailbox
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.questions import Steps
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.system import profiles_of
from berth.config.load import from_mapping
from berth.tools.explain.handle import ReadOnlyHandle

from tests.kit.clock import VirtualClock

T = TypeVar("T")


class Hanging(Extenders):
    def decide_on(self, pod: Pod) -> bool:
        return True

    async def drive(self, pod: Pod, steps: Steps[T]) -> T:
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_decision_that_is_stopped_gives_the_snapshot_back() -> None:
    clock = VirtualClock()
    pod = msgspec.convert(
        {"metadata": {"name": "p", "uid": "p"}, "spec": {"schedulerName": "default-scheduler"}}, Pod
    )
    cache: Mailbox[CacheMessage] = Mailbox("cache", None)
    queue: Mailbox[QueueMessage] = Mailbox("queue", None)
    binding: Mailbox[BindingMessage] = Mailbox("binding", None)
    preemption: Mailbox[PreemptionMessage] = Mailbox("preemption", None)
    recorder: Mailbox[RecorderMessage] = Mailbox("recorder", None)
    cycle = CycleActor(
        profiles_of(from_mapping(None), ReadOnlyHandle()),
        Scheduler(Random(0)),
        Hanging(),
        clock,
        queue,
        cache,
        binding,
        preemption,
        recorder,
    )
    async with anyio.create_task_group() as group:
        await group.start(CacheActor(cache, CacheState(), clock, queue, binding).run)
        async with anyio.create_task_group() as gated:
            await gated.start(cycle.run)
            (order,) = await queue.drain()
            assert isinstance(order, NextPod)
            order.reply.set(QueuedPod(PodInfo(pod), 1, 0.0))
            await anyio.wait_all_tasks_blocked()
            gated.cancel_scope.cancel()
        with anyio.fail_after(5):
            await ask(cache, TakeSnapshot)
        group.cancel_scope.cancel()
    for mailbox in (cache, queue, binding, preemption, recorder):
        mailbox.close()
