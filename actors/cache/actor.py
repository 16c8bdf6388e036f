"""The cache actor: feeds the cache's state with messages, and lends out the snapshot.

The snapshot shares its NodeInfos and objects with the state. A decision may take as long as its extenders do, so what
comes while the snapshot is lent is held back until it is returned.
"""

from __future__ import annotations

from typing import assert_never

import structlog

from actors.cache.state import CacheState, Lend, Refused
from actors.messages import CacheMessage, ReturnSnapshot
from actors.runtime.actor import Actor
from actors.runtime.mailbox import Mailbox

log = structlog.get_logger(__name__)


class CacheActor(Actor[CacheMessage]):
    def __init__(self, mailbox: Mailbox[CacheMessage], state: CacheState) -> None:
        super().__init__("cache", mailbox)
        self._state = state
        self._lent = False
        self._held_back: list[CacheMessage] = []

    async def handle(self, batch: list[CacheMessage]) -> None:
        for message in batch:
            if isinstance(message, ReturnSnapshot):
                self._lent = False
                held_back, self._held_back = self._held_back, []
                for earlier in held_back:
                    self._take(earlier)
            elif self._lent:
                self._held_back.append(message)
            else:
                self._take(message)

    def _take(self, message: CacheMessage) -> None:
        for effect in self._state.handle(message):
            match effect:
                case Lend(order, snapshot):
                    self._lent = True
                    order.reply.set(snapshot)
                case Refused(name, problem):
                    log.warning("refused", pod=name, problem=problem)
                case _:
                    assert_never(effect)
