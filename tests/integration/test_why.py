"""`berth why`, against a running scheduler."""

from __future__ import annotations

import json

import anyio
import pytest
from click.testing import CliRunner

from berth.actors.telemetry.logs import configure_logs
from berth.tools.debug.why import why
from tests.kit.cluster import cluster
from tests.kit.daemon import node, pod
from tests.kit.serving import open_to_all, url_of


async def ask_why(server: str, *arguments: str) -> tuple[int, str]:
    options = ("--server", server, "--insecure-skip-tls-verify")
    configure_logs(quiet=True)  # the scheduler runs in this process
    result = await anyio.to_thread.run_sync(lambda: CliRunner().invoke(why, [*arguments, *options]))
    return result.exit_code, result.output


@pytest.mark.full("long")
async def test_a_pod_that_waited_for_a_node() -> None:
    options = open_to_all()
    server = url_of(options)
    async with cluster() as running:
        await running.schedule(options=options)
        await running.create("Node", node("small", "2"))
        await running.create("Pod", pod("big", "4"))
        with anyio.fail_after(20):
            while "unschedulable" not in (await ask_why(server, "big"))[1]:
                await anyio.sleep(0.05)
        await running.create("Node", node("large", "8"))
        await running.node_of("big")

        code, text = await ask_why(server, "default/big", "--all")
        assert code == 0, text
        assert "attempt 1: unschedulable" in text
        assert "Insufficient cpu [NodeResourcesFit]" in text
        assert "attempt 2: chose large, the only node that fits" in text
        assert "woken by: NodeAdd (NodeResourcesFit)" in text, text
        assert max(map(len, text.splitlines())) <= 80

        code, text = await ask_why(server, "big", "--attempt=1", "-o", "json")
        (attempt,) = json.loads(text)["attempts"]
        (rejection,) = attempt["rejections"]
        assert (attempt["result"], rejection["nodes"]) == ("unschedulable", ["small"])

        code, text = await ask_why(server, "nobody")
        assert code == 2
        assert "default/nobody: no such attempt is recorded; this scheduler started at" in text
