"""The leader actor: holds the lease, and runs the parts of the scheduler that need it.

The election has a thread with an event loop and a client of its own. It tells this actor two
things: that the lease is acquired, and that it is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from uuid import UUID

import anyio
from anyio.abc import TaskStatus

from berth.config.types import LeaderElectionConfiguration

from ..client.access import Access, Calls
from ..mailboxes import Mailboxes
from ..messages.recorder import EventType, RecordEvent
from ..runtime.clock import Clock
from ..runtime.exceptions import ungrouped
from ..scheduling.framework.logger import get_logger
from ..telemetry.instruments import Instruments
from .election import Election
from .state import Terms

log = get_logger(__name__)
LEASES = "leases"


def terms_of(
    election: LeaderElectionConfiguration, rng: Random, profiles: Iterable[str], host: str
) -> Terms:
    """Returns the terms of a new candidate on a host, which has an identity of its own."""
    return Terms(
        f"{host}_{UUID(int=rng.getrandbits(128), version=4)}",
        election.resource_namespace,
        election.resource_name,
        election.lease_duration,
        election.renew_deadline,
        election.retry_period,
        tuple(profiles),
        election.resource_lock,
    )


class LeaseLostError(Exception):
    """The lease was not renewed in time."""


class LeaderActor:
    """The actor that runs `gated` while this process holds the lease.

    `sender` is the reporting controller of the election's events: the name of the first profile.
    `still_for` returns for how many seconds the scheduler's event loop has been blocked; it is
    called in the election's thread. `clock` is the clock of the tenure.
    """

    def __init__(
        self,
        terms: Terms,
        access: Access,
        mailboxes: Mailboxes,
        instruments: Instruments,
        sender: str,
        still_for: Callable[[], float],
        gated: Callable[[], Awaitable[None]],
        clock: Clock,
        rng: Random,
    ) -> None:
        self._terms = terms
        self._access = access
        self._recorder = mailboxes.recorder
        self._instruments = instruments
        self._sender = sender
        self._still_for = still_for
        self._gated = gated
        self._clock = clock
        self._chance = Random(rng.getrandbits(64))  # of the election's thread
        self._acquired, self._lost = anyio.Event(), anyio.Event()
        self._election: Election | None = None  # once the lease is acquired

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Waits for the lease, leads until it is lost, and releases it when cancelled. Raises
        LeaseLostError.
        """
        task_status.started()
        lock, kind = self._terms.lock, self._terms.resource
        if kind != LEASES:
            advice = f"change resourceLock to {_after(kind)} once every candidate has {kind}"
            log.warning("deprecated kind of lock", kind=kind, advice=advice)
        log.info("Attempting to acquire leader lease...", lock=lock)
        async with _running_beside(
            self._elect
        ):  # The lease is held until the gated part has stopped.
            await self._acquired.wait()
            log.info("Successfully acquired lease", lock=lock)
            self._instruments.leads(True)
            self._record("became leader")
            async with _running_beside(self._gated):
                try:
                    await self._lost.wait()
                finally:
                    # Recorded before the gated part stops, as the writers of events are part of
                    # it, and stop last.
                    self._record("stopped leading")
        log.error("Leaderelection lost", lock=lock)
        raise LeaseLostError(f"lease {lock} was lost")

    async def _elect(self) -> None:
        """Runs the election in its own thread. The two events are set in this thread."""
        loop = asyncio.get_running_loop()

        async def elect(calls: Calls) -> None:
            election = Election(
                self._terms,
                calls,
                self._clock,
                self._chance,
                self._access.tenure,
                self._still_for,
                partial(loop.call_soon_threadsafe, self._instruments.renewed_slowly),
            )
            await election.acquire()
            self._election = election
            loop.call_soon_threadsafe(self._acquired.set)
            await election.keep_until_lost()
            loop.call_soon_threadsafe(self._lost.set)

        try:
            await self._access.run_apart(elect)
        finally:
            self._instruments.leads(False)

    def _record(self, what: str) -> None:
        """Records an event about the lease, without an action, as kube-scheduler does."""
        assert self._election is not None, "nothing is recorded before the lease is acquired"
        note = f"{self._terms.identity} {what}"
        for lock in self._election.references():
            self._recorder.tell(
                RecordEvent(lock, EventType.NORMAL, "LeaderElection", "", note, self._sender)
            )


def _after(kind: str) -> str:
    """Returns the kind of lock to which one of this kind migrates next."""
    return LEASES if kind.endswith(LEASES) else f"{kind}{LEASES}"


@asynccontextmanager
async def _running_beside(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Runs `work` beside the block, and cancels it at the end of the block, however that comes
    about; then waits for the end of its clean-up. If either raises an exception, the other is
    cancelled and the first exception is raised.
    """
    scope = anyio.CancelScope(shield=True)

    async def run() -> None:
        with scope:
            await work()

    with ungrouped():
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            try:
                yield
            finally:
                scope.cancel()
