"""Which autoscalers the server takes, with which defaults, and how tables show them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from berth.tools.kubernetes.api.rules.validation import problems
from berth.tools.kubernetes.api.tables import table
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.cases import documents
from tests.kit.documents import Document

KIND = BY_KIND["autoscaling/v2", "HorizontalPodAutoscaler"]
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
SPEC: Document = {"scaleTargetRef": TARGET, "maxReplicas": 3}


def autoscaler(spec: Document, status: Document | None = None) -> Document:
    metadata = {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return defaulted(KIND, {"metadata": metadata, "spec": {**SPEC, **spec}, "status": status or {}})


def test_an_autoscaler_without_a_maximum_is_below_its_minimum_too() -> None:
    assert problems("v2.HorizontalPodAutoscaler", autoscaler({"maxReplicas": 0})) == [
        "spec.maxReplicas: Required value: must be set and greater than 0",
        "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
    ]


def test_defaults() -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    assert autoscaler({})["spec"] == {
        **SPEC,
        "minReplicas": 1,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    behavior = autoscaler({"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}})["spec"]
    assert behavior["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        },
        "scaleDown": {
            "selectPolicy": "Disabled",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
        },
    }
    assert problems("v2.HorizontalPodAutoscaler", autoscaler({"behavior": {}})) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    documents("""
minReplicas: 0 => spec.minReplicas: Invalid value: 0: must be greater than or equal to 1
{minReplicas: 4} => spec.maxReplicas: Invalid value: 3: must be greater than or equal to
  `minReplicas`
scaleTargetRef: {apiVersion: apps/v1, kind: Deployment} => spec.scaleTargetRef.name: Required value
scaleTargetRef: {apiVersion: apps/v1, name: web} => spec.scaleTargetRef.kind: Required value
scaleTargetRef: {apiVersion: apps/v1, kind: a/b, name: web} => spec.scaleTargetRef.kind: Invalid
  value: "a/b": may not contain '/'
scaleTargetRef: {kind: Deployment, name: web} => spec.scaleTargetRef.apiVersion: Invalid value: "":
  apiVersion must specify API group
scaleTargetRef: {apiVersion: /v1, kind: Deployment, name: web} => spec.scaleTargetRef.apiVersion:
  Invalid value: "/v1": apiVersion must specify API group
scaleTargetRef: {kind: A, name: web, apiVersion: a/b/c} => spec.scaleTargetRef.apiVersion: Invalid
  value: "a/b/c": unexpected GroupVersion string: a/b/c
metrics: [{type: Resource}] => spec.metrics[0].resource: Required value: must populate information
  for the given metric source
metrics: [{type: Pods, pods: {metric: {name: x}, target: {type: AverageValue}}}] =>
  spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target
  averageValue
metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization,
  averageUtilization: 0}}}] => spec.metrics[0].resource.target.averageUtilization: Invalid value:
  0: must be greater than 0
metrics: [{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: "0"}}}]
  => spec.metrics[0].resource.target.averageValue: Invalid value: "0": must be positive
metrics: [{type: Resource, resource: {name: cpu, target: {type: Value, value: "1"}}}]
  => spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target
  raw value or a target utilization
metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageValue: "1",
  averageUtilization: 1}}}] => spec.metrics[0].resource.target.averageValue: Forbidden: may not set
  both a target raw value and a target utilization
metrics: [{type: Resource, resource: {name: cpu, target: {type: Share, averageValue: "1"}}}]
  => spec.metrics[0].resource.target.type: Invalid value: "Share": must be either Utilization,
  Value, or AverageValue
metrics: [{type: ContainerResource, containerResource: {name: cpu, target: {type: AverageValue,
  averageValue: "1"}}}] => spec.metrics[0].containerResource.container: Required value: must specify
  a container
metrics: [{type: External, external: {metric: {name: x}, target: {type: Value, value: "1",
  averageValue: "1"}}}] => spec.metrics[0].external.target.value: Forbidden: may not set both a
  target value for metric and a per-pod target
metrics: [{type: Object, object: {metric: {name: x}, describedObject: {kind: A, name: a},
  target: {type: Value}}}] => spec.metrics[0].object.target.averageValue: Required value: must set
  either a target value or averageValue
metrics: [{type: Pods, pods: {metric: {name: x}, target: {type: AverageValue, averageValue: "1"}},
  resource: {name: cpu}}] => spec.metrics[0].resource: Forbidden: must populate the given metric
  source only
behavior: {scaleUp: {policies: []}} => spec.behavior.scaleUp.policies: Required value: must specify
  at least one Policy
behavior: {scaleUp: {stabilizationWindowSeconds: 3601}} =>
  spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal
  to 3600
behavior: {scaleDown: {selectPolicy: Sum}} => spec.behavior.scaleDown.selectPolicy: Unsupported
  value: "Sum": supported values: "Disabled", "Max", "Min"
behavior: {scaleDown: {tolerance: "-1"}} => spec.behavior.scaleDown.tolerance: Invalid value: "-1":
  must be greater than or equal to 0
behavior: {scaleDown: {policies: [{type: Pods, value: 0, periodSeconds: 1}]}} =>
  spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero
behavior: {scaleDown: {policies: [{type: Pods, value: 1, periodSeconds: 1801}]}} =>
  spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal
  to 1800
behavior: {scaleDown: {policies: [{type: Cows, value: 1, periodSeconds: 1}]}} =>
  spec.behavior.scaleDown.policies[0].type: Unsupported value: "Cows": supported values: "Percent",
  "Pods"
"""),
)
def test_an_autoscaler_with_one_thing_wrong(change: Document, problem: str) -> None:
    assert problems("v2.HorizontalPodAutoscaler", autoscaler(change)) == [problem]


@pytest.mark.parametrize(
    ("metrics", "current", "shown"),
    [
        ([], [], "cpu: <unknown>/80%"),
        (
            [("resource", {"name": "memory", "target": {"averageValue": "1Gi"}})],
            [("resource", {"name": "memory", "current": {"averageValue": "12Mi"}})],
            "memory: 12Mi/1Gi",
        ),
        (
            [
                ("external", {"target": {"averageValue": "3"}}),
                ("containerResource", {"name": "cpu", "target": {"averageUtilization": 4}}),
                ("object", {"target": {"value": "5"}}),
            ],
            [("external", {"current": {"averageValue": "1"}}), ("", {})],
            "1/3 (avg), cpu: <unknown>/4% + 1 more...",
        ),
    ],
)
def test_targets_in_a_table(
    metrics: list[tuple[str, Document]], current: list[tuple[str, Document]], shown: str
) -> None:
    def typed(entries: list[tuple[str, Document]]) -> list[Document]:
        return [{"type": field[:1].upper() + field[1:], field: of} for field, of in entries]

    status = {"currentReplicas": 2, "currentMetrics": typed(current)}
    document = autoscaler({"metrics": typed(metrics)}, status)
    now = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
    row = table(KIND, [document], revision="1", now=now)["rows"][0]["cells"]
    assert row == ["web", "Deployment/web", shown, "1", 3, 2, "5m"]
