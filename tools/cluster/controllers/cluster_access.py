"""The access of controllers, kubelets and drivers to the API server: over HTTP, or in the same
process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from berth.actors.client.access import Calls
from berth.actors.client.rest import ApiError, Client, ConnectionFailedError, IgnoredAnswer
from berth.actors.client.watch import ObjectChanged, Reflector, WatchUpdate
from berth.actors.runtime.backoff import Rng
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.meta import HasMetadata

from ...kubernetes.api.types.api_documents import StoredObject
from ...kubernetes.api.types.resources import BY_KIND

log = get_logger(__name__)
LEASES = BY_KIND["coordination.k8s.io/v1", "Lease"]
NODES = BY_KIND["v1", "Node"]
AT_ONCE = 8  # renewals
Kept = TypeVar("Kept", bound=HasMetadata | dict[str, Any])


class Changes(Protocol[Kept]):
    """The objects under a path: first ObjectsListed, then changes, without end."""

    def changes(self) -> AsyncGenerator[WatchUpdate[Kept]]: ...


Read = Callable[[Changes[Kept]], Coroutine[Any, Any, None]]


class Renewed(msgspec.Struct, frozen=True):
    """Leases that were renewed together, by namespace and name.

    Nothing else in them has changed, so they are hardly ever read.
    """

    leases: dict[tuple[str, str], StoredObject]


class Heartbeat(ObjectChanged[Kept], frozen=True):
    """A node in which only the lastHeartbeatTime of conditions has changed."""


def heartbeat_patch(node: dict[str, Any], conditions: Collection[str], time: str) -> dict[str, Any]:
    """Returns the strategic merge patch of the status of a node for a heartbeat."""
    changed = [
        {"type": each["type"], "lastHeartbeatTime": time}
        for each in node["status"]["conditions"]
        if each["type"] in conditions
    ]
    version = {"resourceVersion": node["metadata"]["resourceVersion"]}
    return {"metadata": version, "status": {"conditions": changed}}


class ClusterAccess(Calls, Protocol):
    """Requests to an API server, and watches. Answers and objects may not be changed."""

    async def renew(self, namespace: str, names: Sequence[str], time: str) -> list[str]:
        """Sets the renewTime of leases. Returns the names of the leases that do not exist.

        A lease that cannot be renewed for another reason is left alone.
        """
        ...

    async def heartbeat(
        self, node: dict[str, Any], conditions: Collection[str], time: str
    ) -> dict[str, Any]:
        """Sets the lastHeartbeatTime of conditions of a node, given by their types, and returns the
        node. Raises ApiError if the node has changed.
        """
        ...

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Changes[Kept]: ...

    def follow_later(self, group: TaskGroup, path: str, kind: type[Kept], read: Read[Kept]) -> bool:
        """If there is no object of a kind, starts `read` in the group with the first one, whose
        changes then begin without a list, and returns True. False if there is one, or if the access
        cannot tell.

        Most kinds have none, and a task for each is most of the start of a cluster in memory.
        """
        ...

    def follow_leases(self) -> AsyncGenerator[WatchUpdate[Lease] | Renewed]:
        """Yields the leases of all namespaces, and changes of them without end."""
        ...


class OverHttp:
    """Access through a client."""

    def __init__(self, client: Client, clock: Clock, rng: Rng) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self.call = client.call
        self.bind = client.bind
        self.patch = client.patch

    async def renew(self, namespace: str, names: Sequence[str], time: str) -> list[str]:
        waiting, missing = list(names), list[str]()

        async def renew_all() -> None:
            while waiting:
                name = waiting.pop()
                path = LEASES.path(namespace, name)
                try:
                    await self.patch(path, {"spec": {"renewTime": time}}, IgnoredAnswer, "merge")
                except ConnectionFailedError as failure:
                    log.debug("lease not renewed", lease=name, error=str(failure))
                except ApiError as refused:
                    if refused.code == 404:
                        missing.append(name)
                    else:
                        log.warning("lease not renewed", lease=name, error=str(refused))

        async with anyio.create_task_group() as group:
            for _ in range(min(AT_ONCE, len(names))):
                group.start_soon(renew_all)
        return missing

    async def heartbeat(
        self, node: dict[str, Any], conditions: Collection[str], time: str
    ) -> dict[str, Any]:
        path = f"{NODES.path('', node['metadata']['name'])}/status"
        return await self.patch(path, heartbeat_patch(node, conditions, time), dict, "strategic")

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Reflector[Kept]:
        return Reflector(self._client, path, kind, self._clock, self._rng, selector)

    def follow_later(self, group: TaskGroup, path: str, kind: type[Kept], read: Read[Kept]) -> bool:
        return False

    def follow_leases(self) -> AsyncGenerator[WatchUpdate[Lease] | Renewed]:
        return self.follow(LEASES.path(), Lease).changes()
