"""Ask: an order that wants an answer, and the one-shot place where the answer goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
from berth.actors.runtime.mailbox import Mailbox, MailboxClosedError

M = TypeVar("M")
T = TypeVar("T")


class Reply(Generic[T]):
    """A promise of one value. A second value is a bug of the answering actor and raises."""

    __slots__ = ("_event", "_value")

    def __init__(self) -> None:
        self._event: anyio.Event | None = None  # made by who waits before the value is there
        self._value: tuple[T] | MailboxClosedError | None = None

    def set(self, value: T) -> None:
        assert self._value is None, "answered twice"
        self._value = (value,)
        if self._event is not None:
            self._event.set()

    def fail(self, error: MailboxClosedError) -> None:
        """The actor is gone: whoever waits gets the error. Does nothing if the answer is there."""
        if self._value is None:
            self._value = error
            if self._event is not None:
                self._event.set()

    async def wait(self) -> T:
        """The value, once it is there. Raises MailboxClosedError if the actor stopped before
        answering.
        """
        if self._value is None:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()
        value = self._value
        assert value is not None
        if isinstance(value, MailboxClosedError):
            raise value
        return value[0]


async def ask(mailbox: Mailbox[M], order: Callable[[Reply[T]], M]) -> T:
    """Send the order made with a fresh Reply and wait for its answer. Raises MailboxClosedError."""
    reply: Reply[T] = Reply()
    await mailbox.tell(order(reply))
    return await reply.wait()
