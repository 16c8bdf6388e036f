"""The scheduler beside API servers with habits of their own: old ones, mocks, and slow ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

import anyio
import pytest
from aiohttp import ClientSession, ClientTimeout, web

from berth.actors.client.access import remote
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.rest import Client, Connection
from berth.actors.client.tenure import ALWAYS
from berth.actors.scheduling.kube.kinds import NODES
from berth.actors.system import DEFAULT_OPTIONS, Daemon
from berth.config.feature_gates import defaults_of
from berth.config.load import from_mapping
from berth.config.options import Options
from berth.config.versions import VERSIONS
from berth.tools.cluster.apiserver.app import serve
from berth.tools.kubernetes.api.types.releases import RELEASES
from berth.tools.testing.virtual_time import LoopClock
from tests.integration.test_client import served
from tests.kit.daemon import node, pod
from tests.kit.documents import Document
from tests.kit.logs import capture_logs
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time

END = b"k8s.io/initial-events-end"
STREAM = ("sendInitialEvents", "resourceVersionMatch")
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


class Habits:
    """What is odd about a server: an API server as it should be stands behind it.

    `refuses` the parameters of streamed lists, or `ignores` them; it has none of the kinds whose
    plural begins with a letter of `lacks`; a watch ends after the lines that arrive within
    `watch_seconds`; each answer comes after `answer_seconds`.
    """

    def __init__(
        self,
        *,
        refuses: bool = False,
        ignores: bool = False,
        lacks: str = "",
        watch_seconds: float | None = None,
        answer_seconds: float = 0.0,
    ) -> None:
        self.refuses = refuses
        self.ignores = ignores
        self.lacks = lacks
        self.watch_seconds = watch_seconds
        self.answer_seconds = answer_seconds
        self.streams = 0  # requests for a streamed list

    async def handle(
        self, request: web.BaseRequest, url: str, session: ClientSession
    ) -> web.StreamResponse:
        await anyio.sleep(self.answer_seconds)
        query, body = dict(request.query), await request.read()
        streams = "sendInitialEvents" in query
        self.streams += streams
        plural = request.path.rpartition("/")[2]
        if plural[0] in self.lacks and plural not in ("nodes", "pods") and request.method == "GET":
            return web.json_response({"code": 404, "message": "no such kind"}, status=404)
        if streams and self.refuses:
            return web.json_response({"code": 422, "message": "sendInitialEvents"}, status=422)
        if streams and self.ignores:
            query = {name: value for name, value in query.items() if name not in STREAM}
        headers = {name: request.headers[name] for name in ("Content-Type",) if body}
        async with session.request(
            request.method, url + request.path, params=query, data=body, headers=headers
        ) as answer:
            if "watch" not in query:
                data = await answer.read()
                return web.Response(body=data, status=answer.status, headers=_type(answer.headers))
            response = web.StreamResponse(status=answer.status)
            await response.prepare(request)
            with anyio.move_on_after(self.watch_seconds or float("inf")):
                async for line in answer.content:
                    if not (streams and self.ignores and END in line):
                        await response.write(line)
            return response


def _type(headers: object) -> dict[str, str]:
    assert hasattr(headers, "get")
    return {"Content-Type": headers.get("Content-Type", "application/json")}


HABITS: dict[str, Callable[[], Habits]] = {
    "refuses": lambda: Habits(refuses=True),
    "ignores": lambda: Habits(ignores=True),
    "lacks half of the kinds": lambda: Habits(lacks="prdv"),
    "ends watches at once": lambda: Habits(watch_seconds=0.05),
    "takes 300 ms": lambda: Habits(answer_seconds=0.3),
}


@asynccontextmanager
async def odd_server(habits: Habits) -> AsyncIterator[tuple[str, Client]]:
    """Runs the server. Yields its URL, and a client that meets no odd habit."""
    async with (
        serve() as url,
        ClientSession(timeout=ClientTimeout(total=None)) as session,
        served(lambda request: habits.handle(request, url, session)) as odd,
        Client(Connection(url)) as client,
    ):
        with suppress(ConnectionError):
            yield odd, client


@asynccontextmanager
async def scheduler(url: str, options: Options = DEFAULT_OPTIONS) -> AsyncIterator[anyio.Event]:
    """Runs a scheduler that need not ask for the lease. Yields an event: it has started."""
    clock, started = LoopClock(), anyio.Event()
    configuration = from_mapping({**CONFIGURATION, "leaderElection": {"leaderElect": False}})
    async with (
        remote(Connection(url), clock, Random(1), 50.0, 100) as access,
        Extenders((), access.tenure) as extenders,
        anyio.create_task_group() as group,
    ):
        access.tenure.lasts_until(ALWAYS)
        daemon = Daemon(configuration, access, extenders, clock, Random(1), options)

        async def run() -> None:
            async with anyio.create_task_group() as inner:
                await inner.start(daemon.run)
                started.set()

        group.start_soon(run)
        yield started
        group.cancel_scope.cancel()


async def bound(client: Client, name: str, seconds: float) -> float:
    """Returns the time at which a pod was seen to have a node."""
    clock = LoopClock()
    with anyio.fail_after(seconds):
        while True:
            read = await client.call("GET", f"/api/v1/namespaces/default/pods/{name}", dict)
            if read["spec"].get("nodeName"):
                return clock.now()
            await anyio.sleep(0.1)


def plain(document: Document) -> Document:
    metadata = {key: document["metadata"][key] for key in ("name",)}
    return {**document, "metadata": metadata}


@pytest.mark.parametrize("name", HABITS)
@in_virtual_time
async def test_the_first_pod_is_bound_long_before_fifteen_seconds(name: str) -> None:
    habits = HABITS[name]()
    async with odd_server(habits) as (url, client):
        await client.call("POST", NODES.path, dict, plain(node("n")))
        await client.call("POST", "/api/v1/namespaces/default/pods", dict, plain(pod("before")))
        async with scheduler(url):
            await bound(client, "before", 8.0)  # virtual time, without the start of a process
            await client.call("POST", "/api/v1/namespaces/default/pods", dict, plain(pod("after")))
            await bound(client, "after", 60.0)


@pytest.mark.full("long")
@pytest.mark.parametrize(
    ("server", "scheduler_", "told"),
    [
        ("1.36", 37, ["cannot list devicetaintrules in resource.k8s.io at the cluster scope: "]),
        ("1.37", 37, []),
        ("1.36", 36, []),
        ("1.37", 36, []),
    ],
)
@in_virtual_time
async def test_a_kind_that_the_server_has_not_is_told_once(
    server: str, scheduler_: int, told: list[str]
) -> None:
    store = fresh_store()
    store.release = RELEASES[server]
    version = VERSIONS[scheduler_]
    options = Options(feature_gates=defaults_of(version), version=version)
    async with serve(store=store) as url, Client(Connection(url)) as client:
        await client.call("POST", NODES.path, dict, plain(node("n")))
        with capture_logs() as lines:
            async with scheduler(url, options):
                await client.call("POST", "/api/v1/namespaces/default/pods", dict, plain(pod("p")))
                await bound(client, "p", 15.0)
                await anyio.sleep(180.0)  # it is looked for once a minute
    warnings = [line["event"] for line in lines if line["log_level"] == "warning"]
    missing = "the server could not find the requested resource"
    assert warnings == [each + missing for each in told]


@in_virtual_time
async def test_twenty_kinds_of_a_slow_server_are_listed_side_by_side() -> None:
    async with odd_server(Habits(answer_seconds=0.3)) as (url, _), scheduler(url) as started:
        await started.wait()
        assert LoopClock().now() <= 1.5
