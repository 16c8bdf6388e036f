"""The queue actor: feeds the queue's state with messages and ticks, and follows its effects.

The cache counts the nominated pods, but only the queue knows which pods are nominated. So the queue
sends every nomination to the cache.
"""

from __future__ import annotations

from typing import assert_never

import anyio
import structlog
from anyio.abc import TaskStatus

from berth.actors.mailboxes import Mailboxes
from berth.actors.messages import (
    Answer,
    FlushBackoff,
    FlushUnschedulable,
    Nominate,
    QueueMessage,
    RecordEvent,
    SetNominatedNode,
    SetUnschedulable,
    Unnominate,
)
from berth.actors.queue.backoff import WINDOW_SECONDS
from berth.actors.queue.effects import Compared, HandOut, Moved
from berth.actors.queue.state import QueueState
from berth.actors.runtime.actor import Actor
from berth.actors.runtime.clock import Clock

log = structlog.get_logger(__name__)

BACKOFF_FLUSH_SECONDS = WINDOW_SECONDS
UNSCHEDULABLE_FLUSH_SECONDS = 30.0


class QueueActor(Actor[QueueMessage]):
    def __init__(self, mailboxes: Mailboxes, state: QueueState, clock: Clock) -> None:
        super().__init__(mailboxes.queue)
        self._state = state
        self._cache = mailboxes.cache
        self._recorder = mailboxes.recorder
        self._clock = clock
        self._log = log.bind()  # Bound once, because each move of a pod calls it.

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._tick, BACKOFF_FLUSH_SECONDS, FlushBackoff())
            group.start_soon(self._tick, UNSCHEDULABLE_FLUSH_SECONDS, FlushUnschedulable())
            await super().run(task_status=task_status)

    async def _tick(self, seconds: float, message: QueueMessage) -> None:
        while True:
            # At multiples of the period, so that a window of backoff is flushed when it ends.
            await self._clock.sleep(seconds - self._clock.now() % seconds)
            self.mailbox.tell(message)

    def handle(self, message: QueueMessage) -> None:
        for effect in self._state.handle(message, self._clock.now()):
            match effect:
                case HandOut():
                    effect.order.reply.set(effect.pod)
                case Moved():
                    step = effect.step
                    self._log.debug(
                        "queued",
                        pod=effect.key,
                        queue=step.queue,
                        because=step.event,
                        plugin=step.plugin,
                    )
                case Nominate() | Unnominate():
                    self._cache.tell(effect)
                case SetNominatedNode() | SetUnschedulable() | RecordEvent():
                    self._recorder.tell(effect)
                case Answer():
                    effect.give()
                case Compared(order, found):
                    for difference in found if order.heal else ():
                        self._log.error(
                            "healed", what=difference.what, kind=difference.kind, key=difference.key
                        )
                    order.reply.set(found)
                case _:
                    assert_never(effect)
