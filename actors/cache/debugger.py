"""The cache debugger: compares the cache and the queue with the API server regularly, and logs
their contents on a signal.

Mirrors kube-scheduler's CacheDebugger, which compares on SIGUSR2 alone and heals nothing. Nodes and
pods are compared with the cache, pending pods with the queue, in slices, so that no other task
waits for long. Each slice is read between two turns of the informers. By then all their changes are
in the mailboxes, so a change during a comparison is never taken for a difference.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
    Sequence,
    Set,
)
from itertools import filterfalse

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskStatus

from ..mailboxes import Mailboxes
from ..messages.cache import Compare, CountCached, ListCached, NodeDump, TakeDump
from ..messages.comparison import Difference
from ..messages.queue import ComparePending, CountQueued, ListQueued
from ..process.signals import DUMP, each_signal
from ..runtime.ask import ask
from ..runtime.clock import Clock
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.core import FINISHED, Node, Pod

log = get_logger(__name__)

LOOK_SECONDS = 30.0
SLICE = 2_000  # pods, or nodes, that are compared in one turn: about two milliseconds
DUMP_SLICE = 50  # nodes, each with its pods


class CacheDebugger:
    """The debugger of the cache.

    `nodes` and `pods` return the objects that the informers hold and have delivered, `in_binding`
    returns the statistics of the binding cycles. `schedulers` are our scheduler names.
    """

    def __init__(
        self,
        mailboxes: Mailboxes,
        nodes: Callable[[], Mapping[str, Node]],
        pods: Callable[[], Mapping[str, Pod]],
        schedulers: Set[str],
        clock: Clock,
        in_binding: Callable[[], msgspec.Struct],
    ) -> None:
        self._cache = mailboxes.cache
        self._queue = mailboxes.queue
        self._nodes = nodes
        self._pods = pods
        self._schedulers = schedulers
        self._clock = clock
        self._in_binding = in_binding

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Compares every half minute, and dumps at each signal, until cancelled.

        A difference is healed only if two comparisons in a row find it. A difference that passes by
        itself needs no healing.
        """
        async with anyio.create_task_group() as group:
            await group.start(each_signal, DUMP, self.dump)
            task_status.started()
            suspected: frozenset[Difference] = frozenset()
            while True:
                await self._clock.sleep(LOOK_SECONDS)
                differences = await self.compare()
                again = [difference for difference in differences if difference in suspected]
                await self._heal(again)
                suspected = frozenset(differences).difference(again)

    async def compare(self) -> tuple[Difference, ...]:
        """Returns the differences of the cache and the queue from the API server, in order."""
        cached = await ask(self._cache, ListCached)
        queued = await ask(self._queue, ListQueued)
        differences: set[Difference] = set()
        async for names in _slices(self._nodes(), (cached.nodes,)):
            differences.update(await self._compare(names, ()))
        async for keys in _slices(self._pods(), (cached.pods,)):
            differences.update(await self._compare((), keys))
            differences.update(await self._compare_pending(_unbound(keys, self._pods())))
        async for keys in _slices({}, (queued,)):
            differences.update(await self._compare_pending(keys))
        return tuple(sorted(differences))

    async def _heal(self, differences: Sequence[Difference]) -> None:
        nodes, pods, pending = (
            [difference.key for difference in differences if difference.kind == kind]
            for kind in ("Node", "Pod", "PendingPod")
        )
        if nodes or pods:
            await self._compare(nodes, pods, heal=True)
        if pending:
            await self._compare_pending(pending, heal=True)

    async def _compare(
        self, nodes: Sequence[str], pods: Sequence[str], *, heal: bool = False
    ) -> tuple[Difference, ...]:
        all_nodes, all_pods = self._nodes(), self._pods()
        held_nodes = dict(zip(nodes, map(all_nodes.get, nodes), strict=True))
        held_pods = dict(zip(pods, map(all_pods.get, pods), strict=True))
        return await ask(self._cache, lambda reply: Compare(reply, held_nodes, held_pods, heal))

    async def _compare_pending(
        self, pods: Sequence[str], *, heal: bool = False
    ) -> tuple[Difference, ...]:
        all_pods = self._pods()
        pending = {key: self._pending(all_pods.get(key)) for key in pods}
        return await ask(self._queue, lambda reply: ComparePending(reply, pending, heal))

    def _pending(self, pod: Pod | None) -> Pod | None:
        """Returns the pod if it belongs in the queue, otherwise None."""
        if pod is None or pod.spec.node_name or pod.status.phase in FINISHED:
            return None
        return pod if pod.spec.scheduler_name in self._schedulers else None

    async def nodes(self) -> AsyncGenerator[tuple[NodeDump, ...], None]:
        """Yields every cached node with its pods, in the order of their names, in slices."""
        names = sorted((await ask(self._cache, ListCached)).nodes)
        for start in range(0, len(names), DUMP_SLICE):
            await anyio.lowlevel.checkpoint()
            yield await self._dump_nodes(tuple(names[start : start + DUMP_SLICE]))

    async def _dump_nodes(self, names: tuple[str, ...]) -> tuple[NodeDump, ...]:
        return await ask(self._cache, lambda reply: TakeDump(reply, names))

    async def dump(self) -> None:
        """Logs every cached node with its pods, the statistics, and the differences from the API
        server.
        """
        compared = await self.compare()
        async for nodes in self.nodes():
            for node in nodes:
                log.info("dump of a cached node", **msgspec.to_builtins(node))
        statistics = {
            "cache": await ask(self._cache, CountCached),
            "queue": await ask(self._queue, CountQueued),
            "binding": self._in_binding(),
        }
        for name, counts in statistics.items():
            log.info("dump of statistics", of=name, **msgspec.to_builtins(counts))
        differences = [
            f"{difference.what} {difference.kind} {difference.key}" for difference in compared
        ]
        log.info("comparison of the cache with the API server", differences=differences)


def _unbound(keys: Sequence[str], pods: Mapping[str, Pod]) -> list[str]:
    """Returns the keys of the pods that have no node."""
    return [
        key
        for key, pod in zip(keys, map(pods.get, keys), strict=True)
        if pod is not None and not pod.spec.node_name
    ]


async def _slices(
    followed: Mapping[str, object], here: Iterable[tuple[str, ...]]
) -> AsyncIterator[tuple[str, ...]]:
    """Yields the keys that the informers hold, then those that only the cache or the queue has. A
    key may come twice.

    Each slice starts in a new turn of the event loop, because an idle actor answers in the turn of
    the asker, without any waiting.
    """
    every = tuple(followed)
    for start in range(0, len(every), SLICE):
        await anyio.lowlevel.checkpoint()
        yield every[start : start + SLICE]
    for keys in here:
        for start in range(0, len(keys), SLICE):
            await anyio.lowlevel.checkpoint()
            unknown = tuple(filterfalse(followed.__contains__, keys[start : start + SLICE]))
            if unknown:
                yield unknown
