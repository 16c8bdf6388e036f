"""Numbers of unreadable objects and of mended mistakes, counted when the metrics are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...mailboxes import Mailboxes
from ...messages.cache import CountCached
from ...messages.queue import CountQueued
from ...runtime.ask import ask
from ...telemetry.measures import Registry


class Sizes:
    """`unreadable` returns the numbers of objects that cannot be read, by kind."""

    def __init__(
        self, registry: Registry, mailboxes: Mailboxes, unreadable: Callable[[], Mapping[str, int]]
    ) -> None:
        self._mailboxes = mailboxes
        self._count_unreadable = unreadable
        self._unreadable = registry.gauge(
            "berth_unreadable_objects",
            "Objects at the API server that cannot be read, by kind.",
            ("kind",),
        )
        self._mended = registry.counter(
            "berth_cache_mended_total",
            "What was wrong in the cache or the queue and was put right.",
            ("what",),
        )
        registry.refresh_by(self.refresh)

    async def refresh(self) -> None:
        queue = await ask(self._mailboxes.queue, CountQueued)
        cache = await ask(self._mailboxes.cache, CountCached)
        for kind, number in self._count_unreadable().items():
            self._unreadable.child(kind).set(number)
        self._mended.child("difference").value = cache.healed
        self._mended.child("snapshot").value = cache.repaired
        self._mended.child("pending_pod").value = queue.healed
