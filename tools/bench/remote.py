"""A cluster behind an API server: the embedded server in another process, or that of a
kubeconfig.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import TypeVar

import anyio
import msgspec

from berth.actors.client.rest import (
    CONTENT_TYPES,
    ApiError,
    Client,
    Connection,
    ConnectionFailedError,
)
from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    Reflector,
)
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.kinds import PODS as FOLLOWED_PODS
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.reading import Reader

from ..kubernetes.api.types.resources import Kind
from .objects import NODES, PODS
from .pod_counts import PodTracker
from .templates import Document
from .workload_cluster import ClusterError, ExistsError

T = TypeVar("T", bound=HasMetadata)
PARALLEL = 30  # as in scheduler_perf, which creates this many pods at once
ACCOUNT_SECONDS = 10.0
ACCOUNT_POLL_SECONDS = 0.2


class RemoteCluster:
    """A cluster that is written to over HTTP.

    It remembers the objects without a namespace that it created, so that it can delete them.
    """

    parallel = PARALLEL

    def __init__(self, client: Client) -> None:
        self._client = client
        self._created: list[tuple[Kind, str]] = []

    async def create(self, kind: Kind, namespace: str, name: str, document: Document) -> None:
        named = _named(document, namespace, name)
        try:
            await self._post(kind.path(namespace), named)
        except ApiError as refused:
            error = ExistsError if refused.reason == "AlreadyExists" else ClusterError
            raise error(f'{kind.kind} "{name}": {refused}') from None
        except ConnectionFailedError as failure:
            raise ClusterError(str(failure)) from None
        if not kind.namespaced:
            self._created.append((kind, name))
        if kind.status and "status" in document and kind not in (PODS, NODES):
            await self.set_status(kind, namespace, name, document["status"])

    async def _post(self, path: str, document: Document) -> None:
        """Retries for a while: a new namespace accepts no pods before it has a service account."""
        with anyio.move_on_after(ACCOUNT_SECONDS):
            while True:
                try:
                    await self._client.call("POST", path, dict, document)
                except ApiError as refused:
                    if (
                        refused.code != 403
                        or "serviceaccount" not in str(refused).replace(" ", "").lower()
                    ):
                        raise
                    await anyio.sleep(ACCOUNT_POLL_SECONDS)
                else:
                    return
        await self._client.call("POST", path, dict, document)

    async def update(
        self, kind: Kind, namespace: str, name: str, document: Document, subresources: Sequence[str]
    ) -> None:
        path, named = kind.path(namespace, name), _named(document, namespace, name)
        await self._send("PUT", "/".join((path, *subresources)), named)
        if kind.status and "status" in document:
            await self._send("PUT", f"{path}/status", named)

    async def delete(self, kind: Kind, namespace: str, name: str, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        await self._send("DELETE", kind.path(namespace, name), options, missing_ok=True)

    async def set_status(self, kind: Kind, namespace: str, name: str, status: Document) -> None:
        await self._send("PATCH", kind.path(namespace, name) + "/status", {"status": status})

    async def every(self, kind: Kind, type_: type[T]) -> list[T]:
        try:
            listed = await self._client.call("GET", kind.path(), dict)
            reader = Reader(type_)
            return [reader.convert(item) for item in listed["items"]]
        except ApiError as refused:
            raise ClusterError(f"GET {kind.path()}: {refused}") from None
        except (ConnectionFailedError, msgspec.ValidationError) as failure:
            raise ClusterError(str(failure)) from None

    async def delivered(self) -> None:
        """Returns at once: nothing shows what the scheduler has received."""

    async def clean_up(self) -> None:
        """Deletes the created objects, last first; the content of a namespace goes with it."""
        for kind, name in reversed(self._created):
            await self.delete(kind, "", name, grace=0)
        self._created.clear()

    async def _send(
        self, method: str, path: str, body: Document, *, missing_ok: bool = False
    ) -> None:
        content_type = CONTENT_TYPES["merge"] if method == "PATCH" else "application/json"
        try:
            await self._client.call(method, path, dict, body, content_type)
        except ApiError as refused:
            if not (missing_ok and refused.code == 404):
                raise ClusterError(f"{method} {path}: {refused}") from None
        except ConnectionFailedError as failure:
            raise ClusterError(str(failure)) from None


@asynccontextmanager
async def remote_cluster(connection: Connection, pods: PodTracker) -> AsyncIterator[RemoteCluster]:
    """Yields a cluster for the block; it reports its pods to the tracker."""
    async with Client(connection) as client, anyio.create_task_group() as group:
        listed = anyio.Event()

        async def follow() -> None:
            reflector = Reflector(client, FOLLOWED_PODS.path, Pod, SystemClock(), Random(0))
            async with aclosing(reflector.changes()) as changes:
                async for change in changes:
                    match change:
                        case ObjectsListed(items):
                            pods.listed(items)
                            listed.set()
                        case ObjectChanged(pod):
                            pods.changed(pod)
                        case ObjectDeleted(pod):
                            pods.deleted(pod)

        group.start_soon(follow)
        await listed.wait()
        yield RemoteCluster(client)
        group.cancel_scope.cancel()


def _named(document: Document, namespace: str, name: str) -> Document:
    metadata = {
        **(document.get("metadata") or {}),
        "name": name,
        **({"namespace": namespace} if namespace else {}),
    }
    return {**document, "metadata": metadata}
