"""Faults of kube-scheduler 1.36.2 that berth does not have: those of docs/differences.md that a
single decision shows.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden.test_decisions import decided
from tests.kit import documents
from tests.kit.documents import Document, thing

HOST = "kubernetes.io/hostname"
NOT_TEAM_A = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["team-a"]}
NO_TENANT = {"key": "tenant", "operator": "DoesNotExist"}


def node(name: str, **labels: str) -> Document:
    return documents.node(name, pods="20", labels={HOST: name, **labels})


def namespace(name: str, **labels: str) -> Document:
    labels = {"kubernetes.io/metadata.name": name, **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(name: str, where: str = "default", labels: Document | None = None, **spec: Any) -> Document:
    return documents.pod(name, "1", namespace=where, labels=labels, **spec)


def decision(objects: list[Document], incoming: Document) -> Document:
    return decided({"config": None, "objects": objects, "pod": incoming})


@pytest.mark.parametrize("requirement", [NOT_TEAM_A, NO_TENANT])
@pytest.mark.parametrize("kind", ["podAntiAffinity", "podAffinity"])
@pytest.mark.parametrize("number", [1, 70])  # very many terms are counted in another way
def test_a_namespace_selector_excludes_a_namespace(
    requirement: Document, kind: str, number: int
) -> None:
    term = {
        "topologyKey": HOST,
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "namespaceSelector": {"matchExpressions": [requirement]},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * number}
    weighted = [{"weight": 100, "podAffinityTerm": term}] * number
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    objects = [
        node("n1"),
        node("n2"),
        namespace("team-a", tenant="yes"),
        namespace("team-b"),
        pod("in-a", "team-a", {"app": "x"}, nodeName="n1"),
        pod("in-b", "team-b", {"app": "x"}, nodeName="n2"),
    ]
    apart = kind == "podAntiAffinity"
    got = decision(objects, pod("p", "team-a", affinity={kind: required}))
    assert sorted(got["total"]) == (["n1"] if apart else ["n2"])
    scores = decision(objects, pod("p", "team-a", affinity={kind: preferred}))["score"]
    of = scores["InterPodAffinity"]
    assert (of["n1"] > of["n2"]) == apart


def test_an_empty_selector_spreads_all_pods_of_the_namespace() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }
    objects = [
        node("a", zone="a"),
        node("b", zone="b"),
        namespace("default"),
        pod("one", nodeName="a"),
        pod("two", nodeName="a", labels={"app": "x"}),
        pod("other", "elsewhere", nodeName="b"),
    ]
    got = decision(objects, pod("p", topologySpreadConstraints=[constraint]))
    assert sorted(got["total"]) == ["b"]
    # Without a selector, the constraint counts no pod.
    del constraint["labelSelector"]
    got = decision(objects, pod("p", topologySpreadConstraints=[constraint]))
    assert sorted(got["total"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("selector", "violations"),
    [({}, 2), ({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, 2), (None, 0)],
)
def test_an_empty_selector_of_a_budget_covers_all_pods(
    selector: Document | None, violations: int
) -> None:
    budget = thing(
        "PodDisruptionBudget", "all", spec={"selector": selector}, status={"disruptionsAllowed": 0}
    )
    big = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    objects = [
        node("n"),
        budget,
        pod("labelled", labels={"app": "x"}, nodeName="n", containers=[big]),
        pod("plain", nodeName="n", containers=[big]),
    ]
    huge = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}
    got = decision(objects, pod("p", containers=[huge], priority=10))
    victims = got["preemption"]["candidates"]["n"]
    assert victims["pdbViolations"] == violations


def slices(name: str, count: int, *devices: str) -> Document:
    return thing(
        "ResourceSlice",
        name,
        spec={
            "driver": "gpu.example.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": count},
            "devices": [{"name": device} for device in devices],
        },
    )


@pytest.mark.parametrize(
    ("bad", "state"),
    [
        (slices("bad", 2, "a", "b"), "currently being updated"),
        (slices("bad", 1, "a", "a"), "currently invalid"),
    ],
)
def test_a_pool_that_is_not_ready_rejects_its_node_alone(bad: Document, state: str) -> None:
    api = {"apiVersion": "resource.k8s.io/v1"}
    every = {"deviceClassName": "gpu", "allocationMode": "All"}
    objects = [
        node("bad"),
        node("good"),
        bad,
        slices("good", 1, "a", "b"),
        {**api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {
            **api,
            "kind": "ResourceClaim",
            "metadata": {"name": "all", "namespace": "default", "uid": "claim"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": every}]}},
        },
    ]
    got = decision(objects, pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "all"}]))
    assert sorted(got["total"]) == ["good"]
    request = "claim default/all, request r"
    waits = f"{request}: asks for all devices, but resource pool gpu.example.com/bad is {state}"
    assert got["filter"]["bad"]["reasons"] == [waits]
