"""What objects use of quotas, and which scopes they are in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.tools.kubernetes.api.rules.fields import COMPUTE
from berth.tools.kubernetes.api.types.amounts import Sums
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.quota_usage import (
    counts_kind,
    extended_requests,
    is_in_scope,
    unspecified,
)
from berth.tools.kubernetes.api.writes.quota_usage import (
    object_usage as usage_at,
)
from tests.kit.cases import documents
from tests.kit.documents import Document

PODS, CLAIMS = BY_KIND["v1", "Pod"], BY_KIND["v1", "PersistentVolumeClaim"]
DEVICES = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]


def object_usage(kind: Kind, document: Document) -> Sums:
    return usage_at(kind, document, datetime.now(UTC))


def texts(amounts: Sums) -> dict[str, str]:
    return {name: amount.text() for name, amount in amounts.items()}


def container(name: str = "c", **resources: Any) -> Document:
    return {"name": name, "resources": resources}


def pod(*containers: Document, status: Document | None = None, **spec: Any) -> Document:
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": list(containers), **spec},
        "status": status or {},
    }


def test_a_pod_uses_its_requests_and_limits_with_overhead() -> None:
    first = container(
        requests={"cpu": "500m", "memory": "1Gi", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"},
        limits={"cpu": "1", "ephemeral-storage": "1G"},
    )
    second = container("d", requests={"cpu": "700m", "ephemeral-storage": "1M", "odd": "1"})
    init = container("i", requests={"cpu": "1", "memory": "3Gi"})
    used = texts(
        object_usage(PODS, pod(first, second, initContainers=[init], overhead={"cpu": "100m"}))
    )
    assert used == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1300m",
        "requests.cpu": "1300m",
        "limits.cpu": "1100m",
        "memory": "3Gi",
        "requests.memory": "3Gi",
        "ephemeral-storage": "1M",
        "requests.ephemeral-storage": "1M",
        "limits.ephemeral-storage": "1G",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.example.com/gpu": "1",
    }


def test_the_requests_of_the_whole_pod_replace_those_of_its_containers() -> None:
    own = {"requests": {"cpu": "3"}, "limits": {"memory": "2Gi"}}
    used = texts(object_usage(PODS, pod(container(requests={"cpu": "1"}), resources=own)))
    assert (used["requests.cpu"], used["limits.memory"]) == ("3", "2Gi")


@pytest.mark.parametrize(
    ("status", "amount"),
    documents("""
phase: Succeeded => none
phase: Failed => none
phase: Running => 1
containerStatuses: [{name: c, resources: {requests: {cpu: 2}}}] => 2
containerStatuses: [{name: c, resources: {requests: {cpu: 500m}}}] => 1
{containerStatuses: [{name: c, resources: {requests: {cpu: 500m}},
    allocatedResources: {cpu: 600m}}],
    conditions: [{type: PodResizePending, reason: Infeasible}]} => 600m
"""),
)
def test_a_pod_uses_what_it_has_and_what_it_should_have(status: Document, amount: str) -> None:
    used = texts(object_usage(PODS, pod(container(requests={"cpu": "1"}), status=status)))
    assert used.get("requests.cpu", "none") == amount
    assert used["count/pods"] == "1"


@pytest.mark.parametrize(("grace", "is_charged"), [(0, False), (10**9, True)])
def test_a_pod_that_should_be_gone_is_not_charged(grace: int, is_charged: bool) -> None:
    document = pod(container())
    document["metadata"] |= {
        "deletionTimestamp": "2020-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": grace,
    }
    assert ("pods" in object_usage(PODS, document)) is is_charged


def test_each_container_must_specify_what_is_limited() -> None:
    spec = pod(container("a", requests={"cpu": "1"}), container("b"), initContainers=[container()])
    names = frozenset(("requests.cpu", "limits.memory", "pods"))
    expected = "limits.memory for: a,b,c; requests.cpu for: b,c"
    assert unspecified(spec, names & COMPUTE) == expected
    spec["spec"]["resources"] = {"requests": {"cpu": "1"}}
    assert unspecified(spec, names) == ""


@pytest.mark.parametrize(
    ("spec", "expected"),
    documents("""
type: ClusterIP => 1 0 0
{type: NodePort, ports: [{port: 1}, {port: 2}]} => 1 2 0
{type: LoadBalancer, ports: [{port: 1}]} => 1 1 1
{type: LoadBalancer, allocateLoadBalancerNodePorts: false,
    ports: [{port: 1}, {port: 2, nodePort: 30000}]} => 1 1 1
"""),
)
def test_a_service_uses_ports_of_nodes_and_balancers(spec: Document, expected: str) -> None:
    used = object_usage(BY_KIND["v1", "Service"], {"metadata": {}, "spec": spec})
    names = ("services", "services.nodeports", "services.loadbalancers")
    assert " ".join(used[name].text() for name in names) == expected


def test_a_claim_uses_storage_of_its_class() -> None:
    spec = {"storageClassName": "gold", "resources": {"requests": {"storage": "1.5"}}}
    used = texts(object_usage(CLAIMS, {"metadata": {}, "spec": spec}))
    assert used == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "2",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "2",
    }
    larger = {"metadata": {}, "spec": spec, "status": {"allocatedResources": {"storage": "1Gi"}}}
    assert object_usage(CLAIMS, larger)["requests.storage"].text() == "1Gi"


def test_a_device_claim_uses_the_most_devices_of_each_class() -> None:
    alternatives = [
        {"name": "a", "deviceClassName": "gpu", "count": 2},
        {"name": "b", "deviceClassName": "gpu", "count": 4},
        {"name": "c", "deviceClassName": "nic", "allocationMode": "All"},
    ]
    requests = [
        {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 3}},
        {"name": "s", "firstAvailable": alternatives},
    ]
    claim = {"metadata": {}, "spec": {"devices": {"requests": requests}}}
    assert texts(object_usage(DEVICES, claim)) == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "7",
        "nic.deviceclass.resource.k8s.io/devices": "32",
    }


def test_devices_are_extended_resources_without_what_the_pod_is_charged() -> None:
    devices = object_usage(
        DEVICES,
        {
            "metadata": {},
            "spec": {
                "devices": {
                    "requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 3}}]
                }
            },
        },
    )
    classes = {"c": devices["c.deviceclass.resource.k8s.io/devices"]}
    of_pod = object_usage(PODS, pod(container(requests={"example.com/gpu": "2"})))
    implicit = "requests.deviceclass.resource.kubernetes.io/c"
    assert texts(extended_requests(classes, lambda _: "", {})) == {implicit: "3"}
    assert texts(extended_requests(classes, lambda _: "example.com/gpu", of_pod)) == {
        implicit: "3",
        "requests.example.com/gpu": "1",
    }


@pytest.mark.parametrize(
    ("name", "is_counted"),
    [
        ("count/pods", True),
        ("count/services", False),
        ("limits.cpu", True),
        ("requests.storage", False),
        ("requests.hugepages-2Mi", True),
        ("requests.example.com/gpu", True),
        ("requests.kubernetes.io/gpu", False),
        ("requests.deviceclass.resource.kubernetes.io/gpu", True),
        ("example.com/gpu", False),
    ],
)
def test_amounts_of_pods(name: str, is_counted: bool) -> None:
    assert counts_kind(PODS, name) is is_counted


@pytest.mark.parametrize(
    ("scope", "spec", "matches"),
    documents("""
{scopeName: Terminating, operator: Exists} => activeDeadlineSeconds: 5 => yes
{scopeName: NotTerminating, operator: Exists} => activeDeadlineSeconds: 5 => no
{scopeName: NotTerminating, operator: Exists} => {} => yes
{scopeName: BestEffort, operator: Exists} => {} => yes
{scopeName: NotBestEffort, operator: Exists} => {} => no
{scopeName: PriorityClass, operator: Exists} => {} => no
{scopeName: PriorityClass, operator: Exists} => priorityClassName: high => yes
{scopeName: PriorityClass, operator: DoesNotExist} => {} => yes
{scopeName: PriorityClass, operator: In, values: [low]} => priorityClassName: high => no
{scopeName: PriorityClass, operator: NotIn, values: [low]} => priorityClassName: high => yes
{scopeName: CrossNamespacePodAffinity, operator: Exists} => {affinity: {podAntiAffinity:
    {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}]}}} => no
{scopeName: CrossNamespacePodAffinity, operator: Exists} => {affinity: {podAntiAffinity:
    {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, namespaces: [a]}]}}} => yes
{scopeName: CrossNamespacePodAffinity, operator: Exists} => {affinity: {podAffinity:
    {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm:
    {topologyKey: z, namespaceSelector: {}}}]}}} => yes
{scopeName: VolumeAttributesClass, operator: Exists} => {} => no
"""),
)
def test_the_scopes_of_a_pod(scope: Document, spec: Document, matches: str) -> None:
    assert is_in_scope(PODS, pod(container(), **spec), scope) is (matches == "yes")


@pytest.mark.parametrize(
    ("scope", "claim", "matches"),
    documents("""
operator: Exists => {} => no
operator: Exists => spec: {volumeAttributesClassName: gold} => yes
{operator: In, values: [gold]} => status: {currentVolumeAttributesClassName: gold} => yes
{operator: NotIn, values: [gold]} => {} => yes
{operator: In, values: [gold]} =>
    status: {modifyVolumeStatus: {targetVolumeAttributesClassName: gold}} => yes
{operator: In, values: [gold]} => spec: {volumeAttributesClassName: slow} => no
"""),
)
def test_the_scope_of_a_claim(scope: Document, claim: Document, matches: str) -> None:
    named = {"scopeName": "VolumeAttributesClass", **scope}
    assert is_in_scope(CLAIMS, {"metadata": {}, **claim}, named) is (matches == "yes")
    assert not is_in_scope(BY_KIND["v1", "Secret"], {"metadata": {}, **claim}, named)
