"""Compares berth's metrics with what kube-scheduler 1.36.2 printed at /metrics.

data/kube_scheduler_metrics.json has its families, but for Go's: type, stability, labels, help and
buckets.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from berth.actors.client.measures import ClientMeasures
from berth.actors.scheduling.kube.core import Pod
from berth.actors.server.metrics.access import AccessMeasures
from berth.actors.server.metrics.exposition import exposed
from berth.actors.server.metrics.page import MetricsPage
from berth.actors.server.metrics.pod_resources import PodResources
from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import AnyFamily, Registry
from berth.config.feature_gates import DEFAULTS
from berth.config.options import Options, SecureServing
from berth.config.versions import CURRENT
from tests.kit.daemon import Daemon, daemon
from tests.kit.processes import free_port
from tests.kit.programs import needs

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data/kube_scheduler_metrics.json").read_text()
)


def described(family: AnyFamily) -> dict[str, Any]:
    fields = {
        "type": str(family.kind),
        "stability": str(family.stability),
        "labels": sorted(family.labels),
        "help": family.help,
    }
    return {**fields, "buckets": list(family.buckets)} if family.buckets else fields


def of_the_process() -> Registry:
    registry = Registry()
    ClientMeasures(registry)
    AccessMeasures(registry)
    MetricsPage(registry, CURRENT, DEFAULTS)
    return registry


ODD_NAMES = {"authenticated_user_requests", "authentication_attempts"}  # counters without _total
SHARED = [family for family in of_the_process().families() if family.name in RECORDED]


@pytest.mark.parametrize("family", SHARED, ids=lambda family: family.name)
def test_a_family_of_the_process_is_described_as_kube_schedulers(family: AnyFamily) -> None:
    assert described(family) == RECORDED[family.name]


def test_families_that_kube_scheduler_lacks_have_names_of_their_own() -> None:
    names = {family.name for family in of_the_process().families()} - RECORDED.keys()
    # kube-scheduler has these as well, but they had no samples when it was recorded.
    of_kubernetes = {"apiserver_delegated_authz_request_", "rest_client_request_retries_"}
    own = {"berth_", "python_"}
    assert {name for name in names if not name.startswith((*of_kubernetes, *own))} == set()


def test_the_resources_of_pods_are_described_as_kube_schedulers() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    text = b"".join(PodResources(lambda: [msgspec.convert({"spec": spec}, Pod)]).parts()).decode()
    for name in ("kube_pod_resource_limit", "kube_pod_resource_request"):
        recorded = RECORDED[name]
        assert f"# HELP {name} [{recorded['stability']}] {recorded['help']}\n" in text
        (labels,) = re.findall(rf"^{name}{{(.*)}}", text, re.MULTILINE)
        assert re.findall(r'(\w+)="', labels) == recorded["labels"]


@pytest.mark.full
@needs("promtool")
async def test_promtool_finds_nothing_odd_but_kubernetes_own_names() -> None:
    registry = of_the_process()
    for family in registry.families():
        if family.labels:
            family.child(*("value",) * len(family.labels))
    await registry.refresh()
    text = b"".join(exposed(registry.families()))
    done = await anyio.run_process(["promtool", "check", "metrics"], input=text, check=False)
    remarks = done.stderr.decode().splitlines()
    assert {remark.split()[0] for remark in remarks} <= ODD_NAMES, remarks


async def test_every_stable_metric_is_there_after_a_run() -> None:
    registry, running = Registry(), Daemon()
    instruments = Instruments(registry, running.clock.now, DEFAULTS)
    serving = SecureServing("127.0.0.1", free_port())
    options = Options(serving=serving)
    async with daemon(options=options, existing=running, instruments=instruments):
        running.put_node("n")
        running.put_pod("fits")
        running.put_pod("too-large", cpu="100")
        await running.advance(3)
        assert running.node_of("fits") == "n"
        await registry.refresh()
    shown = {family.name: family for family in registry.families() if family.children()}
    for name, recorded in RECORDED.items():
        if recorded["stability"] == "STABLE" and not name.startswith("kube_pod_resource"):
            assert described(shown[name]) == recorded
