"""The recorder actor: writes events and conditions, several at a time. The senders never wait.

Its mailbox needs no bound: a message goes to the outbox at once, and the outbox is bounded. If the
API server gives no answer, the write waits in the outbox; if it refuses, that is logged and the
write is dropped, but for nominations: a pod that is parked would keep the wrong one. Only a leader
writes: `run` fills the outbox at all times, `write` empties it.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskStatus

from ..client.access import Calls
from ..client.rest import ApiError, ConnectionFailedError, DeposedError, UnreadableAnswerError
from ..client.retries import with_retries
from ..mailboxes import Mailboxes
from ..messages.recorder import (
    FinishSeries,
    RecorderMessage,
    RefreshSeries,
    RepeatNominations,
)
from ..runtime.actor import Actor
from ..runtime.backoff import Backoff, Rng
from ..runtime.clock import Clock
from ..runtime.workers import Workers
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.core import Pod
from .event import API, CORE_API, Event, in_core
from .series import FINISH_SECONDS, REFRESH_SECONDS
from .state import RecorderState, StatusOrder, Work

log = get_logger(__name__)

WRITERS = 16
BACKOFF = Backoff(0.5, 10.0, 0.5)
FLUSH_SECONDS = 2.0
REPEAT_SECONDS = 20.0  # between two tries to write a nomination that was refused
MOST_CONFLICTS = 5
NOT_FOUND = 404


class RecorderActor(Actor[RecorderMessage]):
    def __init__(
        self, mailboxes: Mailboxes, state: RecorderState, client: Calls, clock: Clock, rng: Rng
    ) -> None:
        super().__init__(mailboxes.recorder)
        self._state = state
        self._client = client
        self._clock = clock
        self._rng = rng
        self._writers: Workers[Work] | None = None
        self._stopping = False
        self._lost = 0  # writes without an answer since the stop
        self._failures = 0
        self._silent_until = float("-inf")
        self._served = True  # until the API server answers that it has no events.k8s.io
        # Shielded, so that a stop lets the writers finish.
        self._writing = anyio.CancelScope(shield=True)

    async def write(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Writes the contents of the outbox until cancelled, and then the rest for at most two
        seconds.

        It can run only once.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_writers)
            group.start_soon(self._tick, FINISH_SECONDS, FinishSeries())
            group.start_soon(self._tick, REFRESH_SECONDS, RefreshSeries())
            group.start_soon(self._tick, REPEAT_SECONDS, RepeatNominations())
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._finish()

    async def _tick(self, seconds: float, message: RecorderMessage) -> None:
        while True:
            await self._clock.sleep(seconds)
            self.mailbox.tell(message)

    def handle(self, message: RecorderMessage) -> None:
        self._state.handle(message, self._clock.now(), self._clock.wall())
        if self._writers is not None:
            self._writers.wake()

    async def _keep_writers(self) -> None:
        with self._writing:
            async with anyio.create_task_group() as group:
                self._writers = Workers(group, self._state, self._write_work, most=WRITERS)
                self._writers.wake()
                await anyio.sleep_forever()
        self._writers = None

    async def _finish(self) -> None:
        self._stopping = True
        if self._writers is not None and not self._failures:
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._writers.finish()
        self._writing.cancel()

    async def _write_work(self, work: Work) -> None:
        """Writes an event, a condition or a nomination; puts it back if there is no answer."""
        try:
            await (self._write_event(work) if isinstance(work, Event) else self._write_status(work))
        except DeposedError:
            self._state.put_back(work)
            self._end_writers()
            await anyio.sleep_forever()
        except ConnectionFailedError as failure:
            self._state.put_back(work)
            if self._stopping:
                await self._give_up_after_a_while()
            else:
                await self._clock.sleep(self._log_outage(failure))
            return
        except ApiError as refused:
            log.warning("not recorded", error=str(refused))
            self._state.refused(work)
        else:
            self._state.done(work)
        self._failures = 0

    def _end_writers(self) -> None:
        if self._writers is not None:
            self._writers.start_no_more()
        self._writing.cancel()

    async def _give_up_after_a_while(self) -> None:
        """Cancels the writers that still run after a stop, once as many writes as WRITERS were
        lost.
        """
        self._lost += 1
        if self._lost == WRITERS:
            self._end_writers()
        await anyio.lowlevel.checkpoint()  # a request that fails at once lets nobody else run

    def _log_outage(self, failure: ConnectionFailedError) -> float:
        """Returns the seconds until the next request. Logs each outage once."""
        now = self._clock.now()
        if now >= self._silent_until:
            self._failures += 1
            self._silent_until = now + BACKOFF.delay(self._failures, self._rng)
            if self._failures == 1:
                log.warning(
                    "events wait for the API server", error=str(failure), waiting=len(self._state)
                )
        return self._silent_until - now

    async def _write_event(self, event: Event) -> None:
        """Patches the count of an event; creates the event if it is new, or has expired."""
        counts = event.series is not msgspec.UNSET
        for _ in range(MOST_CONFLICTS):
            newer = self._served and bool(event.action)
            path = f"{API if newer else CORE_API}/namespaces/{event.metadata.namespace}/events"
            try:
                if counts and await self._series_written(path, event):
                    return
                await self._client.call("POST", path, object, event if newer else in_core(event))
            except ApiError as refused:
                if refused.reason == "AlreadyExists":
                    if counts:
                        continue  # it was created just now
                    return  # it was created by an earlier POST, whose answer was lost
                if refused.code != NOT_FOUND or not newer or await self._is_served():
                    raise
            else:
                return
        log.warning(
            "event not written",
            name=event.metadata.name,
            error="it keeps being created and deleted",
        )

    async def _series_written(self, path: str, event: Event) -> bool:
        """Writes the series of an event. False if there is no such event."""
        try:
            await self._client.patch(
                f"{path}/{event.metadata.name}", {"series": event.series}, dict
            )
        except ApiError as refused:
            if refused.code != NOT_FOUND:
                raise
            return False
        return True

    async def _is_served(self) -> bool:
        """True if the API server has events.k8s.io/v1; before Kubernetes 1.19 it has core/v1 events
        only.
        """
        try:
            await self._client.call("GET", API, dict)
        except ApiError as refused:
            self._served = refused.code != NOT_FOUND
        return self._served

    async def _write_status(self, order: StatusOrder) -> None:
        """Writes a condition, a nomination, or both, unless the pod is gone or bound."""
        pod, metadata = order.pod, order.pod.metadata
        path = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}"
        changed = False

        async def write() -> None:
            nonlocal pod, changed
            if changed:
                pod = await self._client.call("GET", path, Pod)
                changed = False
                if pod.metadata.uid != metadata.uid or pod.spec.node_name:
                    return
            patch = self._state.patch(order, pod, self._clock.wall())
            if patch is None:
                return
            try:
                await self._client.patch(f"{path}/status", patch, dict)
            except ApiError as refused:
                changed = refused.code == 409
                raise
            self._state.wrote(order)

        try:
            await with_retries(write, self._clock, self._rng)
        except ApiError as refused:
            if refused.code != NOT_FOUND:
                raise
        except UnreadableAnswerError as problem:  # Another try would not help.
            log.warning(
                "status not written",
                pod=f"{metadata.namespace}/{metadata.name}",
                error=str(problem),
            )
