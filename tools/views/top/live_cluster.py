"""A running scheduler and its cluster, with the credentials of the user.

Nodes and pods come from the API server, the queue and the recorded attempts from the scheduler's
debug pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, NoReturn
from urllib.parse import quote

import aiohttp
import anyio
import msgspec
from anyio import CapacityLimiter, to_thread

from berth.actors.attempt.attempts_page import AttemptsPage
from berth.actors.client.access import Remote, remote
from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import ApiError, Connection, ConnectionFailedError
from berth.actors.runtime.clock import SystemClock
from berth.actors.runtime.exceptions import ungrouped
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.meta import key as key_of
from berth.actors.wiring.glance import Glance
from berth.config.load import ConfigError
from berth.config.types import KubeSchedulerConfiguration

from ...answers.debug.debug_client import (
    ANSWER_SECONDS,
    DebugTarget,
    NoAnswerError,
    page_of,
    server_url,
)
from ...answers.debug.user_access import UserAccess, connection_of
from ...answers.explain.cluster_source import CLASSES, SourceError, from_cluster
from ...answers.explain.decider import Explainer
from ...answers.feed.feed import FRAME_SECONDS, GLANCE_SECONDS, Board
from ...answers.feed.feed_source import NodeGone, PodGone
from ...answers.feed.rows import node_row, pod_row
from ...answers.feed.story import Story, as_pending, story_of
from ...answers.feed.watched_rows import put_rows
from ...kubernetes.api.types.resources import BY_KIND
from .cluster_model import Event, FeedBegan
from .feed_client import lost_in_words
from .view_source import LostError

QPS, BURST = 20.0, 40
NODES, PODS = BY_KIND["v1", "Node"].path(), BY_KIND["v1", "Pod"].path()


class Live:
    """The scheduler of a DebugTarget, and its cluster.

    `configuration` and `gates` are for the stories, which are made here, one at a time, in a
    thread.
    """

    def __init__(
        self,
        target: DebugTarget,
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
    ) -> None:
        self._target = target
        self._configuration = configuration
        self._gates = gates
        self._telling = CapacityLimiter(1)

    async def watch(self, take: Callable[[Event], None]) -> NoReturn:
        with lost_in_words(self._target.server), ungrouped():
            async with (
                remote(
                    self._connection(), SystemClock(), Random(), QPS, BURST, sender=ReadOnlyClient
                ) as cluster,
                server_url(self._target) as (server, access),
                _session() as session,
            ):
                with lost_in_words(server):
                    glance = partial(_glance, session, server, access)
                    await _watch(cluster, glance, take)
        raise AssertionError

    async def story(self, key: str) -> Story | None:
        namespace, _, name = key.partition("/")
        with lost_in_words(self._target.server):
            try:
                explainer = Explainer(self._configuration, self._gates)
                connection = self._connection()
                objects = await from_cluster(connection, explainer.kinds, CLASSES)
                pods = (each for each in objects if each["kind"] == "Pod")
                pod = next((each for each in pods if _key(each) == key), None)
                if pod is None:
                    return None
                events = await _events(connection, namespace, name)
                recorded = await self._recorded(key)
            except (SourceError, ConnectionFailedError, ConfigError, RegistryError) as problem:
                raise LostError(str(problem)) from None
        ask = partial(as_pending, pod, objects, self._configuration, self._gates)
        return await to_thread.run_sync(story_of, pod, events, recorded, ask, limiter=self._telling)

    def _connection(self) -> Connection:
        connection = connection_of(self._target.kubeconfig, self._target.context)
        if connection is None:
            raise KubeconfigError(
                "no kubeconfig: expected --kubeconfig, $KUBECONFIG or ~/.kube/config"
            )
        return connection

    async def _recorded(self, key: str) -> AttemptsPage:
        """Returns the recorded attempts of a pod, none if there is no flight recorder."""
        try:
            async with server_url(self._target) as (server, access), _session() as session:
                path = f"/debug/attempts/{quote(key)}"
                body = await page_of(session, server, access, path)
        except NoAnswerError as problem:
            if problem.status != 404:
                raise
            return AttemptsPage(0.0, None, ())
        return msgspec.json.decode(body, type=AttemptsPage)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS))


async def _glance(session: aiohttp.ClientSession, server: str, access: UserAccess) -> Glance:
    body = await page_of(session, server, access, "/debug/glance")
    return msgspec.json.decode(body, type=Glance)


async def _watch(cluster: Remote, glance: Callable[[], Any], take: Callable[[Event], None]) -> None:
    """Sends the changes until the scheduler stops answering."""
    board = Board()
    first = await glance()
    take(FeedBegan())
    take(first)

    async def send_frames() -> None:
        while True:
            frame = board.take()
            if frame is not None:
                take(frame)
            await anyio.sleep(FRAME_SECONDS)

    async with anyio.create_task_group() as group:
        nodes = cluster.follow(NODES, Node).changes({})
        group.start_soon(put_rows, nodes, _node_name, node_row, NodeGone, board.put)
        pods = cluster.follow(PODS, Pod).changes({})
        group.start_soon(put_rows, pods, key_of, pod_row, PodGone, board.put)
        group.start_soon(send_frames)
        while True:
            await anyio.sleep(GLANCE_SECONDS)
            take(await glance())


def _node_name(node: Node) -> str:
    return node.metadata.name


def _key(document: Mapping[str, Any]) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


async def _events(connection: Connection, namespace: str, name: str) -> list[dict[str, Any]]:
    """Returns the events about a pod; none if they may not be listed."""
    path = BY_KIND["v1", "Event"].path(namespace)
    selector = quote(f"involvedObject.name={name}")
    async with ReadOnlyClient(connection) as client:
        try:
            listed = await client.call("GET", f"{path}?fieldSelector={selector}", dict)
        except ApiError:
            return []
    items: list[dict[str, Any]] = listed.get("items") or []
    return items
