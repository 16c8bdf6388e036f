"""The preemption actor: workers evict the victims, so that the scheduling cycle goes on meanwhile.

At most `parallelism` workers ask the API server at a time. The namespaces of the preemptors take
turns, and the preemptions of a namespace that have begun are finished before others of it begin. A
victim in a binding cycle is stopped there, by the binding actor; any other gets the
DisruptionTarget condition and is deleted. The last victim is evicted only once all others were; if
one cannot be, those that are left stay. The queue holds the preemptor back until the preemption has
ended, whether it succeeded or not. No pod is evicted unless the preemptor still waits for this very
preemption. If the API server gives no answer, it is unknown whether the victim goes: the request is
repeated until there is an answer, and the preemptor makes no room elsewhere meanwhile. If the
scheduling cycle waits for the preemption, any failure ends it instead. The actor also sends the
patches of PostFilter plugins.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

import anyio
import msgspec
from anyio.abc import TaskStatus

from ..attempt import pod_events
from ..attempt.ending import ENDED, Attempts
from ..client.access import Calls
from ..client.rate_limit import counted_for
from ..client.rest import ApiError, ConnectionFailedError, IgnoredAnswer
from ..client.retries import with_retries
from ..mailboxes import Mailboxes
from ..messages.binding import StopBinding
from ..messages.order import ReplyTo
from ..messages.preemption import Preempt, PreemptionMessage, PreemptNow, SendPatches
from ..messages.queue import Displace, IsHeld, PreemptionEnded
from ..runtime.actor import Actor
from ..runtime.ask import ask
from ..runtime.backoff import Backoff, Rng
from ..runtime.clock import Clock
from ..runtime.lines import Lines
from ..runtime.workers import Workers
from ..scheduling.framework.handle import ApiHandle
from ..scheduling.framework.logger import get_logger
from ..scheduling.framework.post_filter import Deletion, Patch
from ..scheduling.framework.status import Status, error
from ..scheduling.model.pod_info import PodInfo
from .state import deletion, disruption_patch, victims_to_evict

log = get_logger(__name__)

PLUGIN = "DefaultPreemption"
GONE = 404
BACKOFF = Backoff(0.5, 10.0, 0.5)


class _Preemption(msgspec.Struct):
    """A preemption under way. `left` victims are to be evicted before the last one. `problem` says
    why one could not be; None so far. It began at `since`, in monotonic seconds. If the cycle waits
    for it, `reply` gets its problem.
    """

    order: Preempt
    reply: ReplyTo[str] | None
    since: float
    victims: tuple[PodInfo, ...]
    left: int
    problem: str | None = None


class PreemptionActor(Actor[PreemptionMessage]):
    def __init__(
        self,
        mailboxes: Mailboxes,
        client: Calls,
        api: ApiHandle,
        clock: Clock,
        rng: Rng,
        parallelism: int,
        attempts: Attempts,
    ) -> None:
        super().__init__(mailboxes.preemption)
        self._queue = mailboxes.queue
        self._binding = mailboxes.binding
        self._recorder = mailboxes.recorder
        self._client = client
        self._api = api
        self._clock = clock
        self._rng = rng
        self._parallelism = parallelism
        self._attempts = attempts
        self._instruments = attempts.instruments
        self._jobs: Lines[Callable[[], Awaitable[None]]] = Lines()
        self._workers: Workers[Callable[[], Awaitable[None]]] | None = None
        self._log = log.bind()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            self._jobs.clear()
            self._workers = Workers(group, self._jobs, _do_job, most=self._parallelism)
            await super().run(task_status=task_status)

    def handle(self, message: PreemptionMessage) -> None:
        match message:
            case Preempt():
                self._jobs.append(_namespace(message.preemptor), partial(self._begin, message))
            case PreemptNow(reply, order):
                self._jobs.append(_namespace(order.preemptor), partial(self._begin, order, reply))
            case SendPatches(pod):
                self._jobs.append(_namespace(pod), partial(self._send, message))
            case _:
                assert_never(message)
        self._wake()

    def _wake(self) -> None:
        assert self._workers is not None
        self._workers.wake()

    async def _begin(self, order: Preempt, reply: ReplyTo[str] | None = None) -> None:
        victims = victims_to_evict(order)
        preemption = _Preemption(order, reply, self._clock.now(), victims, len(victims) - 1)
        if not await self._is_awaited(preemption):
            return
        if not victims:
            self._end(preemption)
            return
        if reply is None:
            # These pods may no longer fit. The sooner they look for another node, the better.
            self._displace(order)
        self._instruments.victims_chosen(len(order.victims))
        if not preemption.left:
            await self._finish(preemption)
            return
        self._jobs.put_first(
            _namespace(order.preemptor),
            [partial(self._evict_before_last, preemption, victim) for victim in victims[:-1]],
        )
        self._wake()

    async def _is_awaited(self, preemption: _Preemption) -> bool:
        """True if the cycle waits for the preemption, or its preemptor waits for this and no later
        one.
        """
        info, hold = preemption.order.preemptor, preemption.order.hold
        return preemption.reply is not None or await ask(
            self._queue, lambda reply: IsHeld(reply, info.key, info.uid, hold)
        )

    async def _evict_before_last(self, preemption: _Preemption, victim: PodInfo) -> None:
        await self._evict(preemption, victim)
        preemption.left -= 1
        if not preemption.left:
            await self._finish(preemption)

    async def _finish(self, preemption: _Preemption) -> None:
        """Evicts the last victim if all others were evicted, because the preemptor needs the room
        of all.
        """
        await self._evict(preemption, preemption.victims[-1])
        success = preemption.problem is None
        self._instruments.preempted(success=success, since=preemption.since)
        self._end(preemption)

    def _end(self, preemption: _Preemption) -> None:
        order, info = preemption.order, preemption.order.preemptor
        failed = preemption.problem is not None
        if preemption.reply is None:
            self._queue.tell(PreemptionEnded(info.key, info.uid, order.hold, failed))
        else:
            if not failed:
                self._displace(order)
            preemption.reply.set(preemption.problem or "")

    def _displace(self, order: Preempt) -> None:
        for info in order.displaced:
            self._queue.tell(Displace(info, order.node))

    async def _evict(self, preemption: _Preemption, victim: PodInfo) -> None:
        """Evicts a victim, unless another one could not be evicted. Records the problem if the
        preemptor no longer waits, or the API server refuses. The victim may already be gone.
        """
        if preemption.problem is not None:
            return
        order, failures, problem = preemption.order, 0, "the preemptor no longer waits"
        while await self._is_awaited(preemption):
            try:
                await self._evict_once(order, victim)
            except (ApiError, ConnectionFailedError) as failure:
                if preemption.reply is not None or isinstance(failure, ApiError):
                    self._failed(order, victim, failure)
                    problem = str(failure)
                    break
                failures += 1
                if failures == 1:
                    self._warn(order, victim, failure)
                await self._clock.sleep(BACKOFF.delay(failures, self._rng))
            else:
                return
        preemption.problem = preemption.problem or problem

    async def _evict_once(self, order: Preempt, victim: PodInfo) -> None:
        """Evicts a victim, which may be gone. Raises ApiError or ConnectionFailedError."""
        in_memory = await self._stop_binding(victim)
        preemptor = order.preemptor.pod
        if not in_memory:
            try:
                with counted_for(preemptor.metadata.namespace):
                    await self._delete(victim, preemptor.spec.scheduler_name)
            except ApiError as refused:
                if refused.code != GONE:
                    raise
                return
        self._log.at(
            ENDED,
            "Preemptor Pod preempted victim Pod",
            preemptor=order.preemptor.key,
            victim=victim.key,
            node=order.node,
        )
        event = pod_events.preempted_event(victim.pod, preemptor, order.node, in_memory=in_memory)
        self._recorder.tell(event)

    async def _stop_binding(self, victim: PodInfo) -> bool:
        """Stops the victim's binding cycle. True if it could still be stopped."""
        uid = victim.uid
        stopped: bool = await ask(
            self._binding, lambda reply: StopBinding(reply, uid, PLUGIN, "preempted")
        )
        return stopped

    def _failed(self, order: Preempt, victim: PodInfo, failure: Exception) -> None:
        self._warn(order, victim, failure)
        message = f"preempting {victim.key}: {failure}"
        self._attempts.failed_later(order.preemptor, order.attempt, order.node, message)

    def _warn(self, order: Preempt, victim: PodInfo, failure: Exception) -> None:
        self._log.warning(
            "not preempted", pod=victim.key, preemptor=order.preemptor.key, error=str(failure)
        )

    async def _delete(self, victim: PodInfo, scheduler_name: str) -> None:
        metadata = victim.pod.metadata
        path = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}"
        patch = disruption_patch(victim.pod, scheduler_name, self._clock.wall())
        if patch is not None:
            send = partial(self._client.patch, f"{path}/status", patch, IgnoredAnswer)
            await with_retries(send, self._clock, self._rng)
        await self._client.call("DELETE", path, IgnoredAnswer, deletion(victim.pod))

    async def _send(self, order: SendPatches) -> None:
        for patch in order.patches:
            try:
                answer = await self._send_one(patch)
            except Exception as problem:
                answer = error(f"{type(problem).__name__}: {problem}")
            if isinstance(answer, Status) and not answer.ok:
                self._log.warning(
                    "not deleted" if isinstance(patch, Deletion) else "not patched",
                    kind=patch.kind.__name__,
                    name=patch.name,
                    pod=order.pod.key,
                    error=answer.message,
                )
                return

    async def _send_one(self, patch: Patch | Deletion) -> object:
        """Sends a patch and returns the answer; a Status that is not a success is a refusal."""
        if isinstance(patch, Deletion):
            return await self._api.delete(patch.kind, patch.name, patch.namespace, patch.uid)
        return await self._api.patch(
            patch.kind, patch.name, patch.changes, patch.namespace, patch.subresource
        )


def _namespace(info: PodInfo) -> str:
    return info.pod.metadata.namespace


async def _do_job(job: Callable[[], Awaitable[None]]) -> None:
    await job()
