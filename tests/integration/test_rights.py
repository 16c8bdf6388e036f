"""With the shipped rights and no others, a scheduler leads, places pods and serves its pages to
those who may read them.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import aiohttp
import anyio
import msgspec

from berth.actors.client.credentials import FixedCredentials, Proof
from berth.actors.client.rest import Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.system import run_scheduler
from berth.config.options import Options, SecureServing
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.cluster.apiserver.app import serve
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.daemon import node, pod
from tests.kit.processes import free_port
from tests.kit.rights import ACCOUNT, NAMESPACE, RIGHTS, shipped
from tests.kit.secured import NOBODY, PROMETHEUS, secured


async def test_the_shipped_rights_are_enough_to_lead_place_and_serve(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster, aiohttp.ClientSession() as session:

        async def status(path: str, token: str = "") -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            where = f"https://127.0.0.1:{cluster.port}{path}"
            async with session.get(where, headers=headers, ssl=False) as response:
                return response.status

        await cluster.client.call("POST", "/api/v1/nodes", dict, node("n"))
        pods = "/api/v1/namespaces/default/pods"
        await cluster.client.call("POST", pods, dict, pod("p"))
        with anyio.fail_after(20):
            while not (await cluster.client.call("GET", f"{pods}/p", dict))["spec"].get("nodeName"):
                await anyio.sleep(0.02)
        assert await status("/metrics", PROMETHEUS) == 200
        assert await status("/metrics/resources", PROMETHEUS) == 200
        assert await status("/metrics", NOBODY) == 403
        assert await status("/configz", PROMETHEUS) == 403
        assert await status("/livez") == 200
    assert set(RIGHTS.unused_roles()) <= {"berth-negotiation"}


async def test_the_toy_api_server_gives_the_shipped_rights_to_a_token_of_the_account() -> None:
    async with serve() as url, Client(Connection(url)) as client:

        async def create(path: str, document: object) -> dict[str, dict[str, str]]:
            return await client.call("POST", path, dict, document)

        for manifest in shipped():
            kind = BY_KIND[manifest["apiVersion"], manifest["kind"]]
            await create(kind.path(manifest["metadata"].get("namespace", "")), manifest)
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        await create(accounts, {"metadata": {"name": ACCOUNT}})
        token = (await create(f"{accounts}/{ACCOUNT}/token", {}))["status"]["token"]
        await create("/api/v1/nodes", node("n"))
        pods = "/api/v1/namespaces/default/pods"
        await create(pods, pod("p"))
        credentials = FixedCredentials(Proof(f"Bearer {token}"))
        async with anyio.create_task_group() as group:
            await group.start(
                run_scheduler,
                KubeSchedulerConfiguration(),
                msgspec.structs.replace(Connection(url), credentials=credentials),
                SystemClock(),
                Random(1),
                Options(serving=SecureServing("127.0.0.1", free_port())),
            )
            with anyio.fail_after(20):
                while not (await client.call("GET", f"{pods}/p", dict))["spec"].get("nodeName"):
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()
