"""Processes of `berth run` with plugins: two with different versions of a package, and one whose
plugins' files change.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.kit.daemons import Daemons, daemons
from tests.kit.processes import POLL_SECONDS, Berth, free_port, install

pytestmark = pytest.mark.full

PRICE = """
from berth.plugin import NodeScorePlugin


class Price(NodeScorePlugin):
    name = "Price"

    def score_node(self, state, info, node):
        return 0
"""
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Price"}]}}}],
}
PAGES = ("--authentication-skip-lookup", "--authorization-always-allow-paths=/*")


async def page(port: int, path: str) -> str:
    url = f"https://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as response:
        assert response.status == 200, response.status
        return await response.text()


def starting(scheduler: Berth) -> dict[str, Any]:
    (line,) = [line for line in scheduler.output.splitlines() if '"starting"' in line]
    fields: dict[str, Any] = json.loads(line)
    return fields


async def test_replicas_with_different_versions_of_a_package_are_told_apart(
    tmp_path: Path,
) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps(CONFIGURATION))
    ports, sites = [free_port(), free_port()], [tmp_path / "old", tmp_path / "new"]
    for site, version in zip(sites, ("1.0.0", "1.1.0"), strict=True):
        install(site, "prices", PRICE, version=version, Price="prices:Price")

    def flags(number: int) -> tuple[str, ...]:
        return f"--config={file}", f"--secure-port={ports[number]}", *PAGES

    async def tells(number: int, version: str) -> None:
        (told,) = json.loads(await page(ports[number], "/debug/plugins"))["plugins"]
        assert (told["plugin"], told["package"], told["version"]) == ("Price", "prices", version)
        info = f'berth_plugin_info{{package="prices",plugin="Price",version="{version}"}} 1'
        metrics = await page(ports[number], "/metrics")
        lines = [line for line in metrics.splitlines() if line.startswith("berth_plugin_info{")]
        assert lines == [info]

    async with (
        daemons(tmp_path) as running,
        running.scheduler(*flags(0), site=sites[0]) as old,
        running.scheduler(*flags(1), site=sites[1]) as new,
    ):
        first, second = await running.leader_of(old, new)
        await second.says("waiting for the lease")
        await tells(0, "1.0.0")
        await tells(1, "1.1.0")
        versions = {old: "1.0.0", new: "1.1.0"}
        for leader in (first, second):
            await leader.says("Successfully acquired lease")
            told = starting(leader)
            assert told["plugins"] == f"Price (prices {versions[leader]})"
            assert (await running.lease())["holderIdentity"] == told["identity"]
            leader.send(signal.SIGTERM)
            await leader.end()


ONLY = """
from berth.plugin import SUCCESS, NodeFilterPlugin, Pod, PreBindPlugin, unresolvable
from places import NODE


class Only(NodeFilterPlugin, PreBindPlugin):
    name = "Only"

    def filter_node(self, state, info, node):
        return SUCCESS if node.name == NODE + "NUMBER" else unresolvable("elsewhere")

    async def pre_bind(self, state, info, node):
        if info.pod.metadata.name.startswith("slow"):
            self.handle.log.info("waits", number="NUMBER")
            await self.handle.objects.wait_for(lambda: [(Pod, "default", "none")], 2.0)
            self.handle.log.info("goes on", number="NUMBER")
        return SUCCESS
"""


async def test_changed_files_are_in_use_for_the_next_pod(tmp_path: Path) -> None:
    only, price, places = (tmp_path / f"{name}.py" for name in ("only", "price", "places"))
    only.write_text(ONLY.replace("NUMBER", "1"))
    price.write_text(PRICE)
    places.write_text('NODE = "a-"')
    port = free_port()
    flags = (
        *("--leader-elect=false", "--reload", f"--secure-port={port}", *PAGES),
        "--berth-plugin-call=1m",  # on a machine that does much else
        "--berth-plugin-attempt=1m",
        *(f"--plugin={only}:Only", f"--plugin={price}:Price"),
    )

    async def goes_to(name: str, node: str) -> None:
        await running.pod(name)
        await running.bound(name)
        assert running.nodes_of[name] == [node]

    async def told(text: str, times: int) -> None:
        await running.wait(lambda: scheduler.count(text) >= times)

    async with daemons(tmp_path) as running:
        for node in ("a-1", "a-2", "b-2"):
            await running.node(node)
        async with running.scheduler(*flags) as scheduler:
            await goes_to("first", "a-1")
            await running.pod("slow")
            await scheduler.says('"waits"')
            replace(only, ONLY.replace("NUMBER", "2"))  # during the attempt at `slow`
            await told('"plugin reloaded"', 1)
            await goes_to("second", "a-2")
            await running.bound("slow")
            assert running.nodes_of["slow"] == ["a-1"]
            assert scheduler.count('"goes on"') == 1
            replace(places, 'NODE = "b-"')  # both files lie beside it
            await told('"plugin reloaded"', 3)
            await goes_to("third", "b-2")
            await broken(port, running, scheduler, only)
            replace(price, PRICE.replace("return 0", "return 1"))
            await told('"plugin reloaded"', 4)
            replace(only, ONLY.replace("NUMBER", "2"))
            await told('"plugin reloaded"', 5)
            assert "berth_configuration_outdated 0" in await page(port, "/metrics")
            plugins = json.loads(await page(port, "/debug/plugins"))["plugins"]
            assert {each["package"] for each in plugins} == {str(only), str(price)}
            scheduler.send(signal.SIGTERM)
            assert await scheduler.end() == 0
            running.assert_bound_once(6)


async def broken(port: int, running: Daemons, scheduler: Berth, file: Path) -> None:
    """Breaks a file, and then deletes it: the old plugin stays in use, and it is told."""
    for number, name in enumerate(("broken", "deleted"), 1):
        change(file, name)
        with anyio.fail_after(60):
            while scheduler.count('"plugin not reloaded"') < number:
                await anyio.sleep(POLL_SECONDS)
        await running.pod(name)
        await running.bound(name)
        assert running.nodes_of[name] == ["b-2"]
        assert "berth_configuration_outdated 1" in await page(port, "/metrics")
        glance = json.loads(await page(port, "/debug/glance"))
        assert glance["outdated"].startswith(f"{file} is not in use: ")
    assert scheduler.count('"plugin not reloaded"') == 2


def change(file: Path, how: str) -> None:
    if how == "deleted":
        file.unlink()
    else:
        replace(file, "from berth import (")


def replace(file: Path, text: str) -> None:
    """Writes a file at once, so that nobody reads a part of it."""
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)
