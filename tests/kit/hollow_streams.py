"""API servers with running pods, and clients of the streams into their containers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import ClientSession, ClientWebSocketResponse

from berth.tools.cluster.apiserver.app import serve
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.kubelet.scripts.script_rules import Scripts
from tests.kit.documents import Document, container, pod
from tests.kit.stores import fresh_store

POD = BY_KIND["v1", "Pod"]
STARTED = "2026-01-01T00:00:00Z"


def running_status(name: str, started: str = STARTED) -> Document:
    """Returns the status of a container that has run since a time."""
    return {
        "name": name,
        "containerID": f"hollow://{name}",
        "restartCount": 0,
        "state": {"running": {"startedAt": started}},
    }


def running_pod(
    name: str = "p",
    containers: Sequence[str] = ("c",),
    annotations: Mapping[str, str] | None = None,
    started: str = STARTED,
) -> Document:
    """Returns a pod on a node, whose containers run."""
    return pod(
        name,
        node="n",
        annotations=dict(annotations or {}),
        containers=[container(each) for each in containers],
        status={
            "phase": "Running",
            "containerStatuses": [running_status(each, started) for each in containers],
        },
    )


class StreamServer:
    """A server of pods. `url` is its address, `session` a client of it."""

    def __init__(self, store: Store, url: str, session: ClientSession) -> None:
        self.store = store
        self.url = url
        self.session = session

    def path(self, stream: str, query: str = "", name: str = "p") -> str:
        return f"{self.url}/api/v1/namespaces/default/pods/{name}/{stream}?{query}"

    async def read(self, stream: str, query: str = "", name: str = "p") -> tuple[int, str]:
        """Returns the code and the text of an answer to GET."""
        async with self.session.get(self.path(stream, query, name)) as answer:
            return answer.status, await answer.text()

    @asynccontextmanager
    async def socket(
        self, stream: str, query: str, *protocols: str
    ) -> AsyncIterator[ClientWebSocketResponse]:
        async with self.session.ws_connect(self.path(stream, query), protocols=protocols) as socket:
            yield socket


@asynccontextmanager
async def serving(*pods: Document, scripts: Scripts | None = None) -> AsyncIterator[StreamServer]:
    store = fresh_store()
    async with serve(store=store, scripts=scripts) as url, ClientSession() as session:
        for each in pods:
            store.create(POD, each)
        yield StreamServer(store, url, session)
