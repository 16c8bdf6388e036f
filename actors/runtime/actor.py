"""The actor: a task that owns one mailbox and handles its messages in order.

Handling a message never waits. Therefore an idle actor handles a message in its sender's turn, and
most asks have their answer as soon as they are sent. An actor that was busy handles the messages
that arrived meanwhile as a batch. Work that has to wait is done by tasks that the actor keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskStatus

from .mailbox import Mailbox

M = TypeVar("M")


class Actor(ABC, Generic[M]):
    """The base of actors. It has a mailbox and implements `handle`. An exception ends the actor;
    its supervisor decides what follows.
    """

    def __init__(self, mailbox: Mailbox[M]) -> None:
        self.mailbox = mailbox

    @abstractmethod
    def handle(self, message: M) -> None:
        """Handles one message. It is not called again before it has returned."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Handles messages until cancelled."""
        task_status.started()
        while True:
            for message in await self.mailbox.drain(self.handle):
                self.handle(message)
