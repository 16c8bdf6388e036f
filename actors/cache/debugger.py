"""The cache debugger: looks for differences from the API server all the time, and tells everything on a signal.

Mirrors kube-scheduler's CacheDebugger, which compares on SIGUSR2 alone and heals nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
import msgspec
import structlog
from anyio.abc import TaskStatus

from actors.kube.core import Node, Pod
from actors.messages import CacheMessage, Compare, Difference, TakeDump
from actors.runtime.ask import ask
from actors.runtime.clock import Clock
from actors.runtime.mailbox import Mailbox
from actors.runtime.signals import DUMP, each_signal

log = structlog.get_logger(__name__)

LOOK_SECONDS = 30.0


class CacheDebugger:
    """`nodes` and `pods` give what the informers hold and have delivered; `statistics`, by name, go with a dump."""

    def __init__(
        self,
        cache: Mailbox[CacheMessage],
        nodes: Callable[[], Mapping[str, Node]],
        pods: Callable[[], Mapping[str, Pod]],
        clock: Clock,
        statistics: Mapping[str, Callable[[], msgspec.Struct]],
    ) -> None:
        self._cache = cache
        self._nodes = nodes
        self._pods = pods
        self._clock = clock
        self._statistics = statistics

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Compare every half minute, and dump whenever signalled, until cancelled."""
        async with anyio.create_task_group() as group:
            await group.start(each_signal, DUMP, self.dump)
            task_status.started()
            while True:
                await self._clock.sleep(LOOK_SECONDS)
                await self.compare(heal=True)

    async def compare(self, *, heal: bool) -> tuple[Difference, ...]:
        # Taken between two turns of the informers, so every change that made these is in the cache's mailbox already.
        nodes, pods = self._nodes(), self._pods()
        return await ask(self._cache, lambda reply: Compare(reply, nodes, pods, heal))

    async def dump(self) -> None:
        """Log every cached node with its pods, the statistics, and how the cache differs from the API server."""
        found = await self.compare(heal=False)
        for node in await ask(self._cache, TakeDump):
            log.info("dump of a cached node", **msgspec.to_builtins(node))
        for name, statistics in self._statistics.items():
            log.info("dump of statistics", of=name, **msgspec.to_builtins(statistics()))
        differences = [f"{difference.what} {difference.kind} {difference.key}" for difference in found]
        log.info("comparison of the cache with the API server", differences=differences)
