"""The scheduler beside the mock API server of kmock, whose objects have no versions."""

from __future__ import annotations

from typing import Any

import anyio
import kmock
from aiohttp import web

from berth.actors.scheduling.kube.kinds import LOOKED_UP, NODES, PODS
from tests.integration.test_odd_servers import scheduler
from tests.kit.daemon import node, pod
from tests.kit.virtual_loop import in_virtual_time

NAMESPACES = "/api/v1/namespaces"
BINDING = f"{NAMESPACES}/default/pods/p/binding"


class Mock(kmock.KubernetesEmulator):
    """The emulator, which cannot list namespaces by itself: kmock 0.8 reads their path wrongly."""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != NAMESPACES:
            return await super().__call__(request)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})


@in_virtual_time
async def test_a_pod_of_a_mock_server_is_bound() -> None:
    mock, bound = Mock(), anyio.Event()
    bodies: list[Any] = []

    async def bind(request: Any) -> dict[str, str]:
        bodies.append(request.data)
        bound.set()
        return {}

    async with kmock.Server(mock) as server:
        for kind in (NODES, PODS, *LOOKED_UP):
            mock.resources[kind.path.removeprefix("/apis/").removeprefix("/api/")] = (
                kmock.ResourceInfo()
            )
        mock.objects["v1/nodes", None, "n"] = node("n")
        mock.objects["v1/pods", "default", "p"] = pod("p")
        mock[f"post {BINDING}"] << bind
        async with scheduler(str(server.url).rstrip("/")):
            with anyio.fail_after(15.0):
                await bound.wait()
    (body,) = bodies
    assert body["target"]["name"] == "n"
