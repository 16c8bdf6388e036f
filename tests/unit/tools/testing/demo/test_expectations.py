"""What a demo waits for, and what it knows not to happen any more."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.expectations import Expectations, Wait
from tests.kit.documents import Document
from tests.unit.tools.testing.demo.test_placements import pod

CLASS = {
    "metadata": {"name": "late", "uid": "late"},
    "provisioner": "p",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CLAIM = {
    "metadata": {"name": "data", "namespace": "default", "uid": "data"},
    "spec": {"storageClassName": "late"},
}


CHOSEN = {
    "metadata": {
        "name": "picky",
        "namespace": "default",
        "uid": "picky",
        "annotations": {"volume.kubernetes.io/selected-node": "node-1"},
    },
    "spec": {"storageClassName": "late", "selector": {"matchLabels": {"disk": "mine"}}},
}


def workload(status: Document, conditions: list[Document] | None = None, **spec: Any) -> Document:
    return {
        "metadata": {"name": "db", "namespace": "default", "uid": "db", "generation": 1},
        "spec": spec,
        "status": {"observedGeneration": 1, "conditions": conditions or [], **status},
    }


def owned(name: str, *, ready: bool, **more: Any) -> Document:
    document = pod(name, "node-1", "Running", **more)
    document["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "uid": "db"}]
    if ready:
        document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return document


def waits(
    *objects: tuple[str, Document], undecided: tuple[str, ...] = (), due: tuple[str, ...] = ()
) -> list[Wait]:
    expectations = Expectations()
    expectations.put("Node", {**hollow_node(1), "metadata": {"name": "node-1", "uid": "n"}})
    for kind, document in objects:
        expectations.put(kind, document)
    assert expectations.are_short == any(
        "pods" in wait.text for wait in expectations.waits((), due.__contains__)
    )
    return list(expectations.waits(undecided, due.__contains__))


@pytest.mark.parametrize("moves", [True, False])
def test_a_stateful_set_waits_for_the_pod_that_is_not_ready(moves: bool) -> None:
    found = waits(
        ("StatefulSet", workload({"replicas": 2}, replicas=3)),
        ("Pod", owned("db-0", ready=True)),
        ("Pod", owned("db-1", ready=False)),
        due=("db-1",) if moves else (),
    )
    next_one = "the next is created once default/db-1 is ready"
    assert found == [Wait(f"StatefulSet default/db has 2 of 3 pods: {next_one}", moves)]


def test_a_workload_says_why_it_lacks_pods() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: few"}
    found = waits(("Deployment", workload({"replicas": 1}, [failure], replicas=3)))
    assert found == [
        Wait("Deployment default/db has 1 of 3 pods: exceeded quota: few", moves=False)
    ]


def test_a_workload_with_all_pods_or_with_an_owner_is_not_waited_for() -> None:
    child = workload({"replicas": 0}, replicas=2)
    child["metadata"]["ownerReferences"] = [{"kind": "Deployment", "uid": "x"}]
    full = workload({"replicas": 2}, replicas=2)
    assert waits(("ReplicaSet", child), ("StatefulSet", full)) == []
    over = [{"type": "Suspended", "status": "True"}]
    assert waits(("Job", workload({}, over, completions=3))) == []


@pytest.mark.parametrize(
    ("status", "moves"),
    [({"active": 1}, False), ({"failed": 1}, True), ({"failed": 1, "active": 1}, False)],
)
def test_a_job_moves_while_it_retries(status: Document, moves: bool) -> None:
    there = status.get("active", 0)
    found = waits(("Job", workload(status, completions=3)))
    assert found == [Wait(f"Job default/db has {there} of 3 pods", moves)]


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (pod("p"), "pod default/p has no node, and its scheduler has not said why"),
        (pod("p", "node-9"), "pod default/p is bound to node-9, which does not exist"),
        (
            pod("p", "node-1", volumes=[{"persistentVolumeClaim": {"claimName": "none"}}]),
            "pod default/p waits for its claim none, which does not exist",
        ),
        (
            pod("p", volumes=[{"persistentVolumeClaim": {"claimName": "picky"}}]),
            (
                "pod default/p is not bound to node-1 before its claim picky has a volume: none is "
                "made, as the claim has a selector"
            ),
        ),
        (pod("p", "node-1"), "pod default/p does not start on node-1"),
        (
            pod("p", "node-1", volumes=[{"persistentVolumeClaim": {"claimName": "data"}}]),
            (
                "pod default/p waits for its claim data, which waits until a scheduler chooses the "
                "node of the first consumer: as spec.nodeName is set, none will"
            ),
        ),
    ],
)
def test_a_pod_that_does_not_start_says_why(document: Document, text: str) -> None:
    objects: list[tuple[str, Document]] = [
        ("StorageClass", CLASS),
        ("PersistentVolumeClaim", CLAIM),
        ("PersistentVolumeClaim", CHOSEN),
        ("Pod", document),
    ]
    assert waits(*objects, undecided=("p",)) == [Wait(text, moves=False)]
    assert waits(*objects, undecided=("p",), due=("p",)) == [Wait(text, moves=True)]
