"""Mailboxes: typed, bounded, first in first out, drained in batches.

A mailbox has one reader, its actor. What happens to a message that finds it full is declared with it: BLOCK lets the
sender wait (back-pressure), DROP_OLDEST makes room and counts what is lost (events, which may be lost but must never
hold anything up), REJECT raises MailboxFullError (orders whose sender can do something else).
"""

from __future__ import annotations

import enum
import math
from typing import Generic, TypeVar

import anyio
import msgspec

M = TypeVar("M")


class Overflow(enum.Enum):
    BLOCK = "block"
    DROP_OLDEST = "drop_oldest"
    REJECT = "reject"


class MailboxFullError(Exception):
    """A REJECT mailbox had no room."""


class MailboxClosedError(Exception):
    """The actor behind the mailbox has stopped, or the mailbox was closed."""


class MailboxStatistics(msgspec.Struct, frozen=True):
    """`depth` is how many messages wait now, `highest` the most that ever did; the others count since the start."""

    received: int
    dropped: int
    depth: int
    highest: int


class Mailbox(Generic[M]):
    """One actor's mailbox. `capacity` is a number of messages, None for no bound."""

    def __init__(self, name: str, capacity: int | None, overflow: Overflow = Overflow.BLOCK) -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"mailbox {name}: expected a capacity of at least 1, got {capacity}")
        self.name = name
        self.overflow = overflow
        self._send, self._receive = anyio.create_memory_object_stream[M](math.inf if capacity is None else capacity)
        self._received = 0
        self._dropped = 0
        self._highest = 0

    async def tell(self, message: M) -> None:
        """Put a message in, waiting for room if the mailbox blocks. Raises MailboxFullError, MailboxClosedError."""
        if self.overflow is Overflow.BLOCK:
            try:
                self._send.send_nowait(message)
            except anyio.WouldBlock:
                try:
                    await self._send.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    raise MailboxClosedError(self.name) from None
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise MailboxClosedError(self.name) from None
            self._count()
        else:
            self.tell_nowait(message)

    def tell_nowait(self, message: M) -> None:
        """Put a message in without waiting. Raises MailboxFullError (unless it drops), MailboxClosedError."""
        try:
            self._send.send_nowait(message)
        except anyio.WouldBlock:
            if self.overflow is not Overflow.DROP_OLDEST:
                raise MailboxFullError(self.name) from None
            self._receive.receive_nowait()
            self._dropped += 1
            self._send.send_nowait(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise MailboxClosedError(self.name) from None
        self._count()

    async def drain(self, most: int = 256) -> list[M]:
        """Wait for a message; take it and those that are there already, `most` at a time. Raises MailboxClosedError."""
        try:
            batch = [await self._receive.receive()]
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise MailboxClosedError(self.name) from None
        try:
            while len(batch) < most:
                batch.append(self._receive.receive_nowait())
        except (anyio.WouldBlock, anyio.EndOfStream):
            pass
        return batch

    def close(self) -> None:
        """No message goes in or out from now on; what waits is lost."""
        self._send.close()
        self._receive.close()

    def _count(self) -> None:
        self._received += 1
        depth = self._send.statistics().current_buffer_used
        if depth > self._highest:
            self._highest = depth

    def statistics(self) -> MailboxStatistics:
        depth = self._send.statistics().current_buffer_used
        return MailboxStatistics(self._received, self._dropped, depth, self._highest)
