"""With the shipped rights and no others, a scheduler leads, places pods and serves its pages to
those who may read them.
"""

from __future__ import annotations

from pathlib import Path

import aiohttp
import anyio

from tests.kit.daemon import node, pod
from tests.kit.rights import RIGHTS
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
