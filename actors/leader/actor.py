"""The leader-election actor: holds the lease, and runs the gated part of the scheduler only while it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import structlog
from anyio.abc import TaskStatus

from actors.client.access import Calls
from actors.client.rest import ApiError, ConnectionFailedError
from actors.kube.coordination import Lease
from actors.leader.state import LeaderState, Terms, Wait, Write
from actors.runtime.backoff import Rng
from actors.runtime.clock import Clock

log = structlog.get_logger(__name__)
JITTER = 1.2
RELEASE_SECONDS = 3.0
MIN_PAUSE_SECONDS = 0.1


class LeaseLostError(Exception):
    """The lease could not be renewed in time."""


class LeaderActor:
    """`gated` runs while we lead, and is cancelled before anyone else can."""

    def __init__(
        self, terms: Terms, client: Calls, clock: Clock, rng: Rng, gated: Callable[[], Awaitable[None]]
    ) -> None:
        self._terms = terms
        self._client = client
        self._clock = clock
        self._rng = rng
        self._gated = gated
        self._state = LeaderState(terms)
        self._free_at = float("inf")
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{terms.namespace}/leases"

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Wait for the lease, lead, and give it back when cancelled. Raises LeaseLostError."""
        task_status.started()
        while not await self._try():
            # Jittered downwards: what a standby sees late is added to the time without a leader.
            pause = self._terms.retry_period / (1 + JITTER * self._rng.random())
            # Never past the lease's expiry: nobody should be without a leader for longer than that.
            await self._clock.sleep(min(pause, max(self._free_at - self._clock.now(), MIN_PAUSE_SECONDS)))
        log.info("became leader", identity=self._terms.identity)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._lead)
                try:
                    await self._renew()
                finally:
                    group.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(RELEASE_SECONDS, shield=True):
                await self._release()
        raise LeaseLostError(f"lease {self._terms.namespace}/{self._terms.name} was lost")

    async def _lead(self) -> None:
        await self._gated()

    async def _renew(self) -> None:
        """Renew until the lease is lost."""
        while not self._state.lost(self._clock.now()):
            await self._clock.sleep(self._terms.retry_period)
            await self._try()
            if not self._state.leading:
                return

    async def _try(self) -> bool:
        """One attempt to acquire or renew, within the retry period; true if we lead after it."""
        asked_at = self._clock.now()
        try:
            with anyio.fail_after(self._terms.retry_period):
                step = self._state.found(await self._get(), asked_at, self._clock.wall())
                match step:
                    case Wait(holder, until):
                        self._free_at = until
                        log.debug("lease held", holder=holder)
                    case Write(lease, create):
                        self._state.written(await self._put(lease, create=create), asked_at)
        except (ApiError, ConnectionFailedError, TimeoutError) as failure:
            log.warning("lease not written", error=str(failure) or "no answer in time")
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

    async def _release(self) -> None:
        try:
            lease = await self._get()
            released = None if lease is None else self._state.released(lease)
            if released is not None:
                await self._put(released, create=False)
        except (ApiError, ConnectionFailedError) as failure:
            log.warning("lease not released", error=str(failure))
