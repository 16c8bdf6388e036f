"""The actor: a task that owns one mailbox and handles its messages in order.

Handling never waits. So an idle actor handles a message in the turn of its sender, and an ask is
mostly answered when it is sent; an actor that is busy finds a batch when it is back. What must wait
is done by tasks that the actor keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import anyio
import msgspec
from anyio.abc import TaskStatus
from berth.actors.runtime.mailbox import Mailbox, MailboxStatistics

M = TypeVar("M")


class ActorStatistics(msgspec.Struct, frozen=True):
    """`handled` counts messages, `batches` the times that some had come while the actor was
    busy.
    """

    name: str
    handled: int
    batches: int
    mailbox: MailboxStatistics


class Actor(ABC, Generic[M]):
    """Derive, give a mailbox, and say what a message does. An exception ends the actor; the
    supervisor decides on.
    """

    def __init__(self, name: str, mailbox: Mailbox[M]) -> None:
        self.name = name
        self.mailbox = mailbox
        self._batches = 0

    @abstractmethod
    def handle(self, message: M) -> None:
        """Handle one message. Not called again before it has returned."""

    async def on_start(self) -> None:
        """Runs before the actor counts as started."""

    async def on_stop(self) -> None:
        """Runs when the actor ends, whatever ended it, shielded from cancellation."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Handle messages until cancelled."""
        await self.on_start()
        task_status.started()
        try:
            while True:
                for message in await self.mailbox.drain(at_once=self.handle):
                    self.handle(message)
                self._batches += 1
        finally:
            with anyio.CancelScope(shield=True):
                await self.on_stop()

    def statistics(self) -> ActorStatistics:
        mailbox = self.mailbox.statistics()
        return ActorStatistics(
            self.name, mailbox.received - mailbox.dropped - mailbox.depth, self._batches, mailbox
        )
