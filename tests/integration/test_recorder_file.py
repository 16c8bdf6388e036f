"""A recorder file that one process writes and another reads: while it is written, after `kill -9`,
and after it was rotated.
"""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from berth.tools.views.commands.why import why
from tests.kit.cluster import ClusterClient, cluster
from tests.kit.daemon import node, pod
from tests.kit.documents import Document
from tests.kit.processes import Berth, berth

pytestmark = pytest.mark.full("processes")
NODES = 120  # with long names: a pod that fits on none of them takes 8 kB
MANY = 40  # such pods, which fill a file


def told(file: Path, name: str) -> tuple[int, str]:
    result = CliRunner().invoke(why, [name, "--file", str(file), "-o", "json"])
    return result.exit_code, result.output


def files(folder: Path) -> dict[str, int]:
    """Returns the bytes of each file of the recorder."""
    return {path.name: path.stat().st_size for path in folder.glob("attempts*")}


async def until_told(file: Path, name: str) -> Document:
    with anyio.fail_after(60):
        while (answer := told(file, name))[0]:
            await anyio.sleep(0.2)
    (attempt,) = json.loads(answer[1])["attempts"]
    assert attempt["key"] == f"default/{name}"
    return dict(attempt)


@asynccontextmanager
async def scheduler(folder: Path, url: str) -> AsyncIterator[Berth]:
    options = ("--leader-elect=false", "--secure-port=0", "--berth-recorder-file-bytes=1048576")
    file = f"--berth-recorder-file={folder / 'attempts'}"
    async with berth(folder, "run", "--master", url, *options, file) as running:
        yield running


async def create_large(running: ClusterClient, prefix: str) -> None:
    for number in range(MANY):
        await running.create("Pod", pod(f"{prefix}-{number}", "100"))


async def test_another_process_reads_what_a_scheduler_writes(tmp_path: Path) -> None:
    file = tmp_path / "attempts"
    async with cluster() as running:
        for number in range(NODES):
            await running.create("Node", node(f"node-{number}-{'of-a-long-name' * 3}", "2"))
        async with scheduler(tmp_path, running.url) as first:
            await running.create("Pod", pod("early", "1"))
            early = await until_told(file, "early")
            assert early["result"] == "placed"
            assert early["node"] == (await running.get("Pod", "early"))["spec"]["nodeName"]
            for number in range(MANY):
                await running.create("Pod", pod(f"a-{number}", "100"))
                if number % 10 == 0:
                    assert told(file, "early")[0] == 0, "while it is written"
            large = await until_told(file, f"a-{MANY - 1}")
            assert [len(each["nodes"]) for each in large["rejections"]] == [NODES]
            first.send(signal.SIGKILL)
            await first.end()
        assert await until_told(file, "early") == early
        assert await until_told(file, f"a-{MANY - 1}") == large
        assert "attempts.1" in files(tmp_path)

        async with scheduler(tmp_path, running.url):
            for prefix in "bcd":
                await create_large(running, prefix)
            await until_told(file, f"d-{MANY - 1}")
        assert files(tmp_path).keys() == {"attempts", "attempts.1", "attempts.2", "attempts.3"}
        assert sum(files(tmp_path).values()) <= 1 << 20
        code, output = told(file, "early")
        assert code == 2
        assert "no such attempt is recorded" in output
        assert (await until_told(file, "d-0"))["result"] == "unschedulable"
