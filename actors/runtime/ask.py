"""Ask: sends an order that wants an answer, and waits for that answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

from .mailbox import Mailbox

M = TypeVar("M")
T = TypeVar("T")


class Reply(Generic[T]):
    """A promise of one value. An actor that sets a second value has a bug, which an assertion
    reports. `value` holds it, as soon as there is one.
    """

    __slots__ = ("_event", "value")

    def __init__(self) -> None:
        self._event: anyio.Event | None = (
            None  # made only if somebody waits before there is a value
        )
        self.value: tuple[T] | None = None

    def set(self, value: T) -> None:
        assert self.value is None, "answered twice"
        self.value = (value,)
        if self._event is not None:
            self._event.set()

    async def wait(self) -> T:
        """Returns the value as soon as there is one."""
        if self.value is None:
            if self._event is None:
                self._event = anyio.Event()
            await self._event.wait()
        assert self.value is not None
        return self.value[0]


async def ask(mailbox: Mailbox[M], order: Callable[[Reply[T]], M]) -> T:
    """Sends the order that `order` makes of a new Reply, and returns its answer. Raises
    MailboxClosedError if the mailbox is closed already.
    """
    reply: Reply[T] = Reply()
    mailbox.tell(order(reply))
    # Most actors are idle, and have answered by now.
    return await reply.wait() if reply.value is None else reply.value[0]
