"""The leader-election actor: holds the lease, and runs the gated part of the scheduler only while it does."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio
import structlog
from anyio.abc import TaskStatus

from actors.client.access import Calls
from actors.client.rest import ApiError, ConnectionFailedError
from actors.kube.coordination import Lease
from actors.leader.state import LeaderState, Terms, Wait, Write
from actors.messages import EventType, RecorderMessage, RecordEvent
from actors.runtime.backoff import Rng
from actors.runtime.clock import Clock
from actors.runtime.mailbox import Mailbox

log = structlog.get_logger(__name__)
JITTER = 1.2
RELEASE_SECONDS = 3.0
MIN_PAUSE_SECONDS = 0.1


class LeaseLostError(Exception):
    """The lease could not be renewed in time."""


class LeaderActor:
    """`gated` runs while we lead, and is cancelled before anyone else can. `sender` is whose events those of the
    election are: the first profile's.
    """

    def __init__(
        self,
        terms: Terms,
        client: Calls,
        clock: Clock,
        rng: Rng,
        recorder: Mailbox[RecorderMessage],
        sender: str,
        gated: Callable[[], Awaitable[None]],
    ) -> None:
        self._terms = terms
        self._client = client
        self._clock = clock
        self._rng = rng
        self._recorder = recorder
        self._sender = sender
        self._gated = gated
        self._state = LeaderState(terms)
        self._free_at = float("inf")
        self._failing = False
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{terms.namespace}/leases"

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Wait for the lease, lead, and give it back when cancelled. Raises LeaseLostError."""
        task_status.started()
        while not await self._try(self._terms.retry_period):
            # Jittered downwards: what a standby sees late is added to the time without a leader.
            pause = self._terms.retry_period / (1 + JITTER * self._rng.random())
            # Never past the lease's expiry: nobody should be without a leader for longer than that.
            await self._clock.sleep(min(pause, max(self._free_at - self._clock.now(), MIN_PAUSE_SECONDS)))
        log.info("became leader", identity=self._terms.identity)
        await self._record("became leader")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._lead)
                try:
                    await self._renew()
                finally:
                    group.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(RELEASE_SECONDS, shield=True):
                await self._record("stopped leading")
                await self._release()
        raise LeaseLostError(f"lease {self._terms.namespace}/{self._terms.name} was lost")

    async def _lead(self) -> None:
        await self._gated()

    async def _renew(self) -> None:
        """Renew until the lease is lost."""
        # Neither the pause nor the attempt may outlast the deadline: after it, others come.
        while (left := self._state.left(self._clock.now())) > 0:
            await self._clock.sleep(min(self._terms.retry_period, left))
            left = self._state.left(self._clock.now())
            if left <= 0:
                return
            await self._try(min(self._terms.retry_period, left))
            if not self._state.leading:
                return

    async def _try(self, seconds: float) -> bool:
        """One attempt to acquire or renew, within these seconds; true if we lead after it."""
        asked_at = self._clock.now()
        try:
            with anyio.fail_after(seconds):
                step = self._state.found(await self._get(), asked_at, self._clock.wall())
                match step:
                    case Wait(holder, until):
                        self._free_at = until
                        log.debug("lease held", holder=holder)
                    case Write(lease, create):
                        self._state.written(await self._put(lease, create=create), asked_at)
        except (ApiError, ConnectionFailedError, TimeoutError) as failure:
            # One line an outage, however often it is tried.
            level = logging.DEBUG if self._failing else logging.WARNING
            log.log(level, "lease not written", error=str(failure) or "no answer in time")
            self._failing = True
        else:
            self._failing = False
        return self._state.leading

    async def _get(self) -> Lease | None:
        try:
            return await self._client.call("GET", f"{self._path}/{self._terms.name}", Lease)
        except ApiError as refused:
            if refused.code == 404:
                return None
            raise

    async def _put(self, lease: Lease, *, create: bool) -> Lease:
        if create:
            return await self._client.call("POST", self._path, Lease, lease)
        return await self._client.call("PUT", f"{self._path}/{self._terms.name}", Lease, lease)

    async def _record(self, what: str) -> None:
        terms = self._terms
        subject = ("coordination.k8s.io/v1", "Lease", terms.namespace, terms.name, "")
        note = f"{terms.identity} {what}"
        await self._recorder.tell(
            RecordEvent(*subject, EventType.NORMAL, "LeaderElection", "LeaderElection", note, self._sender)
        )

    async def _release(self) -> None:
        """Give the lease back; one that has run out is not ours to give."""
        if self._state.left(self._clock.now()) <= 0:
            return
        try:
            lease = await self._get()
            released = None if lease is None else self._state.released(lease)
            if released is not None:
                await self._put(released, create=False)
        except (ApiError, ConnectionFailedError) as failure:
            log.warning("lease not released", error=str(failure))
