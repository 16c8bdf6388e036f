"""The cycle actor: the snapshot is returned, whatever ends a decision."""

from __future__ import annotations

from random import Random
from typing import TypeVar

import anyio
import msgspec

from berth.actors.attempt.ending import Attempts
from berth.actors.cache.actor import CacheActor
from berth.actors.cache.state import CacheState
from berth.actors.client.extender.calls import Extenders
from berth.actors.cycle.actor import CycleActor
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import TakeSnapshot
from berth.actors.messages.queue import NextPod, QueuedPod, QueueMessage
from berth.actors.runtime.ask import ask
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.questions import Steps
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from tests.kit.clock import VirtualClock
from tests.kit.inbox import Inbox
from tests.kit.instruments import unread
from tests.kit.tasks import started

T = TypeVar("T")


class Hanging(Extenders):
    def decide_on(self, pod: Pod) -> bool:
        return True

    async def drive(self, pod: Pod, steps: Steps[T]) -> T:
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_cancelled_decision_returns_the_snapshot() -> None:
    clock = VirtualClock()
    pod = msgspec.convert(
        {"metadata": {"name": "p", "uid": "p"}, "spec": {"schedulerName": "default-scheduler"}}, Pod
    )
    queue: Inbox[QueueMessage] = Inbox("queue")
    mailboxes = Mailboxes(queue=queue)
    profiles = profiles_of(from_mapping(None), ReadOnlyHandle())
    attempts = Attempts(mailboxes, clock, unread(clock))
    cycle = CycleActor(mailboxes, profiles, Scheduler(Random(0)), Hanging(), clock, attempts)
    async with started(CacheActor(mailboxes, CacheState()).run):
        async with started(cycle.run):
            (order,) = queue.take()
            assert isinstance(order, NextPod)
            order.reply.set(QueuedPod(PodInfo(pod), 1, 0.0))
            await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            await ask(mailboxes.cache, TakeSnapshot)
    mailboxes.close()
