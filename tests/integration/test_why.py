"""`berth why`, against a running scheduler."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import anyio
import pytest
from click.testing import CliRunner

from berth.actors.client.rest import Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.system import run_scheduler
from berth.actors.telemetry.logs import configure_logs
from berth.tools.views.commands.why import why
from tests.kit.cluster import UNLIMITED, cluster
from tests.kit.daemon import node, pod
from tests.kit.serving import kubeconfig, open_to_all, url_of


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
        await running.create("Pod", pod("big", "4", terminationGracePeriodSeconds=0))
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

        await running.delete("Pod", "big")
        await running.gone("Pod", "big")
        with anyio.fail_after(20):
            while "the pod is gone" not in (told := await ask_why(server, "big"))[1]:
                await anyio.sleep(0.05)
        assert (told[0], "chose large" in told[1]) == (0, True)

        code, text = await ask_why(server, "nobody")
        assert code == 2
        assert "default/nobody: no such attempt is recorded; this scheduler started at" in text


@pytest.mark.full("long")
async def test_a_new_leader_tells_what_it_knows(tmp_path: Path) -> None:
    options = open_to_all()
    server = url_of(options)
    async with cluster() as running:
        await running.create("Node", node("n"))
        await running.create("Pod", pod("web", terminationGracePeriodSeconds=0))
        async with anyio.create_task_group() as first:
            connection = Connection(running.url)
            await first.start(run_scheduler, UNLIMITED, connection, SystemClock(), Random(1))
            await running.node_of("web")
            await running.until_all("Event", lambda events: bool(events))
            first.cancel_scope.cancel()
        await running.schedule(options=options)
        await running.create("Pod", pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        config = tmp_path / "config"
        config.write_text(kubeconfig(running.url))

        code, text = await ask_why(server, "web", "--kubeconfig", str(config))
        assert code == 0, text
        said = " ".join(text.split())
        assert re.match(
            r"default/web: this scheduler started at \S+Z and has made no attempt", said
        )
        assert "it is on n since 20" in said
        assert "another scheduler process placed it" in said
        assert re.search(r"Scheduled by \S+: Successfully assigned default/web to n", said), said
        assert max(map(len, text.splitlines())) <= 80

        code, text = await ask_why(server, "web", "-o", "json", "--kubeconfig", str(config))
        page = json.loads(text)
        assert (code, page["attempts"], page["pod"]["node"]) == (0, [], "n")
        assert [event["reason"] for event in page["events"]] == ["Scheduled"]

        assert (await ask_why(server, "web", "--attempt", "1"))[0] == 2
        with anyio.fail_after(20):
            while (told := await ask_why(server, "gated"))[0]:
                await anyio.sleep(0.1)
        assert "it is pending" in told[1]

        await running.delete("Pod", "web")
        await running.gone("Pod", "web")
        asked = ("web", "--kubeconfig", str(config))
        with anyio.fail_after(20):
            while "there is no such pod now" not in (told := await ask_why(server, *asked))[1]:
                await anyio.sleep(0.05)
        said = " ".join(told[1].split())
        assert told[0] == 0
        assert re.search(r"Scheduled by \S+: Successfully assigned default/web to n", said), said
        code, text = await ask_why(server, "nobody", "--kubeconfig", str(config))
        assert (code, "no such attempt is recorded" in text) == (2, True)
        assert "did you mean" not in text
        _, text = await ask_why(server, "gatde", "--kubeconfig", str(config))
        assert " ".join(text.split()).endswith(", did you mean gated?")
