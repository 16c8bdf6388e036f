"""The cache actor: feeds the cache's state with messages, and lends out the snapshot."""

from __future__ import annotations

from typing import assert_never

import structlog

from actors.cache.state import CacheState, Lend, Refused
from actors.messages import CacheMessage
from actors.runtime.actor import Actor
from actors.runtime.mailbox import Mailbox

log = structlog.get_logger(__name__)


class CacheActor(Actor[CacheMessage]):
    def __init__(self, mailbox: Mailbox[CacheMessage], state: CacheState) -> None:
        super().__init__("cache", mailbox)
        self._state = state

    async def handle(self, batch: list[CacheMessage]) -> None:
        for message in batch:
            for effect in self._state.handle(message):
                match effect:
                    case Lend(order, snapshot):
                        order.reply.set(snapshot)
                    case Refused(name, problem):
                        log.warning("refused", pod=name, problem=problem)
                    case _:
                        assert_never(effect)
