"""Autoscalers in a toy cluster in virtual time: load comes, replicas follow, and load goes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.kit import documents
from tests.kit.cluster import Cluster, toy_cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

LABELS = {"app": "web"}
RESCALED = "SuccessfulRescale"


def deployment(usage: str, cpu: str, replicas: int = 1) -> Document:
    annotations = {"berth.dev/usage": usage}
    containers = [documents.container("app", cpu)]
    pods = documents.template("web", annotations=annotations, containers=containers)
    return documents.workload("Deployment", "web", pods, replicas=replicas)


def autoscaler(most: int, **spec: Any) -> Document:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {"type": "Utilization", "averageUtilization": 50}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": target,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": metric}}],
            **spec,
        },
    }


async def use(running: Cluster, usage: str) -> None:
    """Changes what all pods use from now on."""
    for pod in await running.all("Pod"):
        body = {"metadata": {"annotations": {"berth.dev/usage": usage}}}
        await running.patch("Pod", pod["metadata"]["name"], body)


def reason(autoscaler: Document, kind: str) -> str:
    conditions = (autoscaler.get("status") or {}).get("conditions", ())
    return next((str(c["reason"]) for c in conditions if c["type"] == kind), "")


async def replicas(running: Cluster) -> int:
    number: int = (await running.get("Deployment", "web"))["spec"]["replicas"]
    return number


async def sizes(running: Cluster) -> list[str]:
    """Returns the sizes that the autoscaler has chosen, in their order."""
    events = [event for event in await running.all("Event") if event["reason"] == RESCALED]
    events.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    return [event["message"].partition(";")[0].removeprefix("New size: ") for event in events]


@pytest.mark.full
@in_virtual_time
async def test_replicas_follow_a_ramp_until_the_nodes_are_full_and_go_after_the_window() -> None:
    async with toy_cluster(1) as running:  # room for four pods
        await running.create("Deployment", deployment("cpu=500m+10m/s to 2 after 1m", cpu="2"))
        await running.create("HorizontalPodAutoscaler", autoscaler(6))

        await anyio.sleep(60)
        assert await replicas(running) == 1
        await running.until(
            "HorizontalPodAutoscaler",
            "web",
            lambda item: reason(item, "ScalingLimited") == "TooManyReplicas",
            seconds=900,
        )
        assert await replicas(running) == 6
        pods = await running.until_all(
            "Pod", lambda pods: sum(pod["status"]["phase"] == "Pending" for pod in pods) == 2
        )
        waiting = [pod for pod in pods if pod["status"]["phase"] == "Pending"]
        unscheduled = waiting[0]["status"]["conditions"][0]
        assert (unscheduled["reason"], "Insufficient cpu" in unscheduled["message"]) == (
            "Unschedulable",
            True,
        )

        await use(running, "cpu=100m")
        await anyio.sleep(240)
        held = await running.get("HorizontalPodAutoscaler", "web")
        assert (await replicas(running), reason(held, "AbleToScale")) == (6, "ScaleDownStabilized")
        await anyio.sleep(120)
        assert await replicas(running) == 1
        await running.until_all("Pod", lambda pods: len(pods) == 1)
        assert (await sizes(running))[-1] == "1"


@in_long_virtual_time
async def test_a_behavior_limits_the_rate_in_both_directions() -> None:
    behavior = {
        "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}]},
        "scaleDown": {
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}],
        },
    }
    async with toy_cluster(1) as running:
        await running.create("Deployment", deployment("cpu=100m", cpu="100m"))
        await running.create("HorizontalPodAutoscaler", autoscaler(4, behavior=behavior))
        await anyio.sleep(125)
        assert await sizes(running) == ["2", "3", "4"]
        await use(running, "cpu=1m")
        await anyio.sleep(75)
        assert await sizes(running) == ["2", "3", "4", "2", "1"]


@in_long_virtual_time
async def test_a_refused_scale_is_reported_and_tried_again() -> None:
    policy = {
        "metadata": {"name": "small"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["UPDATE"],
                        "resources": ["deployments/scale"],
                    }
                ]
            },
            "validations": [{"expression": "object.spec.replicas < 2", "message": "too large"}],
        },
    }
    binding = {
        "metadata": {"name": "small"},
        "spec": {"policyName": "small", "validationActions": ["Deny"]},
    }
    async with toy_cluster(1) as running:
        await running.create("ValidatingAdmissionPolicy", policy)
        await running.create("ValidatingAdmissionPolicyBinding", binding)
        await running.create("Deployment", deployment("cpu=100m", cpu="100m"))
        await running.create("HorizontalPodAutoscaler", autoscaler(5))
        await running.until(
            "HorizontalPodAutoscaler",
            "web",
            lambda item: reason(item, "AbleToScale") == "FailedUpdateScale",
            seconds=120,
        )
        assert await replicas(running) == 1
        assert not await sizes(running)
        failed = [e for e in await running.all("Event") if e["reason"] == "FailedRescale"]
        assert "too large" in failed[0]["message"]
        await running.delete("ValidatingAdmissionPolicyBinding", "small")
        await anyio.sleep(45)
        assert (await sizes(running))[0] == "2"
