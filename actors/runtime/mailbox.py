"""Mailboxes: typed, unbounded, first in first out, emptied in batches.

A mailbox has one reader, its actor. Sending never waits and costs no turn of the event loop. If
the reader is idle, it handles the message at once, in the sender's turn, and is not woken. If it is
busy, the message waits, and the reader is woken once for all messages that arrived meanwhile. The
order is the same either way. Actors can do without a bound: the scheduling cycle pulls its work,
and the recorder's outbox has bounds.

Invariant: a message leaves the mailbox only when its reader runs, so a cancelled reader takes none
with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

M = TypeVar("M")

BATCH = 256  # messages that a reader takes before other tasks have a turn


class MailboxClosedError(Exception):
    """The mailbox was closed."""


class Mailbox(Generic[M]):
    """The mailbox of one actor; errors give its name."""

    __slots__ = ("_closed", "_failure", "_messages", "_reader", "_taker", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._messages: deque[M] = deque()
        self._reader: anyio.Event | None = None  # wakes the reader, if it waits
        self._taker: Callable[[M], None] | None = None  # handles a message while the reader waits
        self._failure: Exception | None = None
        self._closed = False

    def tell(self, message: M) -> None:
        """Sends a message. Raises MailboxClosedError."""
        take = self._taker
        if take is None:
            if self._closed:
                raise MailboxClosedError(self.name)
            self._messages.append(message)
            self._wake()
            return
        # Messages sent while this one is handled come after it, and wake the reader.
        self._taker = None
        try:
            take(message)
        except (
            Exception
        ) as failure:  # The exception is for the reader, and the sender must not see it.
            self._failure = failure
            self._wake()
        else:
            if self._messages or self._closed:
                self._wake()
            else:
                self._taker = take

    async def drain(self, at_once: Callable[[M], None]) -> list[M]:
        """Returns the waiting messages, at most BATCH of them. Raises MailboxClosedError.

        While no message waits, each new one is passed to `at_once` as it arrives. An exception of
        `at_once` is raised here, and not to the sender.
        """
        if self._messages:
            await (
                anyio.lowlevel.checkpoint()
            )  # Other tasks have a turn, however many messages wait.
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
        if len(self._messages) <= BATCH:
            batch = list(self._messages)
            self._messages.clear()
            return batch
        return [self._messages.popleft() for _ in range(BATCH)]

    def close(self) -> None:
        """Refuses all further messages, and drops those that wait."""
        self._closed = True
        self._messages.clear()
        self._taker = None
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None:
            self._reader.set()
