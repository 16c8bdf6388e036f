"""A hollow DRA driver: publishes the devices of a file as ResourceSlices, and updates them.

It acts for all drivers of the file. Whenever the file changes, or a node comes, changes or goes,
the slices follow. A test offers devices without a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from berth.actors.client.rest import (
    ApiError,
    ConnectionFailedError,
)
from berth.actors.runtime.backoff import (
    Backoff,
    Rng,
)
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.scheduling.kube.devices import ResourceSlice

from ...kubernetes.api.types.resources import BY_KIND
from ...kubernetes.devices.inventory import SLICES, Inventory, InventoryError, Pool, pools
from ...kubernetes.devices.publication import Publish, Withdraw, publication
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from ...kubernetes.objects.structs import Node
from ..controllers.cluster_access import ClusterAccess
from ..controllers.object_watches import Watches
from .inventory_file import read_inventories

log = get_logger(__name__)
NODES = BY_KIND["v1", "Node"]
FILE_SECONDS = 1.0
RETRY = Backoff(initial=0.05, most=10.0, jitter=0.2)


Offer = Callable[[Iterable[Node]], list[Pool]]


async def run_driver(
    access: ClusterAccess,
    clock: Clock,
    rng: Rng,
    path: Path,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Publishes the devices of a file until cancelled; started once they are published.

    Raises InventoryError if the file cannot be used at first. If it cannot be used later, the
    devices stay as they are.
    """
    file = _InventoryFile(path, clock)
    publisher = PoolPublisher(access, clock, rng, file.pools)
    async with anyio.create_task_group() as group:
        group.start_soon(file.follow, publisher.changed)
        await publisher.run(task_status=task_status)


class _InventoryFile:
    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._inventories: list[Inventory] = read_inventories(path)

    def pools(self, nodes: Iterable[Node]) -> list[Pool]:
        return pools(self._inventories, nodes)

    async def follow(self, changed: Callable[[], None]) -> None:
        """Reads the file whenever it has changed."""
        seen = self._content()
        while True:
            await self._clock.sleep(FILE_SECONDS)
            content = self._content()
            if content in (seen, None):
                continue
            seen = content
            try:
                self._inventories = read_inventories(self._path)
            except InventoryError as problem:
                log.warning("devices stay as they are", why=str(problem))
            else:
                changed()

    def _content(self) -> bytes | None:
        # The file is small, and a thread would fall behind virtual time.
        try:
            return self._path.read_bytes()
        except OSError as problem:
            log.debug("file cannot be read", path=str(self._path), why=problem.strerror)
            return None


class PoolPublisher:
    """Keeps the slices of a cluster as an offer says, which returns the pools of all drivers for
    the nodes that are there. `changed` makes it ask again.
    """

    def __init__(self, access: ClusterAccess, clock: Clock, rng: Rng, offer: Offer) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self._offer = offer
        self._cluster = ObjectIndex()
        self._news = anyio.Event()

    def changed(self, _changes: Sequence[ObjectChange] = ()) -> None:
        self._news.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Publishes until cancelled; started once all is published."""
        watches = Watches(self._cluster, self._access, self.changed)
        async with anyio.create_task_group() as group:
            await group.start(watches.follow, NODES, Node)
            await group.start(watches.follow, SLICES, ResourceSlice)
            await self._publish(task_status)

    async def _publish(self, task_status: TaskStatus[None]) -> None:
        failures, started = 0, False
        while True:
            self._news = anyio.Event()
            offered = self._offer(self._cluster.all(Node))
            writes = publication(offered, self._cluster.all(ResourceSlice))
            if all([await self._write(write) for write in writes]):
                failures = 0
                if not started:
                    task_status.started()
                    started = True
                await self._news.wait()
            else:
                failures += 1
                await self._clock.sleep(RETRY.delay(failures, self._rng))

    async def _write(self, write: Publish | Withdraw) -> bool:
        """Sends one write, and stores the server's answer at once. Returns False if it failed."""
        try:
            match write:
                case Publish(document):
                    name = document["metadata"]["name"]
                    replaces = "resourceVersion" in document["metadata"]
                    method = "PUT" if replaces else "POST"
                    path = SLICES.path(name=name if replaces else "")
                    answer = await self._access.call(method, path, ResourceSlice, document)
                    self._cluster.put(answer)
                case Withdraw(name, uid):
                    options = {"preconditions": {"uid": uid}}
                    await self._access.call("DELETE", SLICES.path(name=name), dict, options)
                    self._cluster.discard(ResourceSlice, "", name, uid)
        except (ApiError, ConnectionFailedError) as failure:
            code = failure.code if isinstance(failure, ApiError) else 0
            report = log.debug if code in (404, 409) else log.warning
            report("slice not written", why=str(failure))
            return False
        return True
