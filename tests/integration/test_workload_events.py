"""The events that the controllers of workloads write about them."""

from __future__ import annotations

from collections import Counter

import pytest

from berth.testing import Cluster, claim, deployment, job, stateful_set
from tests.integration.test_hollow import template, workload

pytestmark = pytest.mark.full("long")


def told(cluster: Cluster, kind: str) -> Counter[tuple[str, str, str]]:
    """Returns how often each event about objects of a kind happened: component, reason, message."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for event in cluster.all("Event"):
        if event["involvedObject"]["kind"] == kind:
            reported = event["source"]["component"], event["reason"], event["message"]
            counts[reported] += event["count"]
    return counts


@pytest.mark.cluster(nodes=6)
async def test_a_deployment_tells_how_it_scales(cluster: Cluster) -> None:
    await cluster.add(deployment("web", replicas=40))
    await cluster.settled()
    assert cluster.pod("web").running()
    (old,) = (each["metadata"]["name"] for each in cluster.all("ReplicaSet"))
    of_deployment = "deployment-controller", "ScalingReplicaSet"
    up = {(*of_deployment, f"Scaled up replica set {old} from 0 to 40"): 1}
    assert told(cluster, "Deployment") == up
    pods = set(cluster.pod("web").names)
    created = told(cluster, "ReplicaSet")
    assert {(who, why) for who, why, _ in created} == {
        ("replicaset-controller", "SuccessfulCreate")
    }
    messages = sorted(created, key=lambda event: event[2])
    combined, *single = [message for _, _, message in messages]
    assert combined.startswith("(combined from similar events): Created pod: web-")
    assert len(single) == 9
    assert {message.removeprefix("Created pod: ") for message in single} < pods
    assert created[messages[0]] == 16, "there are 25 writes for a ReplicaSet"

    spec = {"replicas": 4, "template": template("web", "nginx:2")}
    await cluster.patch("Deployment", "web", {"spec": spec})
    await cluster.settled()
    assert len(cluster.pod("web")) == 4
    scaled = [message for _, _, message in told(cluster, "Deployment")]
    new = next(
        each["metadata"]["name"]
        for each in cluster.all("ReplicaSet")
        if each["metadata"]["name"] != old
    )
    assert scaled[1] == f"Scaled down replica set {old} from 40 to 4"
    assert scaled[2] == f"Scaled up replica set {new} from 0 to 1"
    assert any(message.endswith(f"replica set {old} from 1 to 0") for message in scaled)


@pytest.mark.cluster(nodes=2)
async def test_other_workloads_tell_about_their_pods(cluster: Cluster) -> None:
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", **workload("DaemonSet", "agent")}
    await cluster.add(stateful_set("db", claims=[claim("data")]), daemons)
    await cluster.settled()
    assert len(cluster.pods()) == 3
    await cluster.scale("StatefulSet", "db", 0)
    await cluster.settled()
    successful = "Pod db-0 in StatefulSet db success"
    assert told(cluster, "StatefulSet") == {
        ("statefulset-controller", reason, message): 1
        for reason, message in (
            ("SuccessfulCreate", f"Create Claim data-db-0 {successful}"),
            ("SuccessfulCreate", f"Create {successful}ful"),
            ("SuccessfulDelete", f"Delete {successful}ful"),
        )
    }
    assert told(cluster, "DaemonSet") == {
        ("daemonset-controller", "SuccessfulCreate", f"Created pod: {name}"): 1
        for name in cluster.pods().names
    }


@pytest.mark.cluster(nodes=2)
async def test_jobs_tell_their_end(cluster: Cluster) -> None:
    suspended = job("j")
    suspended["spec"]["suspend"] = True
    await cluster.add(suspended)
    await cluster.until(lambda: cluster.events("Suspended"))
    await cluster.patch("Job", "j", {"spec": {"suspend": False}})
    await cluster.until(lambda: cluster.events("Completed"))
    (name,) = cluster.pod("j").names
    of_job = "job-controller"
    assert told(cluster, "Job") == {
        (of_job, "Suspended", "Job suspended"): 1,
        (of_job, "Resumed", "Job resumed"): 1,
        (of_job, "SuccessfulCreate", f"Created pod: {name}"): 1,
        (of_job, "Completed", "Job completed"): 1,
    }
