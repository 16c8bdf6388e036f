"""The scheduler with HTTP extenders and the embedded API server: every verb and every failure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from click.testing import CliRunner, Result

from berth.config.types import API_VERSION, KIND
from berth.tools.views.commands.explain import explain
from tests.kit import documents
from tests.kit.cluster import Cluster, cluster, configured
from tests.kit.documents import Document, thing
from tests.kit.extender import (
    FAILURES,
    Answer,
    Body,
    SmallExtender,
    error,
    hang,
    internal_error,
    small_extender,
)
from tests.kit.logs import capture_logs
from tests.kit.messages import NO_VICTIMS, no_room
from tests.kit.virtual_loop import in_virtual_time

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
SOON = "300ms"

# Parts of a pod and of a node that scheduling does not read.
POD_SPEC: Document = {
    "serviceAccountName": "robot",
    "automountServiceAccountToken": False,
    "terminationGracePeriodSeconds": 0,
    "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"speed": "high"}}}],
}
CONTAINER: Document = {
    "command": ["sleep"],
    "env": [{"name": "MODEL", "value": "large \u20ac"}],
    "volumeMounts": [{"name": "v", "mountPath": "/data"}],
}
NODE: Document = {
    "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]},
    "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
}


def entry(extender: SmallExtender, *verbs: str, **fields: Any) -> Document:
    """Returns the configuration of an extender with these verbs, names of nodes in place of nodes,
    and 5 seconds.
    """
    paths = {f"{verb}Verb": verb for verb in verbs}
    weight = {"weight": 1} if "prioritize" in verbs else {}
    return {"urlPrefix": f"{extender.url}/", "nodeCacheCapable": True, **paths, **weight, **fields}


def document(*extenders: Document, **fields: Any) -> Document:
    return {"apiVersion": API_VERSION, "kind": KIND, "extenders": list(extenders), **fields}


def node(name: str) -> Document:
    metadata = {"name": name, "labels": {"zone": "a"}, "annotations": {"price": "3"}}
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "metadata": metadata,
        "spec": NODE["spec"],
        "status": {**NODE["status"], "allocatable": allocatable},
    }


def pod(name: str, **requests: str) -> Document:
    named = {name.replace("_", "."): amount for name, amount in requests.items()}
    container = documents.container(requests=named)
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def gpu_pod(name: str) -> Document:
    manifest = pod(name)
    manifest["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    return manifest


@asynccontextmanager
async def extended(
    *extenders: Document, nodes: Iterable[str] = ("a", "b"), **fields: Any
) -> AsyncIterator[Cluster]:
    """Runs a scheduler with these extenders and an API server with these nodes."""
    async with cluster() as running:
        await running.create_all("Node", map(node, nodes))
        await running.schedule(configured(extenders=extenders, **fields))
        yield running


async def refused(running: Cluster, name: str = "p") -> tuple[str, str]:
    """Waits until the pod has a condition. Returns its reason and its message."""
    told = await running.status("Pod", name, lambda status: bool(status.get("conditions")))
    condition = told["status"]["conditions"][0]
    return condition["reason"], condition["message"]


async def first_event(running: Cluster) -> tuple[str, str]:
    """Waits for the first event. Returns its reason and its message."""
    event, *_ = await running.until_all("Event", lambda events: bool(events))
    return event["reason"], event["message"]


def keep(*names: str, **failed: str) -> Answer:
    """Answers filter with the nodes of the request that have these names."""

    def answer(body: Body) -> Document:
        return {
            "NodeNames": [name for name in body["NodeNames"] if name in names],
            "FailedNodes": failed,
        }

    return answer


def prefer(**scores: int) -> Answer:
    return lambda body: [{"Host": name, "Score": scores.get(name, 0)} for name in body["NodeNames"]]


# ------------------------------------------------------------------------------------------- filter


@in_virtual_time
async def test_filter_by_whole_nodes_answered_in_gos_json() -> None:
    def cheapest(body: Body) -> Document:
        assert body["NodeNames"] is None
        items = body["Nodes"]["items"]
        assert {item["metadata"]["annotations"]["price"] for item in items} == {"3"}
        assert {item["status"]["allocatable"]["cpu"] for item in items} == {"8"}
        assert [item["status"]["addresses"] for item in items] == [NODE["status"]["addresses"]] * 2
        kept = [item for item in items if item["metadata"]["name"] == "b"]
        return {
            "nodes": {"metadata": {}, "items": kept},
            "nodenames": None,
            "failedNodes": None,
            "error": "",
        }

    async with (
        small_extender({"filter": cheapest}) as extender,
        extended(entry(extender, "filter", nodeCacheCapable=False)) as running,
    ):
        await running.create("Pod", pod("p"))
        assert await running.node_of("p") == "b"


def whole_pod(name: str) -> Document:
    document = pod(name, cpu="5")
    document["spec"].update(POD_SPEC)
    document["spec"]["containers"][0].update(CONTAINER)
    return document


def without_type(item: Document) -> Document:
    """Returns an object as kube-scheduler, too, sends it."""
    return {field: item[field] for field in item if field not in ("apiVersion", "kind")}


def without_owners(pod: Document) -> Document:
    """Returns a pod as kube-scheduler sends it: its informer drops managedFields."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "managedFields"}
    return {**without_type(pod), "metadata": metadata}


def same_victims(body: Body) -> Document:
    """Answers preempt with the victims that the request proposes."""
    return {
        "NodeNameToMetaVictims": {
            name: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]]}
            for name, victims in body["NodeNameToVictims"].items()
        }
    }


@in_virtual_time
async def test_extenders_get_pods_and_nodes_as_the_api_server_has_them() -> None:
    async with (
        small_extender(
            {"filter": lambda body: {"Nodes": body["Nodes"]}, "preempt": same_victims}
        ) as extender,
        extended(entry(extender, "filter", "preempt", nodeCacheCapable=False), nodes=()) as running,
    ):
        only_node = await running.create("Node", node("a"))
        await running.create("ServiceAccount", thing("ServiceAccount", "robot"))
        low = await running.create("Pod", whole_pod("low"))
        assert await running.node_of("low") == "a"
        first = extender.bodies("filter")[0]
        assert first["Pod"] == without_owners(low)
        assert first["Nodes"]["items"] == [without_type(only_node)]

        bound = await running.until("Pod", "low", lambda item: bool(item["status"]))
        await running.create("PriorityClass", {"metadata": {"name": "high"}, "value": 9})
        urgent = whole_pod("urgent")
        urgent["spec"]["priorityClassName"] = "high"
        high = await running.create("Pod", urgent)
        await running.gone("Pod", "low")
        request = extender.bodies("preempt")[0]
        assert request["Pod"] == without_owners(high)
        assert request["NodeNameToVictims"]["a"]["Pods"] == [without_owners(bound)]


@in_virtual_time
async def test_a_pod_that_extenders_reject_gets_their_reasons_and_is_woken_by_any_event() -> None:
    first, second = keep("b", "c", a="too dear"), keep("c", b="too far")
    async with (
        small_extender({"filter": first}) as x,
        small_extender({"filter": second}) as y,
        extended(entry(x, "filter"), entry(y, "filter")) as running,
    ):
        await running.create("Pod", pod("p"))
        assert await refused(running) == (
            "Unschedulable",
            no_room(2, "1 too dear, 1 too far", preemption=NO_VICTIMS),
        )
        assert y.bodies("filter")[0]["NodeNames"] == ["b"]
        await running.create("Node", node("c"))
        assert await running.node_of("p") == "c"


@in_virtual_time
async def test_when_an_extender_leaves_no_node_the_next_are_not_asked() -> None:
    async with (
        small_extender({"filter": keep()}) as x,
        small_extender({"filter": keep("a")}) as y,
        extended(entry(x, "filter"), entry(y, "filter", "prioritize")) as running,
    ):
        await running.create("Pod", pod("p"))
        assert await refused(running) == ("Unschedulable", no_room(2, ""))
        assert not y.calls


def unknown_node(body: Body) -> Document:
    return {"NodeNames": [*body["NodeNames"], "nowhere"]}


FILTER_FAILURES = {
    **FAILURES,
    "unknown node": (unknown_node, 'claims a filtered node "nowhere"'),
    "error": (error, "not today"),
}


@pytest.mark.parametrize("failure", FILTER_FAILURES)
@in_virtual_time
async def test_a_filter_that_fails_fails_the_attempt(failure: str) -> None:
    answer, problem = FILTER_FAILURES[failure]
    async with (
        small_extender({"filter": answer}) as extender,
        extended(entry(extender, "filter", httpTimeout=SOON)) as running,
    ):
        await running.create("Pod", pod("p"))
        reason, message = await refused(running)
        assert reason == "SchedulerError"
        assert problem in message


@in_virtual_time
async def test_the_body_of_a_refusal_is_logged_and_not_shown_to_users() -> None:
    with capture_logs() as logs:
        async with (
            small_extender({"filter": internal_error}) as extender,
            extended(entry(extender, "filter")) as running,
        ):
            await running.create("Pod", pod("p"))
            _, message = await refused(running)
    url = f"{extender.url}/filter"
    assert message == f"failed filter with extender at URL {url}, code 500"
    (line,) = [line for line in logs if line["event"] == "an extender refused a request"]
    assert (line["url"], line["code"], line["body"]) == (url, 500, "it broke")


@in_virtual_time
async def test_an_attempt_that_failed_is_tried_again() -> None:
    async with (
        small_extender({"filter": internal_error}) as extender,
        extended(entry(extender, "filter")) as running,
    ):
        await running.create("Pod", pod("p"))
        await refused(running)
        extender.answers["filter"] = keep("b")
        assert await running.node_of("p") == "b"


@pytest.mark.parametrize("failure", FILTER_FAILURES)
@in_virtual_time
async def test_an_ignorable_filter_that_fails_is_skipped_and_asked_last(failure: str) -> None:
    answer, problem = FILTER_FAILURES[failure]
    with capture_logs() as logs:
        async with (
            small_extender({"filter": answer}) as bad,
            small_extender({"filter": keep("b")}) as good,
        ):
            first = entry(bad, "filter", ignorable=True, httpTimeout=SOON)
            async with extended(first, entry(good, "filter")) as running:
                await running.create("Pod", pod("p"))
                assert await running.node_of("p") == "b"
                assert bad.bodies("filter")[0]["NodeNames"] == ["b"]
    (line,) = [line for line in logs if line["event"] == "extender passed over"]
    assert problem in line["reason"]


@in_virtual_time
async def test_an_extender_that_refuses_connections() -> None:
    async with small_extender() as extender:
        gone = entry(extender, "filter")
    async with extended(gone) as running:
        await running.create("Pod", pod("p"))
        reason, message = await refused(running)
        assert reason == "SchedulerError"
        assert "Connect" in message
    async with extended({**gone, "ignorable": True}) as running:
        await running.create("Pod", pod("p"))
        await running.node_of("p")


# --------------------------------------------------------------------------------------- prioritize


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("ignorable", [True, False])
@in_virtual_time
async def test_a_failed_prioritize_never_fails_the_attempt(failure: str, ignorable: bool) -> None:
    answer, _ = FAILURES[failure]
    async with (
        small_extender({"prioritize": answer}) as bad,
        small_extender({"prioritize": prefer(b=10)}) as good,
    ):
        first = entry(bad, "prioritize", ignorable=ignorable, httpTimeout=SOON)
        async with extended(first, entry(good, "prioritize", weight=5)) as running:
            await running.create("Pod", pod("p"))
            assert await running.node_of("p") == "b"
            assert bad.calls


# --------------------------------------------------------------------------------------- what hangs


@in_virtual_time
async def test_extenders_that_hang_cost_one_time_out_together() -> None:
    async with small_extender({"prioritize": hang}) as slow:
        slow_ones = [entry(slow, "prioritize", httpTimeout="400ms") for _ in range(3)]
        async with extended(*slow_ones) as running:
            started = anyio.current_time()
            await running.create("Pod", pod("p"))
            await running.node_of("p")
            assert 0.4 <= anyio.current_time() - started < 0.8


@in_virtual_time
async def test_the_daemon_goes_on_while_an_extender_hangs() -> None:
    """The lease is renewed meanwhile."""
    entered, answer_now = anyio.Event(), anyio.Event()
    renewed = {
        "leaderElect": True,
        "leaseDuration": "2s",
        "renewDeadline": "1s",
        "retryPeriod": "100ms",
    }

    async def slow(body: Body) -> Document:
        entered.set()
        await answer_now.wait()
        return {"NodeNames": ["b"]}

    async with (
        small_extender({"filter": slow}) as extender,
        extended(entry(extender, "filter", httpTimeout="20s"), leaderElection=renewed) as running,
    ):
        await running.create("Pod", pod("p"))
        await entered.wait()
        renewals: set[str] = set()
        with anyio.fail_after(10):
            while len(renewals) < 4:
                await anyio.sleep(0.02)
                renewals.add((await running.client.call("GET", LEASE, dict))["spec"]["renewTime"])
        assert not (await running.get("Pod", "p"))["spec"].get("nodeName")
        answer_now.set()
        assert await running.node_of("p") == "b"


# --------------------------------------------------------------------------------------------- bind


def binder(running: Cluster) -> Answer:
    """Answers bind with a binding that it writes to the API server itself."""

    async def answer(body: Body) -> Document:
        await running.client.bind(
            body["PodNamespace"], body["PodName"], body["PodUID"], body["Node"]
        )
        return {"Error": ""}

    return answer


@in_virtual_time
async def test_an_extender_binds() -> None:
    async with (
        small_extender({"bind": error}) as extender,
        extended(entry(extender, "bind"), nodes=["a"]) as running,
    ):
        extender.answers["bind"] = binder(running)
        await running.create("Pod", pod("p"))
        assert await running.node_of("p") == "a"
        uid = (await running.get("Pod", "p"))["metadata"]["uid"]
        assert extender.bodies("bind") == [
            {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "a"}
        ]
        assert await first_event(running) == ("Scheduled", "Successfully assigned default/p to a")


BIND_FAILURES = {**FAILURES, "error": (error, "not today")}


@pytest.mark.parametrize("failure", BIND_FAILURES)
@in_virtual_time
async def test_a_binding_that_fails_is_undone(failure: str) -> None:
    answer, problem = BIND_FAILURES[failure]
    async with (
        small_extender({"bind": answer}) as extender,
        extended(entry(extender, "bind", httpTimeout=SOON), nodes=["a"]) as running,
    ):
        await running.create("Pod", pod("p", cpu="8"))
        reason, message = await refused(running)
        assert reason == "SchedulerError"
        assert problem in message
        await running.create("Pod", pod("q", cpu="8"))
        extender.answers["bind"] = binder(running)
        assert await running.node_of("q") == "a"  # the room of p was freed


@pytest.mark.parametrize("failure", BIND_FAILURES)
@in_virtual_time
async def test_when_an_ignorable_extender_fails_to_bind_the_plugin_binds(failure: str) -> None:
    answer, _ = BIND_FAILURES[failure]
    async with (
        small_extender({"bind": answer}) as extender,
        extended(entry(extender, "bind", ignorable=True, httpTimeout=SOON)) as running,
    ):
        await running.create("Pod", pod("p"))
        await running.node_of("p")
        assert len(extender.calls) == 1


@in_virtual_time
async def test_a_pod_that_an_extender_bound_without_an_answer_stays_bound() -> None:
    """The extender binds but answers too late. By then the watch has reported the binding."""
    async with (
        small_extender({"bind": error}) as extender,
        extended(entry(extender, "bind", httpTimeout=SOON), nodes=["a"]) as running,
    ):

        async def mute(body: Body) -> None:
            await running.client.bind(
                body["PodNamespace"], body["PodName"], body["PodUID"], body["Node"]
            )
            await anyio.sleep_forever()

        extender.answers["bind"] = mute
        await running.create("Pod", pod("p", cpu="5"))
        assert await running.node_of("p") == "a"
        assert await first_event(running) == ("Scheduled", "Successfully assigned default/p to a")
        await running.create("Pod", pod("q", cpu="5"))
        assert await refused(running, "q") == (
            "Unschedulable",
            no_room(1, "1 Insufficient cpu", preemption=NO_VICTIMS),
        )
        assert len(extender.calls) == 1


# -------------------------------------------------------------------------------- managed resources


@in_virtual_time
async def test_an_extender_is_asked_only_about_pods_with_its_resources() -> None:
    """No node has the resource. NodeResourcesFit ignores it, because the extender manages it."""
    verbs = {"filter": keep("b"), "prioritize": prefer(), "bind": internal_error}
    async with small_extender(verbs) as extender:
        managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
        configured = entry(
            extender, "filter", "prioritize", "bind", managedResources=managed, ignorable=True
        )
        async with extended(configured) as running:
            await running.create("Pod", pod("p"))
            await running.node_of("p")
            assert not extender.calls
            await running.create("Pod", gpu_pod("q"))
            assert await running.node_of("q") == "b"
            assert [verb for verb, _ in extender.calls] == ["filter", "bind"]


@in_virtual_time
async def test_a_managed_resource_that_is_not_ignored_is_counted_by_the_scheduler_too() -> None:
    async with small_extender({"filter": keep("a", "b")}) as extender:
        managed = [{"name": "example.com/gpu"}]
        async with extended(entry(extender, "filter", managedResources=managed)) as running:
            await running.create("Pod", gpu_pod("p"))
            message = no_room(2, "2 Insufficient example.com/gpu")
            assert await refused(running) == ("Unschedulable", message)
            assert not extender.calls


# ------------------------------------------------------------------------------------------ explain


def explained(folder: Path, *extenders: Document, output: str = "json") -> Result:
    objects = [{"apiVersion": "v1", "kind": "Node", **node(name)} for name in ("a", "b", "c")]
    objects.append({"apiVersion": "v1", "kind": "Pod", **whole_pod("p")})
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    (folder / "config.yaml").write_text(yaml.safe_dump(document(*extenders)))
    files = ["-f", str(folder / "cluster.yaml"), "--config", str(folder / "config.yaml")]
    return CliRunner().invoke(explain, [*files, "--pod", "p", "-o", output])


async def test_explain_asks_the_extenders(tmp_path: Path) -> None:
    async with small_extender(
        {"filter": keep("a", "b", c="too dear"), "prioritize": prefer(b=10), "bind": error}
    ) as extender:
        verbs = entry(extender, "filter", "prioritize", "bind", weight=2)
        result = await anyio.to_thread.run_sync(explained, tmp_path, verbs)
        assert [verb for verb, _ in extender.calls] == ["filter", "prioritize"]
    assert result.exit_code == 0, result.output
    decision = json.loads(result.stdout)
    verdict = {"code": "Unschedulable", "plugin": "Extender", "reasons": ["too dear"]}
    cause = {"code": "ExtenderRejected", "message": "too dear", "plugin": "Extender"}
    assert decision["filter"]["c"] == {**verdict, "causes": [cause]}
    assert decision["score"]["Extender"] == {"a": 0, "b": 200}
    assert decision["total"]["b"] == decision["total"]["a"] + 200
    assert decision["hosts"] == ["b"]


async def test_explain_sends_whole_objects(tmp_path: Path) -> None:
    async with small_extender({"filter": lambda body: {"Nodes": body["Nodes"]}}) as extender:
        configured = entry(extender, "filter", nodeCacheCapable=False)
        await anyio.to_thread.run_sync(explained, tmp_path, configured)
    (body,) = extender.bodies("filter")
    assert body["Pod"]["spec"]["serviceAccountName"] == "robot"
    addresses = [item["status"]["addresses"] for item in body["Nodes"]["items"]]
    assert addresses == [NODE["status"]["addresses"]] * 3


async def test_explain_says_that_no_extender_leaves_a_node(tmp_path: Path) -> None:
    async with small_extender({"filter": keep(a="no", b="no", c="never")}) as extender:
        result = await anyio.to_thread.run_sync(explained, tmp_path, entry(extender, "filter"))
    decision = json.loads(result.stdout)
    assert decision["message"] == no_room(3, "1 never, 2 no", preemption=NO_VICTIMS)
    assert decision["hosts"] == []


@pytest.mark.parametrize("ignorable", [True, False])
async def test_explain_with_an_extender_that_fails(tmp_path: Path, ignorable: bool) -> None:
    async with small_extender({"filter": internal_error}) as extender:
        configured = entry(extender, "filter", ignorable=ignorable)
        result = await anyio.to_thread.run_sync(explained, tmp_path, configured)
    assert result.exit_code == 0, result.output
    decision = json.loads(result.stdout)
    if ignorable:
        assert decision["hosts"] == ["a", "b", "c"]
        assert "code 500" in result.stderr
    else:
        assert decision["error"].endswith("code 500")
