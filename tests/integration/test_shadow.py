"""`berth shadow` beside a scheduler: it judges every pod that is bound, and writes nothing."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from berth.actors.client.rest import Connection
from berth.actors.scheduling.kube.yaml_documents import documents
from berth.config.feature_gates import DEFAULTS, defaults_of
from berth.config.load import from_mapping
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import VERSIONS
from berth.tools.answers.shadow.placement_judge import Agreement
from berth.tools.answers.shadow.shadow_report import Report
from berth.tools.answers.shadow.shadow_watch import Watching
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import LoopClock
from berth.tools.views.commands.shadow import shadow
from tests.kit.cluster import Cluster, cluster, configured, toy_cluster
from tests.kit.daemon import pod
from tests.kit.documents import container, template, workload
from tests.kit.processes import free_port
from tests.kit.rbac import Authorizer, Right, attributes_of
from tests.kit.rights import DEPLOY, NAMESPACE
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "anti"}},
            }
        ]
    }
}


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Gives Ctrl-C back its effect, which the end of the command takes from it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def shadowed(
    url: str,
    configuration: KubeSchedulerConfiguration | None = None,
    gates: Mapping[str, bool] = DEFAULTS,
) -> AsyncIterator[tuple[Watching, Report]]:
    report = Report()
    watching = Watching(
        configuration or from_mapping(None), gates, LoopClock(), Random(1), report.add
    )
    async with anyio.create_task_group() as group:
        await group.start(watching.run, Connection(url))
        yield watching, report
        await watching.finish()
        group.cancel_scope.cancel()


def deployment(name: str, replicas: int, **spec: object) -> dict[str, object]:
    pods = template(name, containers=[container("c", "300m")], **spec)
    return workload("Deployment", name, pods, replicas=replicas)


async def all_placed(running: Cluster, pods: int) -> None:
    def hold(items: list[dict[str, Any]]) -> bool:
        return len([item for item in items if "nodeName" in item["spec"]]) >= pods

    await running.until_all("Pod", hold, 60.0)


@in_long_virtual_time
async def test_berth_agrees_with_itself() -> None:
    async with toy_cluster(5) as running, shadowed(running.url) as (_, report):
        await running.create("Deployment", deployment("plain", 20))
        await running.create("Deployment", deployment("anti", 4, affinity=ANTI))
        await all_placed(running, 24)
    assert report.judged == 24
    assert report.counts[Agreement.DIFFERENT] == 0
    assert report.sentence() == "berth agrees about all 24 pods"


@in_virtual_time
async def test_another_configuration_shows() -> None:
    most = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}}
    score = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}
    profile = {
        "plugins": {"score": score},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": most}],
    }
    async with (
        toy_cluster(5) as running,
        shadowed(running.url, configured(profiles=[profile])) as (_, report),
    ):
        await running.create("Deployment", deployment("plain", 10))
        await all_placed(running, 10)
    assert report.counts[Agreement.DIFFERENT] > 5
    (first, *_) = report.kept
    assert "NodeResourcesFit" in first.reason


@in_virtual_time
async def test_it_needs_the_shipped_rights_and_writes_nothing() -> None:
    store = fresh_store()
    Api(store).seed()
    server = Server(store)
    shown: list[HttpRequest] = []

    def answer(request: HttpRequest) -> Response | Follow:
        if "scheduler" in request.headers.get("user-agent", ""):
            shown.append(request)
        return server.answer(request)

    newest = defaults_of(VERSIONS[max(VERSIONS)])  # whose scheduler needs the most rights
    async with cluster(answer) as running, shadowed(running.url, gates=newest) as (_, report):
        for number in (1, 2):
            await running.create("Node", hollow_node(number))
        await running.create("Pod", pod("web"))
        await anyio.sleep(1)
        bound = {"target": {"kind": "Node", "name": "node-1"}, "metadata": {"name": "web"}}
        path = "/api/v1/namespaces/default/pods/web/binding"
        await running.client.call("POST", path, dict, bound)
    assert [placement.agreement for placement in report.kept] == []
    assert report.counts == {Agreement.TIE: 1}
    assert {request.method for request in shown} == {"GET"}
    rights = [*documents((DEPLOY / "shadow/rbac.yaml").read_bytes())]
    authorizer = Authorizer(rights, NAMESPACE, "berth-shadow")
    used: set[Right] = set()
    for request in shown:
        watch = "?watch=1" if "watch" in request.query else ""
        granting = authorizer.granting(attributes_of("GET", request.path + watch))
        assert granting, request.path
        used.update(granting)
    resources = {(right.group, right.resource) for right in used}
    assert resources == {(right.group, right.resource) for right in authorizer.shipped}
    assert {right.verb for right in authorizer.shipped} == {"list", "watch"}


@pytest.mark.full("long")
def test_a_server_that_is_away_is_an_error() -> None:
    result = CliRunner().invoke(shadow, ["--master", f"http://127.0.0.1:{free_port()}"])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: http://127.0.0.1:")
    assert "refused" in result.stderr
