"""Hollow kubelets and controllers in a toy cluster: workloads, nodes and budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from berth.actors.client.rest import ApiError
from berth.tools.cluster.controllers.controller_manager import OF_CLAIMS, run_controllers
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit import documents
from tests.kit.cluster import cluster, toy_cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

pytestmark = pytest.mark.full("long")


def template(app: str, image: str = "nginx:1", **spec: Any) -> Document:
    container = documents.container("c", "100m", image=image)
    return documents.template(app, containers=[container], **spec)


def workload(kind: str, name: str, template_: Document | None = None, **spec: Any) -> Document:
    return documents.workload(kind, name, template_ or template(name), **spec)


def rolled_out(replicas: int) -> Callable[[Document], bool]:
    """Returns the condition that `kubectl rollout status` waits for."""

    def holds(status: Document) -> bool:
        counts = {
            status.get(field)
            for field in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        }
        return counts == {replicas}

    return holds


def images(pods: list[Document]) -> Counter[str]:
    return Counter(pod["spec"]["containers"][0]["image"] for pod in pods)


@in_long_virtual_time
async def test_a_deployment_becomes_ready_spreads_scales_and_leaves_nothing() -> None:
    async with toy_cluster(6) as running:
        await running.create("Deployment", workload("Deployment", "web", replicas=100))
        web = await running.status("Deployment", "web", rolled_out(100))
        assert web["status"]["observedGeneration"] == web["metadata"]["generation"]
        conditions = {c["type"]: (c["status"], c["reason"]) for c in web["status"]["conditions"]}
        assert conditions == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        pods = await running.all("Pod")
        assert len(pods) == 100
        spread = Counter(pod["spec"]["nodeName"] for pod in pods)
        assert set(spread.values()) == {16, 17}
        assert len({pod["status"]["podIP"] for pod in pods}) == 100
        (replica_set,) = await running.all("ReplicaSet")
        label = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert replica_set["metadata"]["name"] == f"web-{label}"
        assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in pods} == {label}

        await running.patch("Deployment", "web", {"spec": {"replicas": 3}})
        await running.status("Deployment", "web", rolled_out(3))
        await running.until_all("Pod", lambda pods: len(pods) == 3)

        await running.delete("Deployment", "web")
        await running.until_all("Pod", lambda pods: not pods)
        assert not await running.all("ReplicaSet")


@in_long_virtual_time
async def test_a_rolling_update_keeps_enough_pods_and_rolls_back() -> None:
    async with toy_cluster(6) as running:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
        await running.create(
            "Deployment", workload("Deployment", "web", replicas=10, strategy=strategy)
        )
        await running.status("Deployment", "web", rolled_out(10))
        await running.patch("Deployment", "web", {"spec": {"template": template("web", "nginx:2")}})
        least, most = 10, 10
        with anyio.fail_after(20):
            while images(pods := await running.all("Pod")) != {"nginx:2": 10}:
                # a pod that is being deleted no longer counts
                alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
                least = min(least, sum(pod["status"]["phase"] == "Running" for pod in alive))
                # the surge limits the replicas of the specs: one set may have pods before another
                # has deleted its own
                most = max(
                    most,
                    sum(each["spec"]["replicas"] for each in await running.all("ReplicaSet")),
                )
                await anyio.sleep(0.01)
        assert least == 10
        assert most <= 12
        web = await running.status("Deployment", "web", rolled_out(10))
        assert web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        assert len(await running.all("ReplicaSet")) == 2

        await running.patch("Deployment", "web", {"spec": {"template": template("web", "nginx:1")}})
        await running.until_all("Pod", lambda pods: images(pods) == {"nginx:1": 10})
        web = await running.status("Deployment", "web", rolled_out(10))
        assert web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        assert len(await running.all("ReplicaSet")) == 2


@in_long_virtual_time
async def test_recreate_ends_the_old_pods_first() -> None:
    async with toy_cluster(2) as running:
        await running.create(
            "Deployment", workload("Deployment", "web", replicas=4, strategy={"type": "Recreate"})
        )
        await running.status("Deployment", "web", rolled_out(4))
        await running.patch("Deployment", "web", {"spec": {"template": template("web", "nginx:2")}})
        with anyio.fail_after(20):
            while images(pods := await running.all("Pod")) != {"nginx:2": 4}:
                assert len(images(pods)) <= 1, "a pod that ends still runs"
                await anyio.sleep(0.01)
        await running.status("Deployment", "web", rolled_out(4))


@in_virtual_time
async def test_a_job_completes() -> None:
    async with toy_cluster(2) as running:
        quick = template("j", restartPolicy="Never")
        quick["metadata"]["annotations"] = {"berth.dev/run-seconds": "0.1"}
        await running.create("Job", workload("Job", "j", quick, parallelism=2, completions=5))
        job = await running.status("Job", "j", lambda status: status.get("succeeded") == 5)
        assert {c["type"]: c["status"] for c in job["status"]["conditions"]}["Complete"] == "True"
        assert job["status"]["active"] == 0
        pods = await running.all("Pod")
        assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 5
        assert {pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in pods} == {"j"}
        await running.delete("Job", "j")
        await running.until_all("Pod", lambda pods: not pods)


@in_virtual_time
async def test_a_stateful_set_is_ordered() -> None:
    async with toy_cluster(2) as running:
        await running.create(
            "StatefulSet", workload("StatefulSet", "db", replicas=3, serviceName="db")
        )
        pods = await running.until_all("Pod", lambda pods: len(pods) >= 1)
        assert [pod["metadata"]["name"] for pod in pods] == ["db-0"]
        await running.status("StatefulSet", "db", lambda status: status.get("readyReplicas") == 3)
        pods = sorted(
            await running.all("Pod"), key=lambda pod: int(pod["metadata"]["resourceVersion"])
        )
        assert [pod["metadata"]["name"] for pod in pods] == ["db-0", "db-1", "db-2"]
        assert [pod["spec"]["hostname"] for pod in pods] == ["db-0", "db-1", "db-2"]

        await running.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
        pods = await running.until_all("Pod", lambda pods: len(pods) == 1)
        assert pods[0]["metadata"]["name"] == "db-0"


@in_virtual_time
async def test_a_stateful_set_creates_the_claims_of_its_pods() -> None:
    async with toy_cluster(0) as running:
        storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claims = [{"metadata": {"name": "data"}, "spec": storage}]
        document = workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=claims)
        document["spec"]["podManagementPolicy"] = "Parallel"
        await running.create("StatefulSet", document)
        pods = await running.until_all("Pod", lambda pods: len(pods) == 2)
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
        (first,) = [pod for pod in pods if pod["metadata"]["name"] == "db-0"]
        assert first["spec"]["volumes"][0] == volume
        assert {
            claim["metadata"]["name"] for claim in await running.all("PersistentVolumeClaim")
        } == {"data-db-0", "data-db-1"}


@in_long_virtual_time
async def test_a_daemon_set_has_a_pod_on_every_node_and_follows_nodes() -> None:
    async with toy_cluster(3) as running:
        await running.create("DaemonSet", workload("DaemonSet", "agent"))
        await running.status(
            "DaemonSet", "agent", lambda status: status.get("numberAvailable") == 3
        )
        await running.create("Node", hollow_node(4))
        await running.status(
            "DaemonSet", "agent", lambda status: status.get("numberAvailable") == 4
        )
        pods = await running.all("Pod")
        expected = ["node-1", "node-2", "node-3", "node-4"]
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == expected
        await running.delete("Node", "node-2")
        pods = await running.until_all("Pod", lambda pods: len(pods) == 3, 60)
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["node-1", "node-3", "node-4"]


@in_virtual_time
async def test_a_node_that_fails_loses_the_pods_that_do_not_tolerate_it() -> None:
    async with toy_cluster(2) as running:
        short = {
            "key": "node.kubernetes.io/not-ready",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 1,
        }
        patient = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}
        at_node_1 = {"kubernetes.io/hostname": "node-1"}
        for name, toleration in (("short", short), ("patient", patient)):
            document = template(name, nodeSelector=at_node_1, tolerations=[toleration])
            await running.create("Pod", {**document, "metadata": {"name": name}})
        await running.until_all(
            "Pod", lambda pods: all(pod["status"]["phase"] == "Running" for pod in pods)
        )
        failed = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
        await running.patch("Node", "node-1", {"status": {"conditions": failed}}, "/status")
        pods = await running.until_all("Pod", lambda pods: len(pods) == 1)
        assert pods[0]["metadata"]["name"] == "patient"
        node = await running.get("Node", "node-1")
        assert {(t["key"], t["effect"]) for t in node["spec"]["taints"]} == {
            ("node.kubernetes.io/not-ready", "NoSchedule"),
            ("node.kubernetes.io/not-ready", "NoExecute"),
        }


@in_virtual_time
async def test_a_node_made_by_hand_is_completed_and_runs_a_pod_within_a_second() -> None:
    async with toy_cluster(0) as running:
        await running.create("Node", {"metadata": {"name": "mine"}})
        mine = await running.status("Node", "mine", lambda status: bool(status.get("conditions")))
        assert mine["status"]["allocatable"]["cpu"] == "8"
        created_at = anyio.current_time()
        await running.create("Pod", {**template("p"), "metadata": {"name": "p"}})
        pod = await running.status("Pod", "p", lambda status: status.get("phase") == "Running")
        assert anyio.current_time() - created_at < 1
        status = pod["status"]
        assert status["podIP"]
        assert status["hostIP"] == mine["status"]["addresses"][0]["address"]
        (container,) = status["containerStatuses"]
        expected = (True, 0, ["running"])
        assert (container["ready"], container["restartCount"], list(container["state"])) == expected
        assert {c["type"]: c["status"] for c in status["conditions"]}["PodScheduled"] == "True"
        deleted_at = anyio.current_time()
        await running.delete("Pod", "p")
        await running.until_all("Pod", lambda pods: not pods)
        assert anyio.current_time() - deleted_at < 1
        with pytest.raises(ApiError):
            await running.get("Pod", "p")


@in_virtual_time
async def test_the_controllers_of_claims_can_run_alone() -> None:
    claim = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    pod = template("p", resourceClaims=[{"name": "d", "resourceClaimTemplateName": "gpus"}])
    async with cluster() as running:
        await running.start(run_controllers, OF_CLAIMS)
        await running.create("Deployment", workload("Deployment", "web", replicas=1))
        gpus = {"metadata": {"name": "gpus"}, "spec": {"spec": claim}}
        await running.create("ResourceClaimTemplate", gpus)
        await running.create("Pod", {**pod, "metadata": {"name": "p"}})
        with_claim = await running.status(
            "Pod", "p", lambda status: bool(status.get("resourceClaimStatuses"))
        )
        (named,) = with_claim["status"]["resourceClaimStatuses"]
        (generated,) = await running.all("ResourceClaim")
        assert generated["metadata"]["name"] == named["resourceClaimName"]
        await running.delete("Pod", "p")
        await running.until_all("ResourceClaim", lambda claims: not claims)
        assert await running.all("ReplicaSet") == []


def quota(**hard: str) -> Document:
    return {"metadata": {"name": "few"}, "spec": {"hard": hard}}


@in_virtual_time
async def test_pods_beyond_a_quota_are_refused_visibly_until_it_is_raised() -> None:
    def failure(status: Document) -> Document | None:
        conditions = status.get("conditions") or ()
        return next((c for c in conditions if c["type"] == "ReplicaFailure"), None)

    async with toy_cluster(2) as running:
        await running.create("ResourceQuota", quota(pods="2"))
        await running.create("Deployment", workload("Deployment", "web", replicas=4))
        web = await running.status("Deployment", "web", lambda status: failure(status) is not None)
        condition = failure(web["status"])
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("True", "FailedCreate")
        refusal = "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"
        assert condition["message"].endswith(refusal)
        (replica_set,) = await running.all("ReplicaSet")
        assert failure(replica_set["status"]) is not None
        events = [e for e in await running.all("Event") if e["reason"] == "FailedCreate"]
        assert {event["involvedObject"]["kind"] for event in events} == {"ReplicaSet"}
        assert events[0]["message"].startswith('Error creating: pods "web-')
        assert events[0]["source"]["component"] == "replicaset-controller"
        assert len(await running.all("Pod")) == 2
        await running.patch("ResourceQuota", "few", {"spec": {"hard": {"pods": "4"}}})
        web = await running.status("Deployment", "web", rolled_out(4))
        await running.status("Deployment", "web", lambda status: failure(status) is None)
        (limited,) = await running.all("ResourceQuota")
        assert limited["status"] == {"hard": {"pods": "4"}, "used": {"pods": "4"}}


@in_virtual_time
async def test_pods_that_a_policy_keeps_are_told_by_events_and_a_condition() -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    refusal = {"expression": "request.operation != 'DELETE'", "message": "pods stay"}
    policy = {
        "metadata": {"name": "keep"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "operations": ["DELETE"]}]},
            "validations": [refusal],
        },
    }
    bound = {"policyName": "keep", "validationActions": ["Deny"]}
    async with toy_cluster(1) as running:
        await running.create("Deployment", workload("Deployment", "web", replicas=2))
        await running.create(
            "StatefulSet", workload("StatefulSet", "db", serviceName="db", replicas=1)
        )
        await running.status("Deployment", "web", rolled_out(2))
        await running.status("StatefulSet", "db", lambda status: status["readyReplicas"] == 1)
        await running.create("ValidatingAdmissionPolicy", policy)
        binding = {"metadata": {"name": "keep"}, "spec": bound}
        await running.create("ValidatingAdmissionPolicyBinding", binding)
        for kind, name in (("Deployment", "web"), ("StatefulSet", "db")):
            await running.patch(kind, name, {"spec": {"replicas": 0}})
        await anyio.sleep(20)
        (replica_set,) = await running.all("ReplicaSet")
        (failure,) = replica_set["status"]["conditions"]
        assert (failure["type"], failure["reason"]) == ("ReplicaFailure", "FailedDelete")
        assert failure["message"].startswith('unable to delete pods: pods "web-')
        events = [each for each in await running.all("Event") if each["reason"] == "FailedDelete"]
        messages = {each["involvedObject"]["kind"]: each["message"] for each in events}
        assert messages["ReplicaSet"].startswith('Error deleting: pods "web-')
        kept = 'Delete Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: '
        assert messages["StatefulSet"].startswith(kept)
        assert len(await running.all("Pod")) == 3
        await running.delete("ValidatingAdmissionPolicyBinding", "keep")
        await running.until_all("Pod", lambda pods: not pods)
        await anyio.sleep(1)
        (replica_set,) = await running.all("ReplicaSet")
        assert not replica_set["status"].get("conditions")


@in_virtual_time
async def test_the_status_of_a_job_does_not_count_the_pods_that_a_quota_refuses() -> None:
    async with toy_cluster(1) as running:
        await running.create("ResourceQuota", quota(pods="1"))
        job = template("job", restartPolicy="Never")
        job["metadata"]["annotations"] = {"berth.dev/run-seconds": "600"}
        await running.create("Job", workload("Job", "job", job, parallelism=3, completions=3))
        await anyio.sleep(20)
        assert len(await running.all("Pod")) == 1
        assert (await running.get("Job", "job"))["status"]["active"] == 1
        await running.patch("ResourceQuota", "few", {"spec": {"hard": {"pods": "9"}}})
        await running.status("Job", "job", lambda status: status["ready"] == 3)
        assert (await running.get("Job", "job"))["status"]["active"] == 3


@in_virtual_time
async def test_a_pods_claim_beyond_a_quota_is_refused_visibly() -> None:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]
    gpus = {"metadata": {"name": "gpus"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    pod = template("p", resourceClaims=[{"name": "d", "resourceClaimTemplateName": "gpus"}])
    async with cluster() as running:
        await running.start(run_controllers)
        limit = {"gpu.deviceclass.resource.k8s.io/devices": "1"}
        await running.create("ResourceQuota", quota(**limit))
        await running.create("ResourceClaimTemplate", gpus)
        await running.create("Pod", {**pod, "metadata": {"name": "p"}})
        (event, *_) = await running.until_all(
            "Event", lambda events: any("exceeded quota: few" in e["message"] for e in events)
        )
        assert (event["reason"], event["involvedObject"]["name"]) == (
            "FailedResourceClaimCreation",
            "p",
        )


@in_virtual_time
async def test_pods_created_together_never_exceed_a_quota() -> None:
    refused: list[str] = []

    async def create(name: str) -> None:
        try:
            await running.create("Pod", {**template("p"), "metadata": {"name": name}})
        except ApiError as failure:
            refused.append(str(failure))

    async with cluster() as running:
        await running.create("ResourceQuota", quota(**{"requests.cpu": "350m"}))
        async with anyio.create_task_group() as group:
            for i in range(10):
                group.start_soon(create, f"p{i}")
        assert len(await running.all("Pod")) == 3
        used = "requested: requests.cpu=100m, used: requests.cpu=300m, limited: requests.cpu=350m"
        assert len(refused) == 7
        assert all(message.endswith(used) for message in refused)


@in_long_virtual_time
async def test_a_cron_job_runs_jobs_and_keeps_some() -> None:
    async with toy_cluster(2) as running:
        job = {"spec": {"template": template("tick", restartPolicy="OnFailure")}}
        spec = {"schedule": "* * * * *", "jobTemplate": job, "successfulJobsHistoryLimit": 2}
        await running.create("CronJob", {"metadata": {"name": "tick"}, "spec": spec})
        # the server's clock, which dates objects, does not follow virtual time
        begun = {"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}}
        await running.patch("CronJob", "tick", begun, "/status")

        def third(jobs: list[Document]) -> bool:
            done = [job for job in jobs if job["status"].get("succeeded")]
            numbers = sorted(int(job["metadata"]["name"].removeprefix("tick-")) for job in done)
            return len(numbers) == 2 and numbers[0] >= first + 2

        (started,) = await running.until_all("Job", lambda jobs: len(jobs) == 1, 90)
        first = int(started["metadata"]["name"].removeprefix("tick-"))
        await running.until_all("Job", third, 600)
        (tick,) = await running.all("CronJob")
        assert tick["status"]["lastSuccessfulTime"] > "2026-01-01T00:02:00Z"


@in_long_virtual_time
async def test_a_deleted_pod_of_a_job_counts_as_failed_and_is_replaced() -> None:
    async with toy_cluster(2) as running:
        annotations = {"berth.dev/run-seconds": "60"}
        of_pod = template("once", restartPolicy="Never")
        of_pod["metadata"]["annotations"] = annotations
        await running.create("Job", workload("Job", "once", of_pod))

        def succeeded(status: Document) -> bool:
            return status.get("succeeded") == 1

        (pod,) = await running.until_all("Pod", lambda pods: len(pods) == 1)
        await running.delete("Pod", pod["metadata"]["name"])
        done = await running.status("Job", "once", succeeded, 120)
        assert done["status"]["failed"] == 1
        (left,) = await running.all("Pod")
        assert left["metadata"]["uid"] != pod["metadata"]["uid"]
        await running.delete("Job", "once")
        await running.until_all("Pod", lambda pods: not pods)


@in_virtual_time
async def test_an_ephemeral_container_is_added_to_a_pod_that_runs() -> None:
    def debugged(status: Document) -> bool:
        containers = status.get("ephemeralContainerStatuses") or ()
        return ["running" in each["state"] for each in containers] == [True]

    async with toy_cluster(1) as running:
        await running.create("Pod", documents.pod("p"))
        await running.status("Pod", "p", lambda status: status.get("phase") == "Running")
        added = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox"}]}}
        await running.patch("Pod", "p", added, subresource="/ephemeralcontainers")
        await running.status("Pod", "p", debugged)
