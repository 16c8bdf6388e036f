"""A cluster whose schedulers are processes of `berth run`. Its API server is in the test's process.

The API server's watch and the Scheduled events show that each pod is bound once. No scheduler may
even have tried to bind a pod that had a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from berth.actors.client.rest import Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.kube.core import Pod
from berth.tools.cluster.apiserver.app import serve
from berth.tools.kubernetes.api.store import Store
from tests.kit.cluster import ClusterClient, pods_seen
from tests.kit.documents import Document
from tests.kit.processes import POLL_SECONDS, Berth, berth
from tests.kit.proxy import Proxy, proxy
from tests.kit.stores import fresh_store

LEASE_SECONDS = 3.0
ELECTION = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)
# For a lease that is to last on a machine that does much else.
LONG = ("--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
LEADS = "Successfully acquired lease"


class Impatient(SystemClock):
    """A clock that lets failed requests be repeated almost at once."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.1))


class Daemons(ClusterClient):
    """Processes of schedulers, and a watch that records all nodes of each pod."""

    def __init__(
        self, client: Client, url: str, folder: Path, server: AsyncExitStack, store: Store
    ) -> None:
        super().__init__(client, url)
        self.folder = folder
        self.nodes_of: dict[str, list[str]] = {}
        self.schedulers: list[Berth] = []
        self._server = server
        self._store = store

    async def stop_server(self) -> None:
        await self._server.aclose()

    async def start_server(self) -> None:
        """Starts the API server again, on the same port and with the same objects."""
        port = int(self.url.rsplit(":", 1)[1])
        await self._server.enter_async_context(serve(port, store=self._store))

    async def follow(self) -> None:
        async for pod in pods_seen(self.client, Impatient()):
            self._note(pod)

    def _note(self, pod: Pod) -> None:
        had = self.nodes_of.setdefault(pod.metadata.name, [])
        if pod.spec.node_name and had[-1:] != [pod.spec.node_name]:
            had.append(pod.spec.node_name)

    @asynccontextmanager
    async def scheduler(
        self, *flags: str, url: str = "", site: Path | None = None
    ) -> AsyncIterator[Berth]:
        async with berth(
            self.folder,
            "run",
            f"--master={url or self.url}",
            "--secure-port=0",
            "--logging-format=json",
            "--v=2",
            *ELECTION,
            *flags,
            site=site,
        ) as process:
            self.schedulers.append(process)
            yield process

    @asynccontextmanager
    async def candidate(
        self, *flags: str, site: Path | None = None
    ) -> AsyncIterator[tuple[Berth, Proxy]]:
        """Runs a scheduler behind a proxy that records its writes."""
        async with (
            proxy(self.url) as between,
            self.scheduler(*flags, url=between.url, site=site) as process,
        ):
            yield process, between

    async def node(self, name: str, cpu: str = "1000", pods: str = "2000") -> None:
        allocatable = {"cpu": cpu, "memory": "1000Gi", "pods": pods}
        await self.create(
            "Node", {"metadata": {"name": name}, "status": {"allocatable": allocatable}}
        )

    async def pod(self, name: str, cpu: str = "100m") -> None:
        container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
        await self.create("Pod", {"metadata": {"name": name}, "spec": {"containers": [container]}})

    async def burst(self, prefix: str, count: int) -> None:
        """Creates this many pods. A few at a time, because a leader's renewal waits behind them."""
        limit = anyio.CapacityLimiter(10)

        async def create(name: str) -> None:
            async with limit:
                await self.pod(name)

        async with anyio.create_task_group() as group:
            for i in range(count):
                group.start_soon(create, f"{prefix}-{i}")

    async def wait(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not holds():
                await anyio.sleep(POLL_SECONDS)

    async def bound(self, *names: str) -> None:
        """Waits until these pods have nodes; without names, all pods."""
        await self.wait(lambda: all(self.nodes_of.get(name) for name in names or self.nodes_of))

    async def all_bound(self, pods: int) -> None:
        """Waits until so many pods have nodes, and checks that they were bound once."""
        await self.wait(lambda: len(self.nodes_of) == pods)
        await self.bound()
        self.assert_bound_once(pods)

    async def leader_of(self, first: Berth, second: Berth) -> tuple[Berth, Berth]:
        """Waits for a leader. Returns the leader and the standby."""
        await self.wait(lambda: bool(first.count(LEADS) or second.count(LEADS)))
        return (first, second) if first.count(LEADS) else (second, first)

    async def lease(self) -> Document:
        """Returns the spec of the schedulers' lease."""
        lease: Document = (await self.client.call("GET", LEASE, dict))["spec"]
        return lease

    async def events(self, reason: str, namespace: str = "default") -> list[Document]:
        listed = await self.client.call("GET", f"/api/v1/namespaces/{namespace}/events", dict)
        return [item for item in listed["items"] if item["reason"] == reason]

    def assert_bound_once(self, pods: int) -> None:
        assert Counter(map(len, self.nodes_of.values())) == {1: pods}
        for scheduler in self.schedulers:
            assert "Traceback" not in scheduler.output, scheduler.output[-4000:]
            assert "already assigned" not in scheduler.output


@asynccontextmanager
async def daemons(folder: Path) -> AsyncIterator[Daemons]:
    store = fresh_store()
    async with AsyncExitStack() as server:
        url = await server.enter_async_context(serve(store=store))
        async with Client(Connection(url)) as client, anyio.create_task_group() as group:
            running = Daemons(client, url, folder, server, store)
            group.start_soon(running.follow)
            yield running
            group.cancel_scope.cancel()
