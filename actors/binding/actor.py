"""The binding actor: one child task a placement, from the Permit wait to the bound pod.

Whatever goes wrong is undone in reverse: Unreserve, Forget, back to the queue, and the pods that the freed room may
help are woken. Also when the task is cancelled, because the lease is lost or the process stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup, TaskStatus

from actors.binding.state import WaitingPods
from actors.client.extender import Extenders
from actors.framework.events import Action, ClusterEvent, Resource
from actors.framework.runner import Profile
from actors.framework.status import SUCCESS, Status
from actors.messages import (
    AllowWaiting,
    AttemptFailed,
    BindingMessage,
    BindPlaced,
    CacheMessage,
    ClusterChanged,
    Done,
    EventType,
    FinishBinding,
    Forget,
    Placement,
    QueueMessage,
    RecorderMessage,
    RecordEvent,
    RejectWaiting,
    SetUnschedulable,
)
from actors.runtime.actor import Actor
from actors.runtime.clock import Clock
from actors.runtime.logs import Result, log_attempt
from actors.runtime.mailbox import Mailbox
from actors.runtime.observer import NOBODY, Observer

log = structlog.get_logger(__name__)

CLEAN_UP_SECONDS = 5.0
FREED = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE, "AssignedPodDelete")


class BindingActor(Actor[BindingMessage]):
    def __init__(
        self,
        mailbox: Mailbox[BindingMessage],
        profiles: Mapping[str, Profile],
        extenders: Extenders,
        clock: Clock,
        queue: Mailbox[QueueMessage],
        cache: Mailbox[CacheMessage],
        recorder: Mailbox[RecorderMessage],
        observer: Observer = NOBODY,
    ) -> None:
        super().__init__("binding", mailbox)
        self._profiles = profiles
        self._extenders = extenders
        self._clock = clock
        self._queue = queue
        self._cache = cache
        self._recorder = recorder
        self._observer = observer
        self._waiting = WaitingPods()
        self._verdicts: dict[str, anyio.Event] = {}
        self._group: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            await super().run(task_status=task_status)

    async def handle(self, batch: list[BindingMessage]) -> None:
        assert self._group is not None
        for message in batch:
            match message:
                case BindPlaced(placement):
                    self._group.start_soon(self._bind, placement)
                case AllowWaiting(uid, plugin):
                    self._tell(uid, decided=self._waiting.allow(uid, plugin))
                case RejectWaiting(uid, plugin, reason):
                    self._tell(uid, decided=self._waiting.reject(uid, plugin, reason))
                case _:
                    assert_never(message)

    def _tell(self, uid: str, *, decided: bool) -> None:
        if decided:
            self._verdicts[uid].set()

    async def _bind(self, placement: Placement) -> None:
        """One binding cycle."""
        profile = self._profiles[placement.scheduler_name]
        finished = False
        status = Status(SUCCESS.code)
        try:
            status = await self._bound(profile, placement)
            finished = status.ok
        finally:
            if not finished:
                with anyio.move_on_after(CLEAN_UP_SECONDS, shield=True):
                    await self._undo(profile, placement, status)
        if finished:
            await self._finish(profile, placement)

    async def _bound(self, profile: Profile, placement: Placement) -> Status:
        """Wait on Permit, then PreBind and Bind, which an extender may take from the plugins; the first status that is
        no success, or success.
        """
        info, node = placement.pod.info, placement.node
        if placement.waits:
            status = await self._permitted(info.uid, placement.waits)
            if not status.ok:
                return status
        await self._queue.tell(Done(info.uid))
        status = await profile.pre_bind(placement.cycle, info, node)
        if not status.ok:
            return status
        by_extender = await self._extenders.bind(info.pod, node)
        return await profile.bind(placement.cycle, info, node) if by_extender is None else by_extender

    async def _permitted(self, uid: str, waits: dict[str, float]) -> Status:
        """Wait until every Permit plugin has let the pod go on, one has turned it away, or a time is over."""
        self._waiting.add(uid, waits, self._clock.now())
        decided = self._verdicts[uid] = anyio.Event()
        try:
            while (status := self._waiting.take(uid)) is None:
                async with anyio.create_task_group() as first:

                    async def time_out(first: TaskGroup = first) -> None:
                        await self._clock.sleep(self._waiting.deadline(uid) - self._clock.now())
                        self._waiting.expire(uid, self._clock.now())
                        first.cancel_scope.cancel()

                    first.start_soon(time_out)
                    await decided.wait()
                    first.cancel_scope.cancel()
            return status
        finally:
            self._waiting.forget(uid)
            del self._verdicts[uid]

    async def _finish(self, profile: Profile, placement: Placement) -> None:
        info, node = placement.pod.info, placement.node
        seconds = self._clock.now() - placement.started
        self._observer.scheduled(seconds)
        await self._cache.tell(FinishBinding(info.key))
        for failure in profile.post_bind(placement.cycle, info, node):
            log.error("post-bind failed", pod=info.key, node=node, error=failure.message)
        log_attempt(info.key, Result.SCHEDULED, placement.pod.attempts, seconds, node=node)
        note = f"Successfully assigned {info.key} to {node}"
        await self._recorder.tell(_event(placement, EventType.NORMAL, "Scheduled", "Binding", note))

    async def _undo(self, profile: Profile, placement: Placement, status: Status) -> None:
        info, node = placement.pod.info, placement.node
        for failure in profile.unreserve(placement.cycle, info, node):
            log.error("unreserve failed", pod=info.key, node=node, error=failure.message)
        await self._cache.tell(Forget(info, node))
        if status.ok:
            return  # Cancelled: the process stops, and whoever leads next sees the pod pending.
        rejected_by = frozenset((status.plugin,)) if status.rejected else frozenset[str]()
        result = Result.UNSCHEDULABLE if status.rejected else Result.ERROR
        seconds = self._clock.now() - placement.started
        log_attempt(info.key, result, placement.pod.attempts, seconds, node=node, reason=status.message)
        spec = msgspec.structs.replace(info.pod.spec, node_name=node)
        await self._queue.tell(ClusterChanged(FREED, msgspec.structs.replace(info.pod, spec=spec), None))
        await self._queue.tell(AttemptFailed(placement.pod, rejected_by, error=not status.rejected))
        reason = "Unschedulable" if status.rejected else "SchedulerError"
        await self._recorder.tell(SetUnschedulable(info.pod, reason, status.message))
        await self._recorder.tell(
            _event(placement, EventType.WARNING, "FailedScheduling", "Scheduling", status.message)
        )


def _event(placement: Placement, kind: EventType, reason: str, action: str, note: str) -> RecordEvent:
    metadata, sender = placement.pod.info.pod.metadata, placement.scheduler_name
    subject = (metadata.namespace, metadata.name, metadata.uid)
    return RecordEvent("v1", "Pod", *subject, kind, reason, action, note, sender)
