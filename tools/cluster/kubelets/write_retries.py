"""The writes of kubelets, repeated until the API server answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import anyio

from berth.actors.client.rest import ApiError, ConnectionFailedError
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.framework.logger import get_logger

from ...kubernetes.objects.structs import Document
from ..controllers.cluster_access import ClusterAccess

log = get_logger(__name__)
AT_ONCE = 64
RETRY_SECONDS = 0.5
PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


def is_passing(refused: ApiError) -> bool:
    """True for a refusal that says nothing about the write."""
    return refused.code in (410, 429) or refused.code >= 500


class ConflictError(Exception):
    """The API server refuses a write because the object is not as the write takes it to be.

    `exists` is True for the creation of an object that exists.
    """

    def __init__(self, refused: ApiError) -> None:
        super().__init__(str(refused))
        self.exists = refused.reason == "AlreadyExists"


class Writer:
    """A sender of writes, with a limit on how many are sent at a time."""

    def __init__(self, access: ClusterAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        # `fast_acquire`: an answer from the same process comes without a wait
        self._limiter = anyio.Semaphore(AT_ONCE, fast_acquire=True)

    async def send(
        self, method: str, path: str, body: Document, content_type: str = "application/json"
    ) -> Document | None:
        """Repeats a write until the server answers. Returns None if the server refuses it for good:
        a busy or failing one (410, 429, 5xx) is asked again, and after a conflict too, unless the
        object is not the one, or not in the version, that the write names.

        After a refusal, the next change from the watch decides how to go on.
        """
        while True:
            try:
                return await self.change(method, path, body, content_type)
            except ConflictError as conflict:
                if conflict.exists or not await self._is_as_named(method, path, body):
                    return None
            await self._clock.sleep(RETRY_SECONDS)

    async def _is_as_named(self, method: str, path: str, body: Document) -> bool:
        """True if the object of a write has the uid and version that the write names."""
        if method == "POST":
            return True
        present = await self.read(path.removesuffix("/status"))
        named = {**body.get("metadata", {}), **body.get("preconditions", {})}
        keys = named.keys() & {"uid", "resourceVersion"}
        return present is not None and all(present["metadata"][key] == named[key] for key in keys)

    async def change(
        self, method: str, path: str, body: object, content_type: str = "application/json"
    ) -> Document | None:
        """Sends a write in the same way as `send`. Raises ConflictError for a conflict."""
        return await self._repeat(
            path, lambda: self._access.call(method, path, dict, body, content_type)
        )

    async def read(self, path: str) -> Document | None:
        """Repeats a read until the server answers. Returns None if it refuses the read."""
        while True:
            try:
                return await self.change("GET", path, None)
            except ConflictError:
                await self._clock.sleep(RETRY_SECONDS)

    async def heartbeat(
        self, node: Document, conditions: Collection[str], time: str
    ) -> Document | None:
        """Sends a heartbeat of a node, in the same way as `change`; see ClusterAccess."""
        return await self._repeat(
            node["metadata"]["name"], lambda: self._access.heartbeat(node, conditions, time)
        )

    async def _repeat(self, path: str, write: Callable[[], Awaitable[Document]]) -> Document | None:
        while True:
            async with self._limiter:
                try:
                    return await write()
                except ConnectionFailedError as failure:
                    log.debug("API server not reached", path=path, error=str(failure))
                except ApiError as refused:
                    report = log.debug if refused.code in (404, 409) else log.warning
                    report("write refused", path=path, error=str(refused))
                    if refused.code == 409:
                        raise ConflictError(refused) from refused
                    if not is_passing(refused):
                        return None
            await self._clock.sleep(RETRY_SECONDS)
