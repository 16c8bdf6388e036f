"""A cluster in one process, in virtual time: the embedded API server, and what a test starts there.

The parts talk over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from berth.actors.client.rest import ApiError, Client, Connection
from berth.actors.client.watch import ObjectChanged, ObjectsListed, Reflector
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.core import Pod
from berth.actors.system import DEFAULT_OPTIONS, run_scheduler
from berth.config.load import from_mapping
from berth.config.options import Options
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.http import Answer, listen
from berth.tools.cluster.controllers.cluster_access import OverHttp
from berth.tools.cluster.controllers.controller_manager import run_controllers
from berth.tools.cluster.kubelets.housekeeping import NO_SETUP, Setup
from berth.tools.cluster.kubelets.kubelets import run_kubelets
from berth.tools.kubernetes.api.types.resources import BY_KIND, KINDS
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import LoopClock
from tests.kit.documents import Document

T = TypeVar("T")
_LATEST = {kind.kind: kind for kind in KINDS if kind.stored_as is None}


def configured(**fields: Any) -> KubeSchedulerConfiguration:
    """Returns a configuration with these fields. Unless they say otherwise, no leader is elected
    and writes are not limited.
    """
    common = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 5000, "burst": 5000},
    }
    return from_mapping({**common, **fields})


UNLIMITED = configured()


def path_of(kind: str, name: str = "") -> str:
    """Returns the path of an object, or of all objects of a kind in the namespace `default`.
    A version may precede the kind: "resource.k8s.io/v1alpha2/ResourceClaim".
    """
    version, _, kind = kind.rpartition("/")
    served = BY_KIND[version, kind] if version else _LATEST[kind]
    return served.path("default" if served.namespaced else "", name)


async def poll(look: Callable[[], Awaitable[T | None]], seconds: float = 30.0) -> T:
    """Looks until there is something, less and less often. Raises TimeoutError."""
    pause = 0.01
    with anyio.fail_after(seconds):
        while (seen := await look()) is None:
            await anyio.sleep(pause)
            pause = min(1.2 * pause, seconds / 50)
    return seen


async def pods_seen(client: Client, clock: Clock) -> AsyncIterator[Pod]:
    """Yields the pods of lists, and those that are new or have changed."""
    pods = Reflector(client, path_of("Pod"), Pod, clock, Random(0))
    async for told in pods.changes():
        match told:
            case ObjectsListed(items):
                for item in items:
                    yield item
            case ObjectChanged(item):
                yield item
            case _:
                pass


class ClusterClient:
    """A client that reads and writes the objects of a cluster by kind and name."""

    def __init__(self, client: Client, url: str) -> None:
        self.client = client
        self.url = url

    async def create(self, kind: str, document: Document) -> Document:
        return await self.client.call("POST", path_of(kind), dict, document)

    async def create_all(self, kind: str, documents: Iterable[Document]) -> None:
        """Creates the objects side by side."""
        async with anyio.create_task_group() as group:
            for document in documents:
                group.start_soon(self.create, kind, document)

    async def patch(self, kind: str, name: str, body: Document, subresource: str = "") -> Document:
        return await self.client.patch(path_of(kind, name) + subresource, body, dict, "merge")

    async def delete(self, kind: str, name: str) -> None:
        """Deletes an object as kubectl does: its dependents follow in the background."""
        options = {"propagationPolicy": "Background"}
        await self.client.call("DELETE", path_of(kind, name), dict, options)

    async def get(self, kind: str, name: str) -> Document:
        return await self.client.call("GET", path_of(kind, name), dict)

    async def find(self, kind: str, name: str) -> Document | None:
        try:
            return await self.get(kind, name)
        except ApiError:
            return None

    async def all(self, kind: str) -> list[Document]:
        items: list[Document] = (await self.client.call("GET", path_of(kind), dict))["items"]
        return items

    async def by_name(self, kind: str) -> dict[str, Document]:
        return {item["metadata"]["name"]: item for item in await self.all(kind)}

    async def until(
        self, kind: str, name: str, holds: Callable[[Document], bool], seconds: float = 30.0
    ) -> Document:
        """Waits until an object exists and meets the condition."""

        async def look() -> Document | None:
            item = await self.find(kind, name)
            return None if item is None or not holds(item) else item

        return await poll(look, seconds)

    async def until_all(
        self, kind: str, hold: Callable[[list[Document]], bool], seconds: float = 30.0
    ) -> list[Document]:
        """Waits until all objects of a kind together meet the condition."""

        async def look() -> list[Document] | None:
            items = await self.all(kind)
            return items if hold(items) else None

        return await poll(look, seconds)

    async def status(
        self, kind: str, name: str, holds: Callable[[Document], bool], seconds: float = 30.0
    ) -> Document:
        """Waits until an object's status meets the condition."""
        return await self.until(kind, name, lambda item: holds(item.get("status") or {}), seconds)

    async def gone(self, kind: str, name: str) -> None:

        async def look() -> bool | None:
            return True if await self.find(kind, name) is None else None

        await poll(look)

    async def node_of(self, pod: str) -> str:
        """Waits until the pod is bound; returns its node."""
        bound = await self.until("Pod", pod, lambda item: bool(item["spec"].get("nodeName")))
        return str(bound["spec"]["nodeName"])


class Cluster(ClusterClient):
    """What is started here runs until the cluster's block ends."""

    def __init__(self, client: Client, url: str, group: TaskGroup) -> None:
        super().__init__(client, url)
        self._group = group

    async def start(self, part: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Starts a part that works on the API server: a controller, a driver, kubelets. It has its
        own connections, since controllers watch more than half a hundred kinds.
        """
        clock, rng = LoopClock(), Random(1)

        async def run(*, task_status: TaskStatus[None]) -> None:
            async with self.client.with_own_connections() as client:
                access = OverHttp(client, clock, rng)
                await part(access, clock, rng, *arguments, task_status=task_status)

        await self._group.start(run)

    async def start_hollow(self, nodes: Iterable[Document], setup: Setup = NO_SETUP) -> None:
        """Starts the controllers and the kubelets, and creates nodes."""
        await self.start(run_controllers)
        await self.start(run_kubelets, None, setup)
        for node in nodes:
            await self.create("Node", node)

    async def schedule(
        self,
        configuration: KubeSchedulerConfiguration = UNLIMITED,
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        """Starts a scheduler."""
        await self._group.start(
            run_scheduler, configuration, Connection(self.url), LoopClock(), Random(1), options
        )


@asynccontextmanager
async def cluster(answer: Answer | None = None) -> AsyncIterator[Cluster]:
    """Runs an API server: the embedded one, or one that answers as it is told."""
    async with (
        serve() if answer is None else listen(answer) as url,
        Client(Connection(url)) as client,
        anyio.create_task_group() as group,
    ):
        yield Cluster(client, url, group)
        group.cancel_scope.cancel()


@asynccontextmanager
async def toy_cluster(
    nodes: int,
    configuration: KubeSchedulerConfiguration = UNLIMITED,
    setup: Setup = NO_SETUP,
) -> AsyncIterator[Cluster]:
    """Runs an API server, a scheduler, the controllers, and this many hollow nodes."""
    async with cluster() as running:
        await running.start_hollow(map(hollow_node, range(1, nodes + 1)), setup)
        await running.schedule(configuration)
        yield running
