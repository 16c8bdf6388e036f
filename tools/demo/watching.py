"""Follows the cluster of a demo until every pod is decided, and shows it on a terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup, TaskStatus
from rich.console import Console
from rich.live import Live

from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed
from berth.actors.runtime.clock import Clock
from berth.actors.wiring.glance import Glance

from ..apiserver.resources import BY_KIND, Kind
from ..hollow.embedded import Embedded
from .placements import Document, Placements, Summary
from .tables import live_view

FOLLOWED = tuple(
    BY_KIND[kind]
    for kind in (
        ("v1", "Node"),
        ("resource.k8s.io/v1", "ResourceClaim"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "ReplicaSet"),
        ("v1", "ReplicationController"),
        ("batch/v1", "Job"),
        ("apps/v1", "DaemonSet"),
        ("v1", "Pod"),
    )
)
SETTLED_LOOKS = 5
REFRESH_SECONDS = 0.1


class Watching:
    """The view of a cluster; its time begins when it is made."""

    def __init__(self, access: Embedded, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._began = clock.now()
        self._placements = Placements()

    async def start(self, group: TaskGroup) -> None:
        """Follows the cluster in tasks of the group, from its present state on."""
        for kind in FOLLOWED:
            await group.start(self._follow, kind)

    async def _follow(self, kind: Kind, *, task_status: TaskStatus[None]) -> None:
        name, held, started = kind.kind, dict[str, Document](), False
        async for change in self._access.follow(kind.path(), dict).changes():
            now = self._now()
            match change:
                case ObjectsListed(items):
                    listed = {item["metadata"]["uid"]: item for item in items}
                    for uid in held.keys() - listed.keys():
                        self._placements.remove(name, held[uid], now)
                    held = listed
                    for item in items:
                        self._placements.put(name, item, now)
                    if not started:
                        task_status.started()
                        started = True
                case ObjectChanged(item):
                    held[item["metadata"]["uid"]] = item
                    self._placements.put(name, item, now)
                case ObjectDeleted(item):
                    held.pop(item["metadata"]["uid"], None)
                    self._placements.remove(name, item, now)

    async def settled(self, glance: Callable[[], Awaitable[Glance]]) -> None:
        """Waits until every pod is decided, the scheduler has none in hand, and several looks in a
        row have found no change.

        A wait in seconds would not suffice: on a busy machine they pass in one turn of the loop, in
        which all parts of the cluster run except the scheduler.
        """
        changed, quiet = -1.0, 0
        while quiet < SETTLED_LOOKS:
            await self._clock.sleep(REFRESH_SECONDS)
            is_quiet = self._placements.is_decided and self._placements.changed == changed
            if is_quiet:
                queue = await glance()
                is_quiet = not queue.active and not queue.in_flight
            changed, quiet = self._placements.changed, quiet + 1 if is_quiet else 0

    async def show(self) -> None:
        """Shows the cluster on standard error until cancelled, and then clears it away."""
        console = Console(stderr=True)
        with Live(console=console, transient=True, auto_refresh=False) as live:
            while True:
                live.update(
                    live_view(self._placements, self._now(), console.size.height), refresh=True
                )
                await self._clock.sleep(REFRESH_SECONDS)

    def summary(self) -> Summary:
        return self._placements.summary()

    def _now(self) -> float:
        return self._clock.now() - self._began
