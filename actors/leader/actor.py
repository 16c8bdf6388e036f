"""The leader-election actor: runs the gated part of the scheduler while this process leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

from ..mailboxes import Mailboxes
from ..messages.recorder import EventType, RecordEvent
from ..runtime.logger import get_logger
from ..scheduling.kube.meta import ObjectReference
from .state import Terms

log = get_logger(__name__)


class LeaseLostError(Exception):
    """The lease was not renewed in time."""


class LeaderActor:
    """`elect` calls its argument, in any thread, when this process leads. It returns when the lease
    is lost, and releases the lease when it is cancelled. `gated` runs in between. `sender` is the
    reporting controller of the election's events: the name of the first profile.
    """

    def __init__(
        self,
        mailboxes: Mailboxes,
        terms: Terms,
        elect: Callable[[Callable[[], None]], Awaitable[None]],
        sender: str,
        gated: Callable[[], Awaitable[None]],
    ) -> None:
        self._terms = terms
        self._elect = elect
        self._recorder = mailboxes.recorder
        self._sender = sender
        self._gated = gated

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Wait for the lease, lead, and release it when cancelled. Raises LeaseLostError."""
        task_status.started()
        lock = f"{self._terms.namespace}/{self._terms.name}"
        log.info("Attempting to acquire leader lease...", lock=lock)
        leads, stopped, loop = anyio.Event(), anyio.Event(), asyncio.get_running_loop()
        # Both are shielded, because they end one after the other: the lease is held until the gated
        # part has stopped.
        election, gated = anyio.CancelScope(shield=True), anyio.CancelScope(shield=True)

        def lead_in_this_thread() -> None:
            loop.call_soon_threadsafe(leads.set)

        async def elect() -> None:
            with election:
                await self._elect(lead_in_this_thread)
            group.cancel_scope.cancel()

        async def lead() -> None:
            try:
                with gated:
                    await self._gated()
            finally:
                stopped.set()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(elect)
                try:
                    await leads.wait()
                    log.info("Successfully acquired lease", lock=lock)
                    self._record("Acquiring", "became leader")
                    group.start_soon(lead)
                    try:
                        await anyio.sleep_forever()
                    finally:
                        # Recorded before the gated part stops, as the writers of events are part of
                        # it, and stop last.
                        self._record("Releasing", "stopped leading")
                        gated.cancel()
                        with anyio.CancelScope(shield=True):
                            await stopped.wait()
                finally:
                    election.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        log.error("Leaderelection lost", lock=lock)
        raise LeaseLostError(f"lease {lock} was lost")

    def _record(self, action: str, what: str) -> None:
        """Record an event. Each has another action, because events that differ only in their notes
        become one event with a count.
        """
        lease = ObjectReference(
            "coordination.k8s.io/v1", "Lease", self._terms.namespace, self._terms.name
        )
        note = f"{self._terms.identity} {what}"
        self._recorder.tell(
            RecordEvent(lease, EventType.NORMAL, "LeaderElection", action, note, self._sender)
        )
