"""The mailboxes of the actors that take messages."""

from __future__ import annotations

import msgspec

from .messages.binding import BindingMessage
from .messages.cache import CacheMessage
from .messages.preemption import PreemptionMessage
from .messages.queue import QueueMessage
from .messages.recorder import RecorderMessage
from .runtime.mailbox import Mailbox


class Mailboxes(msgspec.Struct, frozen=True):
    """One mailbox for each actor that takes messages; made once, with the actors."""

    queue: Mailbox[QueueMessage] = msgspec.field(default_factory=lambda: Mailbox("queue"))
    cache: Mailbox[CacheMessage] = msgspec.field(default_factory=lambda: Mailbox("cache"))
    binding: Mailbox[BindingMessage] = msgspec.field(default_factory=lambda: Mailbox("binding"))
    preemption: Mailbox[PreemptionMessage] = msgspec.field(
        default_factory=lambda: Mailbox("preemption")
    )
    recorder: Mailbox[RecorderMessage] = msgspec.field(default_factory=lambda: Mailbox("recorder"))

    def close(self) -> None:
        """Closes all mailboxes, once nobody sends to an actor any more."""
        for mailbox in (self.queue, self.cache, self.binding, self.preemption, self.recorder):
            mailbox.close()
