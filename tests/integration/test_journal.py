"""`berth apiserver --data` with a limit on file sizes: it loses no acknowledged write, and shows no
other.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

import aiohttp
import anyio
import pytest

from tests.kit.documents import Document
from tests.kit.processes import berth

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux can set the limits of another process"
    ),
]

MAPS = "/api/v1/namespaces/default/configmaps"
ROOM = 2500  # bytes: enough for a few objects and a part of one more


def config_map(number: int) -> Document:
    return {"metadata": {"name": f"m{number}"}, "data": {"much": "x" * 300}}


async def listed(url: str) -> Document:
    """Returns the list, without the ConfigMap that every namespace has."""
    async with aiohttp.ClientSession() as session, session.get(url + MAPS) as answer:
        answered: Document = await answer.json()
    items = [item for item in answered["items"] if item["metadata"]["name"] != "kube-root-ca.crt"]
    return {**answered, "items": items}


async def test_acknowledged_writes_survive_a_file_that_cannot_grow(tmp_path: Path) -> None:
    data = tmp_path / "objects"
    async with (
        berth(tmp_path, "apiserver", "--data", str(data)) as server,
        aiohttp.ClientSession() as session,
    ):
        url = (await server.says("API server at")).rsplit(" ", 1)[1]
        begun = (await listed(url))["metadata"]["resourceVersion"]
        limit = data.stat().st_size + ROOM
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        acknowledged: list[str] = []
        refused: list[str] = []
        for number in range(20):
            async with session.post(url + MAPS, json=config_map(number)) as answer:
                (acknowledged if answer.status == 201 else refused).append(f"m{number}")
                told = await answer.json()
        assert acknowledged
        assert refused
        assert (told["code"], told["reason"]) == (500, "InternalError")
        assert told["message"].endswith(f"{data} cannot be written to: File too large")
        seen = await listed(url)
        assert [item["metadata"]["name"] for item in seen["items"]] == sorted(acknowledged)
        query = f"?watch=true&timeoutSeconds=1&resourceVersion={begun}"
        async with session.get(url + MAPS + query) as answer:
            lines = (await answer.read()).splitlines()
        assert len(lines) == len(acknowledged), "a watch shows exactly the created objects"
        resource.prlimit(
            server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
        async with session.post(url + MAPS, json=config_map(100)) as answer:
            assert answer.status == 201, "writes fail although there is room again"
        before = await listed(url)
        server.send(signal.SIGKILL)
        await server.end()
    async with berth(tmp_path, "apiserver", "--data", str(data)) as server:
        url = (await server.says("API server at")).rsplit(" ", 1)[1]
        assert (await listed(url))["items"] == before["items"]
        assert "left out" not in server.output


async def test_a_server_that_cannot_keep_its_first_objects_says_so_in_one_line(
    tmp_path: Path,
) -> None:
    data = tmp_path / "objects"
    command = "import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)); "
    command += "runpy.run_module('berth.actors', run_name='__main__')"
    done = await anyio.run_process(
        [sys.executable, "-c", command, "apiserver", "--data", str(data)], check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
    said = (
        f'Error: namespaces "default" cannot be kept: {data} cannot be written to: File too large\n'
    )
    assert done.stderr.decode() == said
