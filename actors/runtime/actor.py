"""The actor: a task that owns one mailbox and handles its messages in batches, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import anyio
import msgspec
from anyio.abc import TaskStatus

from actors.runtime.mailbox import Mailbox, MailboxStatistics

M = TypeVar("M")


class ActorStatistics(msgspec.Struct, frozen=True):
    name: str
    handled: int
    batches: int
    mailbox: MailboxStatistics


class Actor(ABC, Generic[M]):
    """Derive, give a mailbox, and say what a batch does. An exception ends the actor; the supervisor decides on."""

    def __init__(self, name: str, mailbox: Mailbox[M]) -> None:
        self.name = name
        self.mailbox = mailbox
        self._handled = 0
        self._batches = 0

    @abstractmethod
    async def handle(self, batch: list[M]) -> None:
        """Handle the messages of a batch in their order; at least one."""

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
                batch = await self.mailbox.drain()
                await self.handle(batch)
                self._handled += len(batch)
                self._batches += 1
        finally:
            with anyio.CancelScope(shield=True):
                await self.on_stop()

    def statistics(self) -> ActorStatistics:
        return ActorStatistics(self.name, self._handled, self._batches, self.mailbox.statistics())
