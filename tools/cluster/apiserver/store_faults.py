"""The faults that happen to the objects of an API server, however it is reached: compactions,
restarts, clocks that jump, namespaces that vanish, pods that somebody else binds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from random import Random

import anyio
from anyio.abc import TaskGroup

from ...kubernetes.api.requests.request_bodies import DeleteOptions
from ...kubernetes.api.store import Store, StoreEvent
from ...kubernetes.api.types.api_documents import Document, RefusedError
from ...kubernetes.api.types.resources import BY_KIND
from ...kubernetes.api.writes.registry import Api
from ..faults.faults_in_force import Faults
from ..faults.vocabulary import Does, Fault, Met
from .next_write import next_write

PODS, NODES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]
NAMESPACES = BY_KIND["v1", "Namespace"]
SAMPLE_SECONDS = 1.0
MOST_SAMPLES = 3600
Happens = Callable[[Fault], Awaitable[None]]


class StoreFaults:
    """What the faults in force do to a store.

    `binds` is called with the node before somebody else binds a pod to it.
    """

    def __init__(
        self,
        store: Store,
        faults: Faults,
        now: Callable[[], float],
        rng: Random,
        binds: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.faults = faults
        self._store = store
        self._now = now
        self._rng = rng
        self._more: dict[str, Happens] = {}
        self._binds = binds
        self._samples: deque[tuple[float, int]] = deque(maxlen=MOST_SAMPLES)
        self._group: TaskGroup | None = None
        self._pods_from: int | None = None  # the revision after which pods may be bound elsewhere
        faults.when_added.append(self._note_added)

    def when(self, does: Does, happens: Happens) -> None:
        """Adds what such a fault does elsewhere."""
        self._more[does] = happens

    async def run(self) -> None:
        """Lets faults happen until cancelled."""
        async with anyio.create_task_group() as self._group:
            self._group.start_soon(self.faults.happen, self._carry_out)
            self._group.start_soon(self._follow_pods)
            self._group.start_soon(self._sample)

    def revision_of(self, seconds: float) -> int:
        """Returns the revision of so many seconds ago, as far as it is known; 0 if it is not."""
        at = bisect_right(self._samples, (self._now() - seconds, 1 << 63))
        return self._samples[max(at - 1, 0)][1] if self._samples else 0

    @property
    def revision(self) -> int:
        """The revision of now."""
        return self._store.revision

    async def _carry_out(self, fault: Fault) -> None:
        if fault.does in self._more:
            await self._more[fault.does](fault)
        match fault.does:
            case "compact":
                self._store.compact()
            case "server-restart-cold":
                assert self._group is not None
                self._group.start_soon(self._compact_later, fault.seconds)
            case "clock-jump":
                self._jump(fault.seconds)
            case "namespace-gone":
                with suppress(RefusedError):
                    Api(self._store).delete(NAMESPACES, "", fault.namespace, DeleteOptions())

    async def _compact_later(self, seconds: float) -> None:
        """The watch cache of a server that comes back begins anew."""
        await anyio.sleep(seconds)
        self._store.compact()

    def _jump(self, seconds: float) -> None:
        outside = self._store.outside
        wall, by = outside.wall, timedelta(seconds=seconds)
        outside.wall = lambda: wall() + by

    async def _sample(self) -> None:
        """Notes the revisions of the last hour, once a list is to be older than the objects."""
        await self._until(lambda: any(fault.met is Met.LIST for fault in self.faults))
        while True:
            if not self._samples or self._samples[-1][1] != self._store.revision:
                self._samples.append((self._now(), self._store.revision))
            await anyio.sleep(SAMPLE_SECONDS)

    def _note_added(self) -> None:
        if self._pods_from is None and any(fault.met is Met.POD for fault in self.faults):
            self._pods_from = self._store.revision

    async def _follow_pods(self) -> None:
        """Lets new pods meet those who bind them, once there are any."""
        await self._until(lambda: self._pods_from is not None)
        assert self._group is not None
        assert self._pods_from is not None
        store, revision = self._store, self._pods_from
        while True:
            try:
                events = store.since(PODS, revision)
            except RefusedError:  # compacted meanwhile
                events = ()
            revision = store.revision
            for event in events:
                if event.type == "ADDED" and _is_pending(event):
                    fault = self.faults.of_pod()
                    if fault is not None:
                        bind = partial(self._bind, event.after.document, fault)
                        self._group.start_soon(bind)
            await next_write(store, PODS)

    async def _bind(self, pod: Document, fault: Fault) -> None:
        await anyio.sleep(fault.seconds)
        nodes = [stored.document["metadata"]["name"] for stored in self._store.list(NODES)]
        node = fault.node or (self._rng.choice(nodes) if nodes else "")
        metadata = pod["metadata"]
        there = self._store.find(PODS, metadata["namespace"], metadata["name"])
        if not node or there is None or there["spec"].get("nodeName"):
            return
        self._binds(node)
        target = {"metadata": {"uid": metadata["uid"]}, "target": {"kind": "Node", "name": node}}
        with suppress(RefusedError):
            Api(self._store).bind(metadata["namespace"], metadata["name"], target)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.faults.changed()


def _is_pending(event: StoreEvent) -> bool:
    return not event.after.document["spec"].get("nodeName")
