"""A mailbox in the place of an actor that is not part of a test."""

from __future__ import annotations

from typing import TypeVar

from berth.actors.runtime.mailbox import Mailbox, MailboxClosedError

M = TypeVar("M")


class Inbox(Mailbox[M]):
    """A mailbox that keeps every message, in order, instead of passing it to a reader."""

    __slots__ = ("messages",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.messages: list[M] = []

    def tell(self, message: M) -> None:
        if self._closed:
            raise MailboxClosedError(self.name)
        self.messages.append(message)

    def take(self) -> list[M]:
        """Removes the messages so far and returns them."""
        messages, self.messages = self.messages, []
        return messages
