"""The leases of nodes in kube-node-lease, which kubelets renew: a lease of 40 s every 10 s.

Mirrors the kubelet's node lease controller. The renewals of all nodes are spread over the interval.
Those of one moment are sent together. In the same process, the server makes no document of a
renewed lease before somebody reads it, and tells the controllers of all leases sent together at
once.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from datetime import datetime

import anyio
from anyio.abc import TaskGroup

from berth.actors.client.rest import ApiError, ConnectionFailedError, IgnoredAnswer
from berth.actors.runtime.backoff import Rng
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.scheduling.kube.times import micro_time

from ...kubernetes.objects.structs import Document
from ..controllers.cluster_access import ClusterAccess

log = get_logger(__name__)
NAMESPACE = "kube-node-lease"
SECONDS = 40
BATCH_SECONDS = 1.0  # renewals of so long are sent together, which costs a third of single ones
_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class Leases:
    """The leases of the nodes whose kubelets run; each is renewed four times in its duration."""

    def __init__(
        self, access: ClusterAccess, clock: Clock, rng: Rng, group: TaskGroup, seconds: int
    ) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self._group = group
        self._seconds = seconds
        self._interval = seconds / 4
        self._uids: dict[str, str] = {}  # of the nodes, by name
        # When leases are due, in order. All have the same interval, so the first ones go last.
        self._times: deque[tuple[float, str, str]] = deque()
        self._begun = anyio.Event()

    def begin(self, name: str, uid: str) -> None:
        """Renews the lease of a node now, and regularly from now on."""
        self._uids[name] = uid
        self._group.start_soon(self._renew, [(name, uid)])
        first = self._clock.now() + self._rng.random() * self._interval
        insort(self._times, (first, name, uid))
        self._begun.set()

    def end(self, name: str) -> None:
        self._uids.pop(name, None)

    async def run(self) -> None:
        """Renews leases until cancelled. Those due at about the same time are renewed together."""
        while True:
            if not self._times:
                self._begun = anyio.Event()
                await self._begun.wait()
            await self._clock.sleep(self._times[0][0] - self._clock.now() + BATCH_SECONDS)
            await self._renew(self._take_due(self._clock.now()))

    def _take_due(self, now: float) -> list[tuple[str, str]]:
        """Returns the names and uids of the nodes whose leases are due, and notes the next time."""
        batch: list[tuple[str, str]] = []
        times = self._times
        while times and times[0][0] <= now:
            due, name, uid = times.popleft()
            if self._uids.get(name) != uid:
                continue
            batch.append((name, uid))
            later = due + self._interval
            again = (later if later > now else now + self._interval, name, uid)
            if not times or again >= times[-1]:
                times.append(again)
            else:
                insort(times, again)
        return batch

    async def _renew(self, batch: list[tuple[str, str]]) -> None:
        uids, time = dict(batch), micro_time(self._clock.wall())
        for name in await self._access.renew(NAMESPACE, list(uids), time):
            await self._create(name, uids[name])

    async def remove(self, name: str) -> None:
        """Deletes the lease of a deleted node."""
        try:
            await self._access.call("DELETE", f"{_PATH}/{name}", IgnoredAnswer)
        except (ConnectionFailedError, ApiError) as problem:
            log.debug("lease not deleted", node=name, error=str(problem))

    async def _create(self, name: str, uid: str) -> None:
        lease = new_lease(name, uid, self._seconds, self._clock.wall())
        try:
            await self._access.call("POST", _PATH, IgnoredAnswer, lease)
        except ConnectionFailedError as failure:
            log.debug("lease not created", node=name, error=str(failure))
        except ApiError as refused:
            if refused.code != 409:
                log.warning("lease not created", node=name, error=str(refused))


def new_lease(name: str, uid: str, seconds: int, now: datetime) -> Document:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "renewTime": micro_time(now),
        },
    }
