"""Autoscalers in the form of autoscaling/v1, which are stored as v2."""

from __future__ import annotations

from berth.tools.kubernetes.api.types.autoscaler_versions import BEHAVIOR, METRICS, as_v1, as_v2
from berth.tools.kubernetes.api.types.conversion import served_form
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

V1 = BY_KIND["autoscaling/v1", "HorizontalPodAutoscaler"]
V2 = BY_KIND["autoscaling/v2", "HorizontalPodAutoscaler"]
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def of_cpu(share: int) -> Document:
    target = {"type": "Utilization", "averageUtilization": share}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def api() -> Api:
    made = Api(fresh_store())
    made.seed()
    return made


def test_a_target_of_cpu_is_a_metric() -> None:
    server = api()
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 4, "targetCPUUtilizationPercentage": 70}
    stored = server.create(V1, "default", {"metadata": {"name": "a"}, "spec": spec}).document
    assert (stored["apiVersion"], stored["spec"]["metrics"]) == ("autoscaling/v2", [of_cpu(70)])
    served = served_form(V1, stored)
    assert served["apiVersion"] == "autoscaling/v1"
    assert served["spec"] == {**spec, "minReplicas": 1}
    without = {"scaleTargetRef": TARGET, "maxReplicas": 4}
    stored = server.create(V1, "default", {"metadata": {"name": "b"}, "spec": without}).document
    assert stored["spec"]["metrics"] == [of_cpu(80)]


def test_an_update_in_v1_keeps_what_v1_does_not_know() -> None:
    server = api()
    memory = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}
    metrics = [{"type": "Resource", "resource": memory}, of_cpu(50)]
    behavior = {"scaleUp": {"stabilizationWindowSeconds": 9}}
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 4, "metrics": metrics, "behavior": behavior}
    metadata = {"name": "a", "annotations": {"mine": "x"}}
    before = server.create(V2, "default", {"metadata": metadata, "spec": spec}).document
    served = served_form(V1, before)
    assert {METRICS, BEHAVIOR, "mine"} == served["metadata"]["annotations"].keys()
    served["spec"]["targetCPUUtilizationPercentage"] = 60
    after = server.update(V1, "default", "a", served, "").document
    assert after["spec"] == {**before["spec"], "metrics": [metrics[0], of_cpu(60)]}
    assert after["metadata"]["annotations"] == {"mine": "x"}
    status = {"currentReplicas": 1, "desiredReplicas": 1, "currentCPUUtilizationPercentage": 9}
    later = {"metadata": {"name": "a"}, "status": status}
    after = server.update(V1, "default", "a", later, "status").document
    assert after["status"] == {"currentReplicas": 1, "desiredReplicas": 1}


def test_the_current_utilization_and_unreadable_annotations() -> None:
    current = {"averageUtilization": 33, "averageValue": "1"}
    status = {
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}],
        "conditions": [],
        "desiredReplicas": 1,
    }
    v1 = as_v1({"metadata": {"name": "a"}, "spec": {"metrics": []}, "status": status})
    assert v1["status"] == {
        "currentReplicas": 0,
        "desiredReplicas": 1,
        "currentCPUUtilizationPercentage": 33,
    }
    odd = {"metadata": {"annotations": {METRICS: "[", BEHAVIOR: "7"}}, "spec": {}}
    assert as_v2(odd) == {"metadata": {"annotations": {}}, "spec": {}}
