"""A real Prometheus scrapes a scheduler, with the shipped rights and over HTTPS: the queries of the
dashboard and of the alerts return data.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import aiohttp
import anyio
import pytest
import yaml

from tests.kit.daemon import node, pod
from tests.kit.documents import Document
from tests.kit.processes import ROOT, free_port
from tests.kit.secured import PROMETHEUS, Cluster, secured

ALERTS, DASHBOARD = ROOT / "config/alerts/berth.yaml", ROOT / "config/dashboards/berth.json"
PODS = "/api/v1/namespaces/default/pods"
LIMIT = re.compile(r"\s(?:>|==)\s[\d.]+\s*$")
# Queries without data in a healthy cluster, by what they name.
EMPTY = {
    "absent(up": "an instance answers",
    'code="403"': "no right is missing",
    'code=~"5..|<error>"': "no request fails",
    'result="error"': "no attempt fails",
    "berth_activations_in_vain_total": "no plugin activates pods in vain",
    "berth_plugin_switched_off": "there is no plugin of others",
}

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is not on the PATH"
)


class Prometheus:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def ask(self, path: str, **query: str) -> Any:
        """Returns the data of an answer. Raises ClientError if there is none."""
        async with self._session.get(f"{self._url}/api/v1/{path}", params=query) as response:
            answer = await response.json()
            assert answer["status"] == "success", answer
            return answer["data"]

    async def finds(self, query: str) -> bool:
        return bool((await self.ask("query", query=query))["result"])

    async def health_of_rules(self) -> set[str]:
        """Returns the health of all rules; that of a rule that was not evaluated yet is unknown."""
        groups = (await self.ask("rules"))["groups"]
        return {rule["health"] for group in groups for rule in group["rules"]}

    async def until(self, query: str) -> None:
        """Waits until a query returns data."""
        with anyio.fail_after(20):
            while True:
                try:
                    if await self.finds(query):
                        return
                except aiohttp.ClientError:
                    pass
                await anyio.sleep(0.1)

    async def until_all(self, queries: list[str]) -> None:
        """Waits until all of these queries return data at once: rates need two samples."""
        missing = queries
        with anyio.move_on_after(20):
            while missing:
                missing = [query for query in queries if not await self.finds(query)]
        assert not missing, "\n".join(missing)


@asynccontextmanager
async def prometheus(folder: Path, port: int) -> AsyncIterator[Prometheus]:
    """Runs a Prometheus that scrapes a port of this machine, and knows the alerts."""
    scraped = {
        "job_name": "berth",
        "scheme": "https",
        "authorization": {"credentials": PROMETHEUS},
        "tls_config": {"insecure_skip_verify": True},
        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
    }
    file = folder / "prometheus.yml"
    document = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [scraped],
    }
    file.write_text(yaml.safe_dump(document))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={file}",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
    ]
    async with (
        await anyio.open_process(command, stdout=DEVNULL, stderr=DEVNULL) as process,
        aiohttp.ClientSession() as session,
    ):
        try:
            yield Prometheus(f"http://{address}", session)
        finally:
            process.kill()


async def busy(cluster: Cluster) -> None:
    """Creates pods of every fate: placed, after a preemption too, held back and without room."""

    async def create(path: str, document: Document) -> None:
        await cluster.client.call("POST", path, dict, document)

    for name in ("a", "b"):
        await create("/api/v1/nodes", node(name))
    high = {"metadata": {"name": "high"}, "value": 1000}
    await create("/apis/scheduling.k8s.io/v1/priorityclasses", high)
    for name in ("low-1", "low-2"):
        await create(PODS, pod(name, "3"))
    await create(PODS, pod("gated", schedulingGates=[{"name": "example.com/later"}]))
    await create(PODS, pod("large", "64"))
    await anyio.sleep(1)
    await create(PODS, pod("high", "3", priorityClassName="high"))
    for number in range(100):
        await create(PODS, pod(f"small-{number}", "1m"))
        await anyio.sleep(0.05)


def queries() -> list[str]:
    """Returns the queries of the dashboard, and those of the alerts without their limits."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    expressions = [*shown, *(LIMIT.sub("", rule["expr"]) for rule in rules)]
    assert len(expressions) >= 40
    return [
        query.replace("$__rate_interval", "10s").replace("$job", "berth").replace("$instance", ".+")
        for query in expressions
    ]


@pytest.mark.full
@needs_prometheus
async def test_the_queries_return_data(tmp_path: Path) -> None:
    async with (
        secured(tmp_path) as cluster,
        prometheus(tmp_path, cluster.port) as prom,
        anyio.create_task_group() as group,
    ):
        group.start_soon(busy, cluster)
        await prom.until('scheduler_schedule_attempts_total{result="scheduled"} > 50')
        await prom.until_all(
            [each for each in queries() if not any(part in each for part in EMPTY)]
        )
        empty = [query for query in queries() if not await prom.finds(query)]
        assert len(empty) == len(EMPTY), "\n".join(empty)
        assert await prom.finds("count(scheduler_preemption_victims_count > 0)")
        with anyio.fail_after(10):
            while await prom.health_of_rules() != {"ok"}:
                await anyio.sleep(0.1)
        group.cancel_scope.cancel()


def test_each_panel_has_its_own_place() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.mark.full
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on the PATH")
@pytest.mark.parametrize(
    "command", [("check", "rules", ALERTS), ("test", "rules", ROOT / "tests/deploy/alerts.yaml")]
)
async def test_promtool_finds_nothing(command: tuple[str | Path, ...]) -> None:
    done = await anyio.run_process(["promtool", *map(str, command)], check=False)
    assert done.returncode == 0, done.stdout + done.stderr
