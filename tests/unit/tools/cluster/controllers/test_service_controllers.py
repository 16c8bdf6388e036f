"""The endpoints of services and their slices: what is written for which pods, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.actors.scheduling.kube.meta import HasMetadata
from berth.tools.cluster.controllers.controller_table import ControllerTable
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.object_index import ObjectChange, ObjectIndex
from berth.tools.kubernetes.objects.services import Endpoints, EndpointSlice, Service
from berth.tools.kubernetes.objects.structs import Node, Pod, read
from berth.tools.kubernetes.objects.writes import Create, Delete, Patch, Write
from berth.tools.kubernetes.work_items import Item
from tests.kit.documents import Document

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BORN = "2026-01-01T00:00:00Z"
NAMES = {"endpoints", "endpoint-slices", "endpoint-slice-mirroring"}
TABLE = ControllerTable(lambda: NOW, names=NAMES)
KINDS: dict[type[HasMetadata], str] = {Service: "v1", Endpoints: "v1"}
WEB = {"app": "web"}


def metadata(name: str, **more: Any) -> Document:
    return {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": BORN,
        **more,
    }


def pod(name: str, ip: str, *, ready: bool = True, labels: Document = WEB, **more: Any) -> Pod:
    ports = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    spec = {"nodeName": "node", "containers": [{"name": "c", "ports": ports}]}
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": BORN}
    status = {"podIPs": [{"ip": ip}] if ip else [], "conditions": [condition], "phase": "Running"}
    document = {
        "metadata": metadata(name, labels=labels, **more.pop("metadata", {})),
        "spec": {**spec, **more.pop("spec", {})},
        "status": {**status, **more},
    }
    return read(document, Pod)


def service(name: str = "web", labels: Document | None = None, **spec: Any) -> Service:
    whole = {
        "selector": WEB,
        "clusterIP": "10.0.0.1",
        "ipFamilies": ["IPv4"],
        "ports": [{"name": "h", "port": 80, "targetPort": "http"}],
        **spec,
    }
    document = {"metadata": metadata(name, labels=labels or {}), "spec": whole}
    return read(defaulted(BY_KIND["v1", "Service"], document), Service)


def node(zone: str = "z") -> Node:
    labels = {"topology.kubernetes.io/zone": zone}
    return read({"metadata": {**metadata("node", labels=labels), "namespace": ""}}, Node)


class Scene:
    """A node, a service `web`, and what the controllers have written."""

    def __init__(self, *objects: HasMetadata) -> None:
        self.cluster = ObjectIndex()
        self._version = 1
        for obj in (node(), *objects):
            self.cluster.put(obj)

    def writes(self, controller: str, name: str = "web") -> list[Write]:
        return TABLE.reconcile(self.cluster, Item(controller, "Service", "n", name), NOW)

    def carry_out(self, controller: str, kind: type[HasMetadata]) -> list[HasMetadata]:
        """Stores what a controller creates. Returns it."""
        made = []
        for i, write in enumerate(self.writes(controller)):
            assert isinstance(write, Create)
            self._version += 1
            named = {"name": f"{write.document['metadata'].get('generateName', 'web')}{i}"}
            place = {"uid": f"made-{i}", "resourceVersion": str(self._version)}
            own = {**named, **write.document["metadata"], **place}
            api = "v1" if kind is Endpoints else "discovery.k8s.io/v1"
            document = defaulted(BY_KIND[api, kind.__name__], {**write.document, "metadata": own})
            obj = read(document, kind)
            self.cluster.put(obj)
            made.append(obj)
        return made

    def touched(self, before: HasMetadata | None, after: HasMetadata | None) -> set[str]:
        items = TABLE.touched(self.cluster, ObjectChange(before, after))
        return {f"{item.controller} {item.name}" for item in items}


def created(writes: list[Write]) -> list[Document]:
    return [write.document for write in writes if isinstance(write, Create)]


def test_endpoints_have_ready_and_other_addresses_with_the_ports_of_the_pods() -> None:
    scene = Scene(
        service(labels={"a": "b"}),
        pod("p2", "10.1.0.2"),
        pod("p1", "10.1.0.1"),
        pod("p3", "10.1.0.3", ready=False),
        pod("other", "10.1.0.4", labels={"app": "db"}),
        pod("late", ""),
        pod("done", "10.1.0.5", phase="Succeeded"),
        pod("going", "10.1.0.6", metadata={"deletionTimestamp": BORN}),
    )
    (made,) = created(scene.writes("endpoints"))
    assert made["metadata"]["labels"] == {
        "a": "b",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    }
    assert made["metadata"]["annotations"] == {
        "endpoints.kubernetes.io/last-change-trigger-time": BORN
    }
    (subset,) = made["subsets"]
    assert [each["ip"] for each in subset["addresses"]] == ["10.1.0.1", "10.1.0.2"]
    assert subset["addresses"][0] == {
        "ip": "10.1.0.1",
        "nodeName": "node",
        "targetRef": {"kind": "Pod", "namespace": "n", "name": "p1", "uid": "uid-p1"},
    }
    assert [each["ip"] for each in subset["notReadyAddresses"]] == ["10.1.0.3"]
    assert subset["ports"] == [{"name": "h", "port": 8080, "protocol": "TCP"}]


def test_a_slice_tells_ready_serving_and_terminating_endpoints_apart() -> None:
    scene = Scene(
        service(),
        pod("p1", "10.1.0.1"),
        pod("p2", "10.1.0.2", ready=False),
        pod("p3", "10.1.0.3", metadata={"deletionTimestamp": BORN}),
    )
    (made,) = created(scene.writes("endpoint-slices"))
    assert made["metadata"]["generateName"] == "web-"
    assert made["metadata"]["labels"] == {
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Service"
    assert made["addressType"] == "IPv4"
    assert made["ports"] == [{"name": "h", "port": 8080, "protocol": "TCP"}]
    assert [(*each["conditions"].values(),) for each in made["endpoints"]] == [
        (True, True, False),
        (False, False, False),
        (False, True, True),
    ]
    assert made["endpoints"][0]["zone"] == "z"


def test_a_service_without_pods_has_an_empty_slice_and_keeps_it() -> None:
    scene = Scene(service())
    (made,) = scene.carry_out("endpoint-slices", EndpointSlice)
    assert isinstance(made, EndpointSlice)
    assert (made.endpoints, made.ports) == (None, None)
    assert scene.writes("endpoint-slices") == []


@pytest.mark.parametrize("controller", ["endpoints", "endpoint-slices"])
def test_what_is_right_is_not_written_again(controller: str) -> None:
    kind = Endpoints if controller == "endpoints" else EndpointSlice
    scene = Scene(service(), pod("p1", "10.1.0.1"), pod("p2", "10.1.0.2", ready=False))
    assert scene.carry_out(controller, kind)
    assert scene.writes(controller) == []


def test_a_change_of_a_pod_is_written_into_its_slice() -> None:
    scene = Scene(service(), pod("p1", "10.1.0.1"))
    scene.carry_out("endpoint-slices", EndpointSlice)
    scene.cluster.put(pod("p2", "10.1.0.2"))
    (write,) = scene.writes("endpoint-slices")
    assert isinstance(write, Patch)
    addresses = [each["addresses"] for each in write.body["endpoints"]]
    assert addresses == [["10.1.0.1"], ["10.1.0.2"]]


def test_a_slice_has_at_most_a_hundred_endpoints() -> None:
    pods = [pod(f"p{i:03}", f"10.1.{i // 100}.{i % 100}") for i in range(230)]
    made = created(Scene(service(), *pods).writes("endpoint-slices"))
    assert [len(each["endpoints"]) for each in made] == [100, 100, 30]


def test_pods_with_other_ports_are_in_other_slices() -> None:
    ports = [{"name": "http", "containerPort": 9090}]
    other = pod("p2", "10.1.0.2", spec={"containers": [{"name": "c", "ports": ports}]})
    made = created(Scene(service(), pod("p1", "10.1.0.1"), other).writes("endpoint-slices"))
    assert [each["ports"][0]["port"] for each in made] == [8080, 9090]


def test_a_headless_service_names_its_pods() -> None:
    named = pod("p1", "10.1.0.1", spec={"hostname": "h", "subdomain": "web"})
    scene = Scene(service(clusterIP="None", ports=[]), named)
    (made,), (slice_,) = (created(scene.writes(c)) for c in ("endpoints", "endpoint-slices"))
    assert made["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert made["subsets"][0]["addresses"][0]["hostname"] == "h"
    assert slice_["endpoints"][0]["hostname"] == "h"
    assert slice_["ports"] == []


def test_addresses_that_are_not_ready_may_be_published() -> None:
    scene = Scene(service(publishNotReadyAddresses=True), pod("p", "10.1.0.1", ready=False))
    (made,), (slice_,) = (created(scene.writes(c)) for c in ("endpoints", "endpoint-slices"))
    assert "notReadyAddresses" not in made["subsets"][0]
    assert slice_["endpoints"][0]["conditions"] == {
        "ready": True,
        "serving": False,
        "terminating": False,
    }


def test_traffic_that_stays_in_a_zone_has_hints() -> None:
    scene = Scene(service(trafficDistribution="PreferSameZone"), pod("p", "10.1.0.1"))
    (made,) = created(scene.writes("endpoint-slices"))
    assert made["endpoints"][0]["hints"] == {"forZones": [{"name": "z"}]}


@pytest.mark.parametrize("spec", [{"selector": {}}, {"type": "ExternalName"}])
def test_a_service_without_pods_of_its_own_is_left_alone(spec: Document) -> None:
    scene = Scene(service(**spec), pod("p", "10.1.0.1"))
    assert scene.writes("endpoints") == scene.writes("endpoint-slices") == []


def written_by_hand(**more: Any) -> Endpoints:
    subsets = [
        {
            "addresses": [{"ip": "10.9.0.1"}, {"ip": "fd00::1"}],
            "notReadyAddresses": [{"ip": "10.9.0.2"}],
            "ports": [{"port": 80, "protocol": "TCP"}],
        }
    ]
    return read({"metadata": metadata("web", **more), "subsets": subsets}, Endpoints)


def test_endpoints_of_a_service_without_a_selector_are_mirrored() -> None:
    scene = Scene(service(selector={}), written_by_hand(labels={"a": "b"}))
    made = created(scene.writes("endpoint-slice-mirroring"))
    assert [each["addressType"] for each in made] == ["IPv4", "IPv6"]
    assert made[0]["endpoints"] == [
        {"addresses": ["10.9.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.9.0.2"], "conditions": {"ready": False}},
    ]
    assert made[0]["metadata"]["labels"]["a"] == "b"


@pytest.mark.parametrize(
    "more", [{"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, {"selector": WEB}]
)
def test_other_endpoints_are_not_mirrored(more: Document) -> None:
    selector = more.pop("selector", {})
    scene = Scene(service(selector=selector), written_by_hand(**more))
    assert scene.writes("endpoint-slice-mirroring") == []


def test_the_endpoints_of_a_service_that_is_gone_are_deleted() -> None:
    scene = Scene(written_by_hand())
    (write,) = scene.writes("endpoints")
    assert isinstance(write, Delete)


def test_a_pod_touches_the_services_that_select_it_if_they_see_a_change() -> None:
    scene = Scene(service(), service("db", selector={"app": "db"}))
    before = pod("p", "10.1.0.1")
    both = {"endpoints web", "endpoint-slices web"}
    assert scene.touched(None, before) == both
    assert scene.touched(before, pod("p", "10.1.0.1", message="x")) == set()
    assert scene.touched(before, pod("p", "10.1.0.1", ready=False)) == both
    moved = pod("p", "10.1.0.1", labels={"app": "db"})
    assert scene.touched(before, moved) == both | {"endpoints db", "endpoint-slices db"}


def test_endpoints_of_no_service_are_left_alone() -> None:
    scene = Scene()
    assert "endpoints web" not in scene.touched(None, written_by_hand())
