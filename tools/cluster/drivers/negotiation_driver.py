"""Runs the hollow driver: follow, decide about every object, write.

After every change, the driver looks at all contexts and claims, which is enough for a toy cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from anyio.abc import TaskGroup, TaskStatus

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
from berth.actors.scheduling.kube.meta import HasMetadata, key

from ...kubernetes.api.types.resources import BY_KIND, Kind
from ...kubernetes.devices.claim_release import ClaimRelease
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from ...kubernetes.objects.structs import Node, Pod
from ...kubernetes.objects.writes import Again, Delete, Patch, Write
from ..controllers.cluster_access import ClusterAccess
from ..controllers.object_watches import Watches
from ..negotiation.kinds import API_VERSION, PodSchedulingContext, ResourceClaim, ResourceClass
from .negotiation_decisions import allocate_immediately, answer, free

log = get_logger(__name__)
# The path and the type of each kind that the driver follows.
FOLLOWED: dict[str, tuple[Kind, type[HasMetadata]]] = {
    type_.__name__: (BY_KIND[version, type_.__name__], type_)
    for version, type_ in (
        ("v1", Pod),
        ("v1", Node),
        (API_VERSION, ResourceClass),
        (API_VERSION, ResourceClaim),
        (API_VERSION, PodSchedulingContext),
    )
}
RETRY = Backoff(initial=0.05, most=10.0, jitter=0.2)


async def run_negotiating_driver(
    access: ClusterAccess,
    clock: Clock,
    rng: Rng,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Acts as the driver of every resource class until cancelled."""
    async with anyio.create_task_group() as group:
        cluster = ObjectIndex()
        driver = _Driver(cluster, access, clock, rng, group)
        watches = Watches(cluster, access, driver.changed)
        for kind, type_ in FOLLOWED.values():
            await group.start(watches.follow, kind, type_)
        task_status.started()
        await driver.run()


class _Driver:
    def __init__(
        self, cluster: ObjectIndex, access: ClusterAccess, clock: Clock, rng: Rng, group: TaskGroup
    ) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self._group = group
        self._cluster = cluster
        self._release = ClaimRelease()
        self._news = anyio.Event()

    def changed(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            if isinstance(change.before, ResourceClaim) and change.after is None:
                self._release.forget(key(change.before))
        self._news.set()

    async def run(self) -> None:
        failures = 0
        while True:
            self._news = anyio.Event()
            items = [
                (kind, each.metadata.namespace, each.metadata.name)
                for kind in (ResourceClaim, PodSchedulingContext)
                for each in self._cluster.all(kind)
            ]
            done = [await self._carry_out(self._decide(*item)) for item in items]
            if all(done):
                failures = 0
                await self._news.wait()
            else:
                failures += 1
                await self._clock.sleep(RETRY.delay(failures, self._rng))

    def _decide(self, kind: type[HasMetadata], namespace: str, name: str) -> list[Write]:
        """Decides about the latest version of a claim or context."""
        obj = self._cluster.find(kind, namespace, name)
        if isinstance(obj, PodSchedulingContext):
            return answer(self._cluster, obj)
        if not isinstance(obj, ResourceClaim):
            return []

        def pod(name: str) -> Pod | None:
            return self._cluster.find(Pod, namespace, name)

        wall = self._clock.wall()
        released = self._release.reconcile(obj, pod, self._cluster.is_gone, wall)
        return released or free(obj) or allocate_immediately(self._cluster, obj)

    async def _carry_out(self, writes: list[Write]) -> bool:
        """Sends the writes one after another. Returns False if one failed; the rest is then left
        out.
        """
        for write in writes:
            try:
                await self._write(write)
            except (ApiError, ConnectionFailedError) as failure:
                code = failure.code if isinstance(failure, ApiError) else 0
                report = log.debug if code in (404, 409) else log.warning
                report("driver's write failed", why=str(failure))
                return False
        return True

    async def _write(self, write: Write) -> None:
        """Sends one write, and stores the server's answer at once."""
        match write:
            case Patch(kind, namespace, name, body, subresource):
                served, type_ = FOLLOWED[kind]
                path = served.path(namespace, name) + (f"/{subresource}" if subresource else "")
                self._cluster.put(await self._access.patch(path, body, type_, "merge"))
                self._news.set()
            case Delete(kind, namespace, name, uid):
                options = {"preconditions": {"uid": uid}}
                path = FOLLOWED[kind][0].path(namespace, name)
                await self._access.call("DELETE", path, dict, options)
            case Again(seconds):
                self._group.start_soon(self._decide_later, seconds)

    async def _decide_later(self, seconds: float) -> None:
        await self._clock.sleep(max(seconds, 0.0))
        self._news.set()
