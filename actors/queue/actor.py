"""The queue actor: feeds the queue's state with messages and ticks, and follows its effects.

The cache counts the nominated pods, but only the queue knows which pods are nominated. So the queue
sends every nomination to the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import anyio
import msgspec
from anyio.abc import TaskStatus

from ..mailboxes import Mailboxes
from ..messages.cache import Nominate, Unnominate
from ..messages.comparison import Healed
from ..messages.order import Answer
from ..messages.queue import (
    ClusterChanged,
    FlushBackoff,
    FlushUnschedulable,
    PendingPodAdded,
    PendingPodUpdated,
    PodNoLongerPending,
    QueueMessage,
    StoryStep,
)
from ..messages.recorder import RecordEvent, SetNominatedNode, SetUnschedulable
from ..runtime.actor import Actor
from ..runtime.clock import Clock
from ..scheduling.framework.events import ClusterEvent
from ..scheduling.framework.logger import get_logger
from ..telemetry.instruments import Instruments, Observe
from .backoff import WINDOW_SECONDS
from .effects import HandOut, PodForgotten, PodMoved, PodRestless
from .state import QueueState

log = get_logger(__name__)

MOVES = 4  # the verbosity of moves
SAID = ("cause", "plugin", "message")  # of a move, where it has them
BACKOFF_FLUSH_SECONDS = WINDOW_SECONDS
UNSCHEDULABLE_FLUSH_SECONDS = 30.0
# What happens to pending pods, as kube-scheduler's metric event_handling_duration_seconds names it.
_EVENTS: Mapping[type[object], str] = {
    PendingPodAdded: "Add",
    PendingPodUpdated: "Update",
    PodNoLongerPending: "Delete",
}


class QueueActor(Actor[QueueMessage]):
    def __init__(
        self, mailboxes: Mailboxes, state: QueueState, clock: Clock, instruments: Instruments
    ) -> None:
        super().__init__(mailboxes.queue)
        self._state = state
        self._cache = mailboxes.cache
        self._recorder = mailboxes.recorder
        self._clock = clock
        self._now = clock.now  # read for each message
        self._instruments = instruments
        pod = state.pod_names.unscheduled
        self._of_pending = {
            kind: instruments.handling_of(pod + what) for kind, what in _EVENTS.items()
        }
        self._of_changes: dict[tuple[int, int, str], Observe] = {}
        self._log = log.bind()  # Bound once, because each move of a pod calls it.
        self._level = self._log.level()

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
        read_clock = self._now
        now = read_clock()
        for effect in self._state.handle(message, now):
            match effect:
                case HandOut():
                    effect.order.reply.set(effect.pod)
                case PodMoved():
                    if self._level.verbosity >= MOVES:
                        self._tell_move(effect.key, effect.step)
                case PodForgotten():
                    self._log.warning(
                        "a parked pod would fit, but no event woke it",
                        pod=effect.key,
                        node=effect.node,
                        rejectedBy=",".join(effect.rejected_by),
                        parkedSeconds=round(effect.parked_for),
                    )
                case PodRestless():
                    self._log.warning(
                        "a pod is activated again and again without progress, so it backs off",
                        pod=effect.key,
                        activatedBy=effect.by,
                        activations=effect.activations,
                        attempts=effect.attempts,
                    )
                case Nominate() | Unnominate():
                    self._cache.tell(effect)
                case SetNominatedNode() | SetUnschedulable() | RecordEvent():
                    self._recorder.tell(effect)
                case Answer():
                    effect.give()
                case Healed(difference):
                    self._log.error("healed", **msgspec.structs.asdict(difference))
                case _:
                    assert_never(effect)
        observe = self._of_pending.get(type(message))
        if observe is None and isinstance(message, ClusterChanged):
            observe = self._observer_of(message.event)
        if observe is not None:
            observe(read_clock() - now)

    def _observer_of(self, event: ClusterEvent) -> Observe:
        # Members of enums are compared by identity here, because their hashes are slow.
        key = (id(event.resource), id(event.action), event.label)
        observe = self._of_changes.get(key)
        if observe is None:
            observe = self._of_changes[key] = self._instruments.handling_of(str(event))
        return observe

    def _tell_move(self, pod: str, step: StoryStep) -> None:
        self._log.at(
            MOVES,
            "Pod moved to an internal scheduling queue",
            pod=pod,
            because=step.event,
            queue=str(step.queue),
            **{name: value for name in SAID if (value := getattr(step, name))},
        )
