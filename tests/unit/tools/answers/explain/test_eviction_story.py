"""Who made a pod leave its node, why, and where its replacement is."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.answers.explain.eviction_story import eviction
from tests.kit import documents
from tests.kit.documents import Document

AT = "2026-01-01T00:01:00Z"
OWNER = {"kind": "ReplicaSet", "name": "web", "uid": "owner", "controller": True}
LOW = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 62448678. "
    "Container app was using 34297290138, request is 1Gi, has larger consumption of memory. "
)


def pod(name: str, node: str = "", created: str = AT, **status: Any) -> Document:
    about = {"creationTimestamp": created, "ownerReferences": [OWNER]}
    return documents.pod(name, node=node, metadata=about, status=status)


def disrupted(reason: str, message: str, /, **status: Any) -> Document:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT,
    }
    return pod("gone", "node-1", "2026-01-01T00:00:00Z", conditions=[condition], **status)


WHO = [
    (
        disrupted("TerminationByKubelet", LOW, phase="Failed", reason="Evicted", message=LOW),
        f"was ended by the kubelet of node-1 (Evicted) at {AT}: {LOW.strip(' .')}",
    ),
    (
        disrupted("EvictionByEvictionAPI", "Eviction API: evicting", phase="Running"),
        (
            f"was evicted from node-1 through the API, as by kubectl drain, at {AT}: "
            "Eviction API: evicting"
        ),
    ),
    (
        disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
        (
            f"was evicted from node-1 by the taint eviction controller at {AT}: "
            "Taint manager: deleting due to NoExecute taint"
        ),
    ),
    (
        disrupted("PreemptionByScheduler", "default-scheduler: preempting"),
        f"was preempted on node-1 by the scheduler at {AT}: default-scheduler: preempting",
    ),
    (
        disrupted("DeletionByPodGC", "PodGC: node no longer exists", phase="Failed"),
        f"was deleted by the pod garbage collector at {AT}: PodGC: node no longer exists",
    ),
    (disrupted("Other", "", phase="Failed"), f"was disrupted (Other) at {AT}"),
    (
        pod(
            "gone",
            "node-1",
            phase="Failed",
            reason="OutOfcpu",
            startTime=AT,
            message="Pod was rejected: Node didn't have enough resource: cpu, requested: 900",
        ),
        (
            f"was rejected by the kubelet of node-1 (OutOfcpu) at {AT}: "
            "Node didn't have enough resource: cpu, requested: 900"
        ),
    ),
    (
        pod(
            "gone",
            "node-1",
            phase="Failed",
            reason="Evicted",
            message='Usage of EmptyDir volume "data" exceeds the limit "100Mi". ',
            conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": AT}],
        ),
        (
            f"was ended by the kubelet of node-1 (Evicted) at {AT}: "
            'Usage of EmptyDir volume "data" exceeds the limit "100Mi"'
        ),
    ),
]


@pytest.mark.parametrize(("gone", "sentence"), WHO)
def test_who_evicted_a_pod_and_why(gone: Document, sentence: str) -> None:
    assert eviction(gone, [])[0] == sentence


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        {"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "False"}]},
    ],
)
def test_other_pods_did_not_have_to_leave(status: Document) -> None:
    assert eviction(pod("p", "node-1", **status), []) == []


EARLIER = "2026-01-01T00:00:30Z"
REPLACEMENTS = [
    ([pod("b", "node-2")], "was replaced by b (elsewhere, on node-2)"),
    ([pod("b", "node-1")], "was replaced by b (back on node-1)"),
    ([pod("b")], "was replaced by b (without a node yet)"),
    ([], "has no replacement yet: ReplicaSet web has created no pod since"),
    (
        [pod("b", "node-2", EARLIER)],
        "has no replacement yet: ReplicaSet web has created no pod since",
    ),
    (
        [pod("c", "node-2"), pod("b", "node-1")],
        (
            "was replaced by one of the pods that ReplicaSet web has created since: "
            "b (back on node-1), c (elsewhere, on node-2)"
        ),
    ),
]


@pytest.mark.parametrize(("others", "sentence"), REPLACEMENTS)
def test_where_the_replacement_is(others: list[Document], sentence: str) -> None:
    gone = disrupted("TerminationByKubelet", LOW, phase="Failed", reason="Evicted", message=LOW)
    of_others = pod("x", "node-3")
    of_others["metadata"]["ownerReferences"] = [{**OWNER, "uid": "other"}]
    assert eviction(gone, [gone, of_others, *others])[1] == sentence


def test_a_pod_without_a_controller_is_not_replaced() -> None:
    gone = disrupted("EvictionByEvictionAPI", "")
    gone["metadata"]["ownerReferences"] = []
    assert eviction(gone, [pod("b", "node-2")])[1] == (
        "has no replacement, because no controller owns it"
    )


def budget(name: str, app: str, namespace: str = "default") -> Document:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0},
    }


def test_an_eviction_through_the_api_has_the_numbers_of_its_budget() -> None:
    gone = disrupted("EvictionByEvictionAPI", "Eviction API: evicting", phase="Running")
    gone["metadata"]["labels"] = {"app": "web"}
    before = f"was evicted from node-1 through the API, as by kubectl drain, at {AT}: "
    budgets = [budget("web", "web"), budget("db", "db"), budget("far", "web", "other")]
    now = "the budget web now has 2 healthy pods, needs 2 and allows 0 disruptions"
    assert eviction(gone, budgets)[0] == before + now
    then = "ann asked for it; the budget web had 3 healthy pods, needed 2"
    gone["metadata"]["annotations"] = {"berth.dev/eviction": then}
    assert eviction(gone, budgets)[0] == before + then


@pytest.mark.parametrize(
    ("tolerations", "why"),
    [
        ([], "the taint key=value:NoExecute since 2026-01-01T00:00:30Z, not tolerated"),
        (
            [{"key": "key", "operator": "Exists", "tolerationSeconds": 20}],
            "the taint key=value:NoExecute since 2026-01-01T00:00:30Z, tolerated for 20 seconds",
        ),
        ([{"key": "key", "operator": "Exists"}], "Taint manager: deleting"),
    ],
)
def test_an_eviction_by_taints_names_them(tolerations: list[Document], why: str) -> None:
    gone = disrupted("DeletionByTaintManager", "Taint manager: deleting", phase="Running")
    gone["spec"]["tolerations"] = tolerations
    taint = {"key": "key", "value": "value", "effect": "NoExecute"}
    taints = [{**taint, "timeAdded": "2026-01-01T00:00:30Z"}, {"key": "x", "effect": "NoSchedule"}]
    node = {"kind": "Node", "metadata": {"name": "node-1"}, "spec": {"taints": taints}}
    assert eviction(gone, [node])[0].endswith(f"controller at {AT}: {why}")
