"""The preemption actor: has victims told to go by tasks of its own, so that the scheduling cycle goes on meanwhile.

There are as many as may ask the API server at a time, each made when it is first needed; a preemption that has begun
comes before one that has not.
Waiting pods are turned away in memory; others get the DisruptionTarget condition and are deleted. The queue holds the
preemptor back until that has ended, well or badly. Nobody is deleted for a pod that no longer waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, assert_never

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup, TaskStatus

from actors.client.access import Calls
from actors.client.rest import Accepted, ApiError, ConnectionFailedError
from actors.framework.status import Status
from actors.messages import (
    CacheMessage,
    IsHeld,
    Preempt,
    PreemptionEnded,
    PreemptionMessage,
    QueueMessage,
    RecorderMessage,
    Unnominate,
)
from actors.model.pod_info import PodInfo
from actors.preemption.state import deletion, disruption_patch, preempted, victims_to_tell
from actors.runtime.actor import Actor
from actors.runtime.ask import ask
from actors.runtime.bell import Bell
from actors.runtime.clock import Clock
from actors.runtime.mailbox import Mailbox

log = structlog.get_logger(__name__)

PLUGIN = "DefaultPreemption"
GONE = 404


class InBinding(Protocol):
    """The pods in a binding cycle."""

    def preempt(self, uid: str, plugin: str, reason: str) -> bool:
        """Stop the binding of a pod that is not written yet; False if there is none to stop."""
        ...


class Nominator(Protocol):
    async def nominate(self, namespace: str, name: str, uid: str, node: str) -> Status: ...


class _Begun(msgspec.Struct):
    """A preemption of which some victims are `left` to be told."""

    order: Preempt
    left: int
    failed: bool


class PreemptionActor(Actor[PreemptionMessage]):
    def __init__(
        self,
        mailbox: Mailbox[PreemptionMessage],
        in_binding: InBinding,
        client: Calls,
        api: Nominator,
        clock: Clock,
        queue: Mailbox[QueueMessage],
        cache: Mailbox[CacheMessage],
        recorder: Mailbox[RecorderMessage],
        parallelism: int,
    ) -> None:
        super().__init__("preemption", mailbox)
        self._in_binding = in_binding
        self._client = client
        self._api = api
        self._clock = clock
        self._queue = queue
        self._cache = cache
        self._recorder = recorder
        self._parallelism = parallelism
        self._jobs: deque[Callable[[], Awaitable[None]]] = deque()
        self._workers = 0
        self._idle: list[Bell] = []
        self._group: TaskGroup | None = None
        self._log = log.bind()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            self._group, self._workers = group, 0
            self._jobs.clear()
            self._idle.clear()
            await super().run(task_status=task_status)

    def handle(self, message: PreemptionMessage) -> None:
        match message:
            case Preempt():
                self._jobs.append(partial(self._begin, message))
                self._summon(1)
            case _:
                assert_never(message)

    def _summon(self, workers: int) -> None:
        """Have so many more at work, if there are any."""
        assert self._group is not None
        for _ in range(workers):
            if self._idle:
                self._idle.pop().ring()
            elif self._workers < self._parallelism:
                self._workers += 1
                self._group.start_soon(self._work)

    async def _work(self) -> None:
        bell = Bell()
        while True:
            while self._jobs:
                await self._jobs.popleft()()
            self._idle.append(bell)
            await bell.wait()

    async def _begin(self, order: Preempt) -> None:
        info = order.preemptor
        waits: bool = await ask(self._queue, lambda reply: IsHeld(reply, info.key, info.uid))
        if not waits:
            # It may have gone while it was nominated, after which nobody would take that back.
            await self._cache.tell(Unnominate(info.key, info.uid))
            return
        victims = victims_to_tell(order)
        begun = _Begun(order, len(victims), not await self._denominate(order.displaced))
        if not victims:
            await self._end(begun)
            return
        self._jobs.extendleft(partial(self._tell, begun, victim) for victim in reversed(victims))
        self._summon(len(victims) - 1)  # The first is for this worker.

    async def _tell(self, begun: _Begun, victim: PodInfo) -> None:
        told = await self._evict(begun.order, victim)
        begun.failed = begun.failed or not told
        begun.left -= 1
        if not begun.left:
            await self._end(begun)

    async def _end(self, begun: _Begun) -> None:
        info = begun.order.preemptor
        await self._queue.tell(PreemptionEnded(info.key, info.uid, begun.failed))

    async def _denominate(self, displaced: Sequence[PodInfo]) -> bool:
        """Nominated pods of lower priority may fit no longer; the sooner they look elsewhere, the better."""
        written = True
        for info in displaced:
            metadata = info.pod.metadata
            await self._cache.tell(Unnominate(info.key))
            if info.pod.status.nominated_node_name:
                status = await self._api.nominate(metadata.namespace, metadata.name, metadata.uid, "")
                written = written and status.ok
        return written

    async def _evict(self, order: Preempt, victim: PodInfo) -> bool:
        """True if the victim goes, or is gone already."""
        pod, preemptor = victim.pod, order.preemptor.pod
        if not self._in_binding.preempt(victim.uid, PLUGIN, "preempted"):
            try:
                await self._delete(victim, preemptor.spec.scheduler_name)
            except (ApiError, ConnectionFailedError) as failure:
                if isinstance(failure, ApiError) and failure.code == GONE:
                    return True
                self._log.warning("not preempted", pod=victim.key, preemptor=order.preemptor.key, error=str(failure))
                return False
        self._log.info("preempted", pod=victim.key, preemptor=order.preemptor.key, node=order.node)
        await self._recorder.tell(preempted(pod, preemptor, order.node))
        return True

    async def _delete(self, victim: PodInfo, scheduler_name: str) -> None:
        metadata = victim.pod.metadata
        path = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}"
        patch = disruption_patch(victim.pod, scheduler_name, self._clock.wall())
        if patch is not None:
            await self._client.patch(f"{path}/status", patch, Accepted)
        await self._client.call("DELETE", path, Accepted, deletion(victim.pod))
