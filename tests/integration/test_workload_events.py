"""The events that the controllers of workloads write about them."""

from __future__ import annotations

from collections import Counter

from tests.integration.test_hollow import rolled_out, template, workload
from tests.kit.cluster import Cluster, toy_cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time


async def told(running: Cluster, kind: str) -> Counter[tuple[str, str, str]]:
    """Returns how often each event about objects of a kind happened: component, reason, message."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for event in await running.all("Event"):
        if event["involvedObject"]["kind"] == kind:
            reported = event["source"]["component"], event["reason"], event["message"]
            counts[reported] += event["count"]
    return counts


async def until_told(running: Cluster, reason: str) -> None:
    await running.until_all("Event", lambda all_: any(e["reason"] == reason for e in all_))


@in_long_virtual_time
async def test_a_deployment_tells_how_it_scales() -> None:
    async with toy_cluster(6) as running:
        await running.create("Deployment", workload("Deployment", "web", replicas=40))
        await running.status("Deployment", "web", rolled_out(40))
        (old,) = (each["metadata"]["name"] for each in await running.all("ReplicaSet"))
        deployment = "deployment-controller", "ScalingReplicaSet"
        up = {(*deployment, f"Scaled up replica set {old} from 0 to 40"): 1}
        assert await told(running, "Deployment") == up
        pods = {pod["metadata"]["name"] for pod in await running.all("Pod")}
        created = await told(running, "ReplicaSet")
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
        await running.patch("Deployment", "web", {"spec": spec})
        await running.status("Deployment", "web", rolled_out(4))
        await running.until_all("Pod", lambda pods: len(pods) == 4)
        scaled = [message for _, _, message in await told(running, "Deployment")]
        new = next(
            each["metadata"]["name"]
            for each in await running.all("ReplicaSet")
            if each["metadata"]["name"] != old
        )
        assert scaled[1] == f"Scaled down replica set {old} from 40 to 4"
        assert scaled[2] == f"Scaled up replica set {new} from 0 to 1"
        assert any(message.endswith(f"replica set {old} from 1 to 0") for message in scaled)


@in_long_virtual_time
async def test_other_workloads_tell_about_their_pods() -> None:
    async with toy_cluster(2) as running:
        claims = [
            {
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
        ]
        spec: Document = {"replicas": 1, "serviceName": "db", "volumeClaimTemplates": claims}
        await running.create("StatefulSet", workload("StatefulSet", "db", **spec))
        await running.create("DaemonSet", workload("DaemonSet", "agent"))
        await running.until_all("Pod", lambda pods: len(pods) == 3)
        await running.patch("StatefulSet", "db", {"spec": {"replicas": 0}})
        await running.until_all("Pod", lambda pods: len(pods) == 2)
        await until_told(running, "SuccessfulDelete")
        successful = "Pod db-0 in StatefulSet db success"
        assert await told(running, "StatefulSet") == {
            ("statefulset-controller", reason, message): 1
            for reason, message in (
                ("SuccessfulCreate", f"Create Claim data-db-0 {successful}"),
                ("SuccessfulCreate", f"Create {successful}ful"),
                ("SuccessfulDelete", f"Delete {successful}ful"),
            )
        }
        daemons = {pod["metadata"]["name"] for pod in await running.all("Pod")}
        assert await told(running, "DaemonSet") == {
            ("daemonset-controller", "SuccessfulCreate", f"Created pod: {name}"): 1
            for name in daemons
        }


@in_long_virtual_time
async def test_jobs_tell_their_end() -> None:
    async with toy_cluster(2) as running:
        quick = template("j", restartPolicy="Never")
        quick["metadata"]["annotations"] = {"berth.dev/run-seconds": "0.1"}
        spec = {"parallelism": 1, "completions": 1, "suspend": True}
        await running.create("Job", workload("Job", "j", quick, **spec))
        await until_told(running, "Suspended")
        await running.patch("Job", "j", {"spec": {"suspend": False}})
        await until_told(running, "Completed")
        (pod,) = await running.all("Pod")
        of_job = "job-controller"
        assert await told(running, "Job") == {
            (of_job, "Suspended", "Job suspended"): 1,
            (of_job, "Resumed", "Job resumed"): 1,
            (of_job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}"): 1,
            (of_job, "Completed", "Job completed"): 1,
        }
