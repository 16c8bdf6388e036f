"""The rows of nodes and pods."""

from __future__ import annotations

from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.reading import Reader
from berth.config.feature_gates import defaults_of
from berth.config.versions import VERSIONS
from berth.tools.answers.feed.rows import node_row, pod_row, pod_rows

POD = {
    "metadata": {
        "name": "web-5d4-x",
        "namespace": "shop",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"pod-template-hash": "5d4"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d4", "controller": True}],
    },
    "spec": {
        "nodeName": "node-1",
        "priority": 7,
        "containers": [{"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}],
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:03Z",
            }
        ],
    },
}


def test_a_pod_has_its_deployment_its_requests_and_its_times() -> None:
    row = pod_row(Reader(Pod).convert(POD))
    assert (row.key, row.node, row.workload) == ("shop/web-5d4-x", "node-1", "shop/web")
    assert row.requests == {"cpu": 250, "memory": 1 << 30, "pods": 1}
    assert (row.scheduled - row.created, row.priority, row.message) == (3.0, 7, "")


def test_a_pod_that_is_resized_requests_what_the_version_counts() -> None:
    reported = [
        {"name": name, "resources": {"requests": {"cpu": cpu}}}
        for name, cpu in (("a", 1), ("b", 5))
    ]
    containers = [
        {"name": name, "resources": {"requests": {"cpu": cpu}}}
        for name, cpu in (("a", 5), ("b", 1))
    ]
    document = {
        "metadata": {"name": "p"},
        "spec": {"containers": containers},
        "status": {"containerStatuses": reported},
    }
    rows = [pod_rows(defaults_of(VERSIONS[minor]))(document) for minor in (36, 37)]
    assert [row and row.requests["cpu"] for row in rows] == [10_000, 6000]


def test_a_finished_pod_requests_nothing() -> None:
    assert not pod_row(Reader(Pod).convert({**POD, "status": {"phase": "Succeeded"}})).requests


def test_a_pending_pod_has_the_scheduler_s_message_and_is_its_own_workload() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    pod = {
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"containers": []},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    row = pod_row(Reader(Pod).convert(pod))
    assert (row.workload, row.message, row.scheduled) == ("b/a", "0/3 nodes are available", 0.0)


def test_a_node_has_its_taints_cordon_and_problems() -> None:
    node = {
        "metadata": {"name": "n"},
        "spec": {
            "unschedulable": True,
            "taints": [{"key": "a", "value": "b", "effect": "NoExecute"}, {"key": "c"}],
        },
        "status": {
            "allocatable": {"cpu": "1500m", "pods": "10"},
            "conditions": [
                {"type": "Ready", "status": "Unknown"},
                {"type": "DiskPressure", "status": "True"},
                {"type": "PIDPressure", "status": "False"},
            ],
        },
    }
    row = node_row(Reader(Node).convert(node))
    assert row.taints == ("a=b:NoExecute", "c:")
    assert (row.cordoned, row.problems) == (True, ("NotReady", "DiskPressure"))
    assert row.allocatable == {"cpu": 1500, "pods": 10}
