"""Follows the cluster of a demo until its end, and shows it on a terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from itertools import islice

from anyio.abc import TaskGroup, TaskStatus
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed
from berth.actors.runtime.clock import Clock
from berth.actors.wiring.glance import Glance

from ...cluster.controllers.embedded_access import EmbeddedAccess
from ...kubernetes.api.types.resources import BY_KIND, Kind
from .control_plane import is_of_control_plane
from .expectations import STORAGE, Expectations, IsDue, Wait
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
        ("v1", "PersistentVolumeClaim"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("storage.k8s.io/v1", "VolumeAttachment"),
    )
)
SETTLED_LOOKS = 5
REFRESH_SECONDS = 0.1
STILL_SECONDS = 5.0  # without a change, what no kubelet is going to do does not come
TELL_SECONDS = 10.0
MOST_TOLD = 3


class Watching:
    """The live view of a cluster. Its time begins when it is made."""

    def __init__(self, access: EmbeddedAccess, clock: Clock, schedulers: Collection[str]) -> None:
        self._access = access
        self._clock = clock
        self._began = clock.now()
        self._placements = Placements(schedulers)
        self._expectations = Expectations()
        self._moved = 0.0  # when something other than a node changed last
        self._is_due: IsDue = lambda _: True

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
                        self._remove(name, held[uid], now)
                    held = listed
                    for item in items:
                        self._put(name, item, now)
                    if not started:
                        task_status.started()
                        started = True
                case ObjectChanged(item):
                    held[item["metadata"]["uid"]] = item
                    self._put(name, item, now)
                case ObjectDeleted(item):
                    held.pop(item["metadata"]["uid"], None)
                    self._remove(name, item, now)

    def _put(self, kind: str, document: Document, now: float) -> None:
        if kind != "Node":
            self._moved = now
        self._expectations.put(kind, document)
        if kind not in STORAGE and not (kind == "Pod" and is_of_control_plane(document)):
            self._placements.put(kind, document, now)

    def _remove(self, kind: str, document: Document, now: float) -> None:
        self._moved = now
        self._expectations.remove(kind, document)
        if kind not in STORAGE:
            self._placements.remove(kind, document, now)

    async def settled(
        self,
        glance: Callable[[], Awaitable[Glance | None]],
        is_due: IsDue,
        tell: Callable[[str], None],
    ) -> None:
        """Waits until nothing more will happen: every pod is decided and workloads have their pods,
        or the cluster is still and nothing is due. The scheduler has no pod in hand then but those
        whose claims get no volume, and several looks in a row have found no change. What it waits
        for is told every ten seconds.

        A wait in seconds would not suffice: on a busy machine they pass in one turn of the loop, in
        which all parts of the cluster run except the scheduler. A scheduler of somebody else gives
        no glance, None: there, each pod has a node or a reason, and the cluster is still.
        """
        self._is_due = is_due
        changed, quiet, told = -1.0, 0, self._now()
        while quiet < SETTLED_LOOKS:
            await self._clock.sleep(REFRESH_SECONDS)
            is_quiet = self._placements.changed == changed and self._is_over()
            if is_quiet:
                is_quiet = self._rests(await glance())
            changed, quiet = self._placements.changed, quiet + 1 if is_quiet else 0
            if self._now() - told >= TELL_SECONDS:
                told = self._now()
                tell(self.waiting())

    def _is_over(self) -> bool:
        """True if no more pods are to come, as far as the objects tell."""
        if self._placements.is_decided and not self._expectations.are_short:
            return True
        return self._is_still() and not any(wait.moves for wait in self._waits())

    def _is_still(self) -> bool:
        return self._now() - self._moved >= STILL_SECONDS

    def _rests(self, queue: Glance | None) -> bool:
        """True if the scheduler has no pod in hand but those whose claims get no volume."""
        undecided = self._placements.undecided
        hopeless = self._expectations.without_volume(undecided)
        if queue is None:
            return self._is_still() and self._expectations.without_node(undecided) <= hopeless
        return not queue.active and queue.in_flight <= hopeless

    def _waits(self) -> Iterator[Wait]:
        return self._expectations.waits(self._placements.undecided, self._is_due)

    def waiting(self) -> str:
        """Returns what the demo waits for, in a line."""
        sentences = [wait.text for wait in islice(self._waits(), MOST_TOLD + 1)]
        more = ", and more" if len(sentences) > MOST_TOLD else ""
        what = (
            "; ".join(sentences[:MOST_TOLD])
            or "pods that change, or that the scheduler has in hand"
        )
        return f"waiting after {self._now():.0f} s: {what}{more}"

    async def show(self) -> None:
        """Shows the cluster on standard error until cancelled, and then removes the view."""
        console = Console(stderr=True)
        with Live(console=console, transient=True, auto_refresh=False) as live:
            while True:
                view = live_view(self._placements, self._now(), console.size.height - 1)
                waiting = Text(self.waiting(), no_wrap=True, overflow="ellipsis", style="dim")
                live.update(Group(view, waiting), refresh=True)
                await self._clock.sleep(REFRESH_SECONDS)

    def summary(self) -> Summary:
        return self._placements.summary(wait.text for wait in self._waits())

    def _now(self) -> float:
        return self._clock.now() - self._began
