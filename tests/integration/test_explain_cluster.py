"""`berth explain` of a live cluster with nulls and with unreadable objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from berth.actors.client.rest import Connection
from berth.config.load import from_mapping
from berth.plugin import ObjectMeta, WatchedKind
from berth.tools.answers.explain.cluster_source import (
    ClusterQuestion,
    Document,
    SourceError,
    from_cluster,
    from_manifests,
    kinds_besides,
    question_about,
)
from berth.tools.answers.explain.decider import answer
from berth.tools.answers.explain.decision import Decision
from berth.tools.answers.explain.subject import Subject
from tests.integration.test_client import served
from tests.kit.daemon import node, pod
from tests.kit.devices import allocated, claim, device_class, resource_slice, using
from tests.kit.snapshots import snapshot_of

CLAIMED = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
CLAIM = {
    "metadata": {
        "name": "data",
        "namespace": "default",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    },
    "spec": {"volumeName": "pv-1"},
}
ON_A = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}
VOLUME = {
    "metadata": {"name": "pv-1"},
    "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [ON_A]}]}}},
}


def asked_in(documents: list[Document]) -> ClusterQuestion:
    return question_about(Subject.parse("asked"), documents, from_mapping(None))


async def test_nulls_are_absent_and_unreadable_objects_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fine, broken, nameless = node("fine"), node("broken"), node("nameless")
    fine["status"]["images"] = [{"names": None}]
    broken["status"]["allocatable"] = {"cpu": "plenty"}
    nameless["metadata"] = None
    subject = pod("asked", tolerations=None)
    items = {"/api/v1/nodes": [fine, broken, nameless], "/api/v1/pods": [subject]}

    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        kind: list[Any] | None = items.get(request.path)
        return web.json_response({"metadata": {}, "items": kind})

    async with served(listed) as url:
        question = asked_in(await from_cluster(Connection(url)))
    decision = answer(question).decision
    assert isinstance(decision, Decision)
    assert decision.hosts == ["fine"]
    told = capsys.readouterr().err
    assert (
        "a Node cannot be read and is left out: status.allocatable[cpu]: expected a quantity"
        in told
    )
    assert "a Node cannot be read and is left out: metadata.name: expected a name" in told


async def decided(served_items: Mapping[str, Any]) -> Decision:
    """Returns the decision for the pod "asked" of a cluster that serves these lists alone."""

    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        items = served_items.get(request.path)
        return web.json_response({"metadata": {}, "items": items}, status=200 if items else 404)

    async with served(listed) as url:
        question = asked_in(await from_cluster(Connection(url)))
    decision = answer(question).decision
    assert isinstance(decision, Decision)
    return decision


async def test_a_kind_that_is_not_served_has_no_objects() -> None:
    items = {
        "/api/v1/nodes": [node("a"), node("b")],
        "/api/v1/pods": [pod("asked", volumes=[CLAIMED])],
        "/api/v1/persistentvolumeclaims": [CLAIM],
        "/api/v1/persistentvolumes": [VOLUME],
    }
    decision = await decided(items)
    assert decision.hosts == ["a"]


async def test_claims_and_the_devices_of_nodes() -> None:
    items = {
        "/api/v1/nodes": [node("a"), node("b")],
        "/api/v1/pods": [using(pod("asked"), "c")],
        "/apis/resource.k8s.io/v1/resourceclaims": [claim("c"), allocated("d", "a", "gpu-0")],
        "/apis/resource.k8s.io/v1/resourceslices": [
            resource_slice("a", "gpu-0"),
            resource_slice("b", "gpu-0"),
        ],
        "/apis/resource.k8s.io/v1/deviceclasses": [device_class()],
    }
    decision = await decided(items)
    assert decision.hosts == ["b"]
    assert decision.allocations is not None
    assert [device.pool for device in decision.allocations["b"]["c"].devices] == ["b"]


async def test_files_come_on_top_of_a_live_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urgent = {"metadata": {"name": "urgent"}, "value": 7}
    items = {
        "/api/v1/nodes": [node("a")],
        "/api/v1/pods": [pod("asked"), pod("other")],
        "/apis/scheduling.k8s.io/v1/priorityclasses": [urgent],
    }

    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        served = items.get(request.path)
        return web.json_response({"metadata": {}, "items": served}, status=200 if served else 404)

    file = tmp_path / "new.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: asked},"
        " spec: {priorityClassName: urgent, containers: [{name: c, image: i}]}}\n"
    )
    async with served(listed) as url:
        others = kinds_besides(Subject.parse("asked"), files=True)
        live = await from_cluster(Connection(url), (), others)
    question = asked_in(from_manifests([file], (), live))
    decision = answer(question).decision
    assert isinstance(decision, Decision)
    assert decision.hosts == ["a"]
    assert question.pod["spec"]["priority"] == 7
    assert [d["metadata"]["name"] for d in question.objects if d["kind"] == "Pod"] == ["other"]
    assert capsys.readouterr().err == ""


async def test_priority_classes_may_be_forbidden(capsys: pytest.CaptureFixture[str]) -> None:
    items = {"/api/v1/nodes": [node("a")], "/api/v1/pods": [pod("asked")]}

    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        status = 403 if request.path.endswith("priorityclasses") else 404
        served = items.get(request.path)
        return web.json_response({"items": served}, status=200 if served else status)

    async with served(listed) as url:
        others = kinds_besides(Subject.parse("asked"), files=False)
        live = await from_cluster(Connection(url), (), others)
    assert sorted(document["kind"] for document in live) == ["Node", "Pod"]
    assert "PriorityClass" in capsys.readouterr().err


class Widget(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    size: int = 0


WIDGETS = WatchedKind("example.com/v1", "Widget", "/apis/example.com/v1/widgets", Widget)
GADGETS = WatchedKind("example.com/v1", "Gadget", "/apis/example.com/v1/gadgets", Widget)


async def test_kinds_that_plugins_declare(capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"metadata": {"name": "broken"}, "size": "large"}
    items = {
        "/api/v1/nodes": [node("a")],
        "/api/v1/pods": [pod("asked")],
        WIDGETS.path: [{"metadata": {"name": "w", "namespace": "ns"}, "size": 3}, broken],
    }

    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        served = items.get(request.path)
        return web.json_response({"metadata": {}, "items": served}, status=200 if served else 404)

    kinds = WIDGETS, GADGETS
    async with served(listed) as url:
        documents = await from_cluster(Connection(url), kinds)
    objects = snapshot_of(documents, set(), kinds=kinds).objects
    (widget,) = objects.every(Widget)
    assert (widget.metadata.name, widget.metadata.namespace, widget.size) == ("w", "ns", 3)
    assert "a Widget cannot be read and is left out: " in capsys.readouterr().err


def test_files_with_kinds_that_plugins_declare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n"
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, size: 3}\n"
    )
    documents = from_manifests([file], (WIDGETS,))
    (widget,) = snapshot_of(documents, set(), kinds=(WIDGETS,)).objects.every(Widget)
    assert (widget.metadata.name, widget.size) == ("w", 3)
    assert len(from_manifests([file], (GADGETS,))) == 1
    assert "left out: 1 Widget: nothing for the scheduler" in capsys.readouterr().err


async def test_a_server_without_pods_is_no_cluster() -> None:
    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({}, status=404)

    async with served(listed) as url:
        with pytest.raises(SourceError, match="Pod: "):
            await from_cluster(Connection(url))


async def test_what_is_no_object_in_a_list_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    items = {"/api/v1/nodes": [None, 4, node("fine")], "/api/v1/pods": [pod("asked"), []]}

    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"items": items.get(request.path)})

    async with served(listed) as url:
        documents = await from_cluster(Connection(url))
    assert [each["metadata"]["name"] for each in documents] == ["asked", "fine"]
    told = capsys.readouterr().err
    for kind, shown in (("Node", "None"), ("Node", "4"), ("Pod", "[]")):
        expected = f"a {kind} cannot be read and is left out: expected an object, got {shown}\n"
        assert expected in told


@pytest.mark.parametrize(
    ("answer", "got"),
    [({"kind": "Status", "message": "no etcd"}, "no etcd"), ({"items": {"a": 1}}, "'items'")],
)
async def test_an_answer_that_is_no_list_is_no_cluster(answer: Document, got: str) -> None:
    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(answer)

    async with served(listed) as url:
        with pytest.raises(SourceError, match=f"Pod: expected a list, got .*{got}"):
            await from_cluster(Connection(url))


@pytest.mark.parametrize("spec", ["x", {"replicas": "many"}, {"template": []}])
async def test_a_workload_that_cannot_be_read_is_left_out(
    spec: object, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    path = "/apis/apps/v1/deployments"

    async def listed(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"items": [workload] * (request.path == path)})

    async with served(listed) as url:
        others = kinds_besides(Subject.parse("deployment/web"), files=False)
        assert await from_cluster(Connection(url), (), others) == []
    assert "a Deployment cannot be read and is left out: " in capsys.readouterr().err
