"""Mailboxes: typed, bounded, first in first out, drained in batches.

A mailbox has one reader, its actor. What happens to a message that finds it full is declared with
it: BLOCK lets the sender wait (back-pressure), DROP_OLDEST makes room and counts what is lost
(events, which may be lost but must never hold anything up), REJECT raises MailboxFullError (orders
whose sender can do something else).

A message that finds room costs no turn of the event loop. A reader that waits for nothing else may
take it at once, in the sender's turn, and is not even woken; else it is woken once for all that
came meanwhile. The order is the same. Invariant: nobody waits for room while there is some, so
senders that wait come first. A message is taken only when the reader is back from all waiting, so a
cancelled reader takes none with it.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
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
    """`depth` is how many messages wait now, `highest` the most that ever did; the others count
    since the start.
    """

    received: int
    dropped: int
    depth: int
    highest: int


class _Blocked(Generic[M]):
    """A sender that waits for room; `let_in` once its message is in the mailbox, or will never
    be.
    """

    __slots__ = ("closed", "let_in", "message")

    def __init__(self, message: M) -> None:
        self.message = message
        self.let_in = anyio.Event()
        self.closed = False


class Mailbox(Generic[M]):
    """One actor's mailbox. `capacity` is a number of messages, None for no bound."""

    __slots__ = (
        "_blocked",
        "_capacity",
        "_closed",
        "_dropped",
        "_failure",
        "_highest",
        "_messages",
        "_reader",
        "_received",
        "_taker",
        "name",
        "overflow",
    )

    def __init__(
        self, name: str, capacity: int | None, overflow: Overflow = Overflow.BLOCK
    ) -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"mailbox {name}: expected a capacity of at least 1, got {capacity}")
        self.name = name
        self.overflow = overflow
        self._capacity = sys.maxsize if capacity is None else capacity
        self._messages: deque[M] = deque()
        self._blocked: deque[_Blocked[M]] = deque()
        self._reader: anyio.Event | None = None  # set to wake the reader, if it waits
        self._taker: Callable[[M], None] | None = (
            None  # what takes a message at once while the reader waits
        )
        self._failure: Exception | None = None
        self._closed = False
        self._received = 0
        self._dropped = 0
        self._highest = 0

    async def tell(self, message: M) -> None:
        """Put a message in, waiting for room if the mailbox blocks. Raises MailboxFullError,
        MailboxClosedError.
        """
        if (
            len(self._messages) < self._capacity
            or self.overflow is not Overflow.BLOCK
            or self._closed
        ):
            self.tell_nowait(message)
            return
        blocked = _Blocked(message)
        self._blocked.append(blocked)
        try:
            await blocked.let_in.wait()
        finally:
            if not blocked.let_in.is_set():
                self._blocked.remove(blocked)
        if blocked.closed:
            raise MailboxClosedError(self.name)

    def tell_nowait(self, message: M) -> None:
        """Put a message in without waiting. Raises MailboxFullError (unless it drops),
        MailboxClosedError.
        """
        take = self._taker
        if take is None:
            self._put(message)
            return
        self._received += 1
        self._taker = (
            None  # What is sent while it takes this one comes after it, and wakes the reader.
        )
        try:
            take(message)
        except Exception as failure:  # The reader's own, and not for the sender to see.
            self._failure = failure
            self._wake()
        else:
            if self._messages or self._closed:
                self._wake()
            else:
                self._taker = take

    async def drain(self, most: int = 256, at_once: Callable[[M], None] | None = None) -> list[M]:
        """Wait for a message; take it and those that are there already, `most` at a time. Raises
        MailboxClosedError.

        While nothing is there, messages go to `at_once` as they come; what it raises is raised
        here, not to the sender.
        """
        if self._messages:
            await (
                anyio.lowlevel.checkpoint()
            )  # Others have their turn, however much there is to do here.
        while not self._messages:
            if self._closed:
                raise MailboxClosedError(self.name)
            self._reader, self._taker = anyio.Event(), at_once
            try:
                await self._reader.wait()
            finally:
                self._reader = self._taker = None
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
        if len(self._messages) <= most:
            batch = list(self._messages)
            self._messages.clear()
        else:
            batch = [self._messages.popleft() for _ in range(most)]
        while self._blocked and len(self._messages) < self._capacity:
            blocked = self._blocked.popleft()
            self._put(blocked.message)
            blocked.let_in.set()
        return batch

    def close(self) -> None:
        """No message goes in or out from now on; what waits is lost."""
        self._closed = True
        self._messages.clear()
        for blocked in self._blocked:
            blocked.closed = True
            blocked.let_in.set()
        self._blocked.clear()
        self._taker = None
        self._wake()

    def _put(self, message: M) -> None:
        if self._closed:
            raise MailboxClosedError(self.name)
        messages = self._messages
        if len(messages) >= self._capacity:
            if self.overflow is not Overflow.DROP_OLDEST:
                raise MailboxFullError(self.name)
            messages.popleft()
            self._dropped += 1
        self._received += 1
        messages.append(message)
        self._highest = max(self._highest, len(messages))
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None:
            self._reader.set()

    def statistics(self) -> MailboxStatistics:
        return MailboxStatistics(self._received, self._dropped, len(self._messages), self._highest)
