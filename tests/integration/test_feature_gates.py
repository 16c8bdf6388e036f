"""Feature gates, on and off: where a pod fits, by berth explain, and what else they change."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from berth.actors.client.rest import ApiError
from berth.actors.messages.cache import AssignedPodAdded
from berth.actors.messages.recorder import SetUnschedulable
from berth.actors.scheduling.kube.core import Node, Pod
from berth.config.feature_gates import defaults_of, with_defaults
from berth.config.options import Options
from berth.config.versions import VERSIONS
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.views.commands.explain import explain
from tests.kit import documents
from tests.kit.cluster import cluster
from tests.kit.daemon import daemon
from tests.kit.documents import Document
from tests.kit.pipeline import Pipeline, pipeline
from tests.kit.queue import place_of
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time


def node(name: str = "n", taints: Any = (), **labels: str) -> Document:
    return documents.node(name, labels=labels, taints=taints)


def pod(name: str = "p", labels: Any = None, status: Any = None, **spec: Any) -> Document:
    containers = [documents.container(**spec.pop("container", {}))]
    return documents.pod(name, labels=labels, status=status, containers=containers, **spec)


def asks(cpu: str) -> Document:
    return {"requests": {"cpu": cpu}}


def fitting(gates: str, pending: Document, objects: list[Document]) -> list[str]:
    """Returns the nodes that fit."""
    line = {"name": "s", "config": None, "objects": objects, "pod": pending}
    arguments = ["--scenario", "-", "-o", "json", "--feature-gates", gates]
    result = CliRunner().invoke(explain, arguments, input=msgspec.json.encode(line).decode())
    assert result.exit_code == 0, result.output
    verdicts = msgspec.json.decode(result.stdout)["filter"]
    return sorted(name for name, verdict in verdicts.items() if verdict["code"] == "Success")


WITHOUT_POD_LEVEL = {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}
SPREAD = {
    "topologyKey": "zone",
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "matchLabelKeys": ["version"],
}
RESTARTS = {
    "restartPolicyRules": [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    ]
}


@pytest.mark.parametrize(
    ("gate", "others", "pending", "objects", "on", "off"),
    [
        (
            "NodeDeclaredFeatures",
            (
                "ExtendWebSocketsToKubelet",
                "InPlacePodLevelResourcesVerticalScaling",
                "InPlacePodVerticalScalingInitContainers",
                "RestartAllContainersOnContainerExits",
            ),
            pod(container=RESTARTS),
            [node()],
            [],
            ["n"],
        ),
        (
            "PodLevelResources",
            ("InPlacePodLevelResourcesVerticalScaling",),
            pod(resources=asks("8")),
            [node()],
            [],
            ["n"],
        ),
        (
            "InPlacePodLevelResourcesVerticalScaling",
            (),
            pod(container={"resources": asks("2")}),
            [node(), pod("q", nodeName="n", resources=asks("1"), status={"resources": asks("3")})],
            [],
            ["n"],
        ),
        (
            "MatchLabelKeysInPodTopologySpread",
            ("MatchLabelKeysInPodTopologySpreadSelectorMerge",),
            pod(labels={"app": "web", "version": "2"}, topologySpreadConstraints=[SPREAD]),
            [
                node("a", zone="a"),
                node("b", zone="b"),
                pod("q", {"app": "web", "version": "1"}, nodeName="a"),
            ],
            ["a", "b"],
            ["b"],
        ),
        (
            "TaintTolerationComparisonOperators",
            (),
            pod(tolerations=[{"key": "sla", "operator": "Gt", "value": "700"}]),
            [node(taints=[{"key": "sla", "value": "900", "effect": "NoSchedule"}])],
            ["n"],
            [],
        ),
    ],
)
def test_gates_that_change_where_a_pod_fits(
    gate: str,
    others: tuple[str, ...],
    pending: Document,
    objects: list[Document],
    on: list[str],
    off: list[str],
) -> None:
    """`others` depend on the gate."""
    assert fitting(f"{gate}=true", pending, objects) == on
    without = ",".join(f"{name}=false" for name in (gate, *others))
    assert fitting(without, pending, objects) == off


@pytest.mark.parametrize(("gates", "bound"), [({}, ""), (WITHOUT_POD_LEVEL, "n")])
async def test_the_scheduler_drops_what_counts_only_with_a_gate(
    gates: dict[str, bool], bound: str
) -> None:
    options = Options(feature_gates=with_defaults(gates))
    async with daemon(options=options) as running:
        running.put_node("n")
        running.put_pod("p", spec={"resources": asks("8")})
        await running.advance(2)
        assert running.node_of("p") == bound


# ------------------------------------------------------------------------ SchedulerAsyncPreemption


async def with_a_preemptor(running: Pipeline) -> None:
    """Creates a full node, a pod that preempts there, and one that fits in any case."""
    running.store.evicting = anyio.Event()
    await running.add_node(msgspec.convert(node(), Node))
    low = pod("low", nodeName="n", container={"resources": asks("4")})
    running.cache.tell(AssignedPodAdded(msgspec.convert(low, Pod)))
    high = pod("high", priority=10, container={"resources": asks("1")})
    await running.add_pod(msgspec.convert(high, Pod))
    await running.clock.advance(0)
    await running.add_pod(msgspec.convert(pod("small"), Pod))
    await running.clock.advance(0)


@pytest.mark.parametrize("aside", [True, False])
async def test_a_cycle_that_waits_for_a_preemption(aside: bool) -> None:
    async with pipeline(SchedulerAsyncPreemption=aside) as running:
        await with_a_preemptor(running)
        assert running.store.bound == ([("small", "n")] if aside else [])
        assert running.store.evicting is not None
        running.store.evicting.set()
        await running.clock.advance(0)
        assert running.store.evicted == ["low"]
        assert running.store.bound == [("small", "n")]
        (told,) = conditions(running)
        assert told.nominated_node == "n"
        assert place_of(running.queue_state, "default/high") == "unschedulable"


@pytest.mark.parametrize("aside", [True, False])
async def test_a_preemption_that_fails(aside: bool) -> None:
    async with pipeline(SchedulerAsyncPreemption=aside) as running:
        running.store.eviction_refusals.append(ApiError(403, "Forbidden", "not allowed"))
        await with_a_preemptor(running)
        assert running.store.evicting is not None
        running.store.evicting.set()
        await running.clock.advance(0)
        told, *_ = conditions(running)
        assert told.message.endswith(" preemption: not allowed") == (not aside)
        assert told.nominated_node == ("n" if aside else None)
        # The preemptor of a preemption aside is tried again at once, without a backoff.
        assert running.store.evicted == (["low"] if aside else [])
        assert place_of(running.queue_state, "default/high") == "unschedulable"


def conditions(running: Pipeline) -> list[SetUnschedulable]:
    return [order for order in running.recorder.take() if isinstance(order, SetUnschedulable)]


# --------------------------------------------------------------------------- the changes of 1.37


def resized(name: str, now: dict[str, str]) -> tuple[Document, dict[str, Any]]:
    """Returns a pod with 2 and 0.5 cpu whose containers have these amounts now, and its status."""
    containers = [documents.container(n, resources=asks(cpu)) for n, cpu in BOTH]
    reported = [
        {"name": n, "allocatedResources": {"cpu": cpu}, "resources": asks(cpu)}
        for n, cpu in now.items()
    ]
    status = {"phase": "Running", "containerStatuses": reported}
    return documents.pod(name, containers=containers, nodeName="n"), status


BOTH = (("a", "2"), ("b", "500m"))


@pytest.mark.parametrize(
    ("minor", "fits", "said"),
    [
        (
            36,
            False,
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate",
        ),
        (37, True, ""),
    ],
)
@in_virtual_time
async def test_a_pod_fits_beside_one_that_is_resized_as_the_version_says(
    minor: int, fits: bool, said: str
) -> None:
    swapped, status = resized("two", {"a": "500m", "b": "2"})
    async with cluster() as running:
        await running.create("Node", node())
        await running.create("Pod", swapped)
        await running.patch("Pod", "two", {"status": status}, "/status")
        await running.schedule(options=Options(feature_gates=defaults_of(VERSIONS[minor])))
        await running.create("Pod", pod(container={"resources": asks("1")}))
        placed = await running.status("Pod", "p", lambda status: "conditions" in status)
        condition = next(c for c in placed["status"]["conditions"] if c["type"] == "PodScheduled")
        assert (condition["status"] == "True") is fits
        assert condition.get("message", "").partition(", preemption:")[0] == said


# --------------------------------------------------------------------------------------- the option


def test_warnings_and_refusals() -> None:
    line = {"name": "s", "config": None, "objects": [node()], "pod": pod()}
    arguments = ["--scenario", "-", "-o", "json", "--feature-gates"]
    text = msgspec.json.encode(line).decode()
    warned = CliRunner().invoke(explain, [*arguments, "GenericWorkload=true"], input=text)
    assert warned.stderr.startswith("feature gates without an effect: ")
    assert warned.exit_code == 0
    refused = CliRunner().invoke(explain, [*arguments, "GangScheduling=true"], input=text)
    assert refused.stderr.startswith("Error: feature gates: GangScheduling is enabled, but depends")
    assert refused.exit_code == 1


@pytest.mark.parametrize("streams", [True, False])
@in_virtual_time
async def test_the_kinds_are_listed_as_the_gate_says(streams: bool) -> None:
    store = fresh_store()
    Api(store).seed()
    server = Server(store)
    requests: set[str] = set()

    def answer(request: HttpRequest) -> Response | Follow:
        if request.method == "GET" and request.path in ("/api/v1/pods", "/api/v1/nodes"):
            how = "watch" if "watch" in request.query else "list"
            requests.add("stream" if "sendInitialEvents" in request.query else how)
        return server.answer(request)

    gates = with_defaults({"WatchListClient": streams})
    async with cluster(answer) as running:
        await running.create("Node", node())
        await running.schedule(options=Options(feature_gates=gates))
        await running.create("Pod", pod())
        assert await running.node_of("p") == "n"
    assert requests == ({"stream"} if streams else {"list", "watch"})
