"""When autoscalers decide, what they report, and how they tell their pods apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.times import rfc3339
from berth.tools.cluster.controllers.autoscaler_controllers import Autoscalers
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.kubelet.usage_models import NO_SCENARIO
from berth.tools.kubernetes.object_index import ObjectIndex
from berth.tools.kubernetes.objects.autoscalers import HorizontalPodAutoscaler
from berth.tools.kubernetes.objects.structs import DaemonSet, Deployment, Node, Pod, read
from berth.tools.kubernetes.objects.writes import Again, Create, Patch, Write
from berth.tools.kubernetes.work_items import item_of
from tests.kit.documents import Document

START = datetime(2026, 1, 1, tzinfo=UTC)
KIND = BY_KIND["autoscaling/v2", "HorizontalPodAutoscaler"]
NO_CUSTOM = (
    "unable to fetch metrics from custom metrics API: "
    "no custom metrics API (custom.metrics.k8s.io) registered"
)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def metadata(name: str, version: int = 1, **fields: Any) -> Document:
    place = {"namespace": "n", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"name": name, **place, **fields}


UTILIZED: Document = {"type": "Utilization", "averageUtilization": 80}


def autoscaler(
    name: str = "a", kind: str = "Deployment", version: int = 1, **spec: Any
) -> HorizontalPodAutoscaler:
    target = {"apiVersion": "apps/v1", "kind": kind, "name": "web"}
    whole = {"minReplicas": 1, "maxReplicas": 10, "scaleTargetRef": target, **spec}
    document = defaulted(KIND, {"metadata": metadata(name, version), "spec": whole})
    return read(document, HorizontalPodAutoscaler)


class Scene:
    """A deployment `web` of two pods that use 900m of their 1000m cpu, and an autoscaler."""

    def __init__(self, *autoscalers: HorizontalPodAutoscaler, usage: str = "cpu=900m") -> None:
        self.cluster = ObjectIndex()
        self.controller = Autoscalers(NO_SCENARIO)
        self.put(read({"metadata": {"name": "node", "uid": "node"}}, Node))
        self.scale(2)
        for name in ("p0", "p1"):
            self.put(pod(name, usage))
        for each in autoscalers:
            self.put(each)

    def put(self, obj: HasMetadata) -> None:
        self.cluster.put(obj)

    def scale(self, replicas: int, version: int = 1) -> None:
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}}
        self.put(read({"metadata": metadata("web", version), "spec": spec}, Deployment))

    def decide(self, obj: HorizontalPodAutoscaler, seconds: float) -> list[Write]:
        item = item_of("HorizontalPodAutoscaler", obj)
        return self.controller.reconcile(self.cluster, item, at(seconds))

    def synced(self, obj: HorizontalPodAutoscaler) -> list[Write]:
        """Returns what the first decision writes."""
        assert self.decide(obj, 0) == [Again(15)]
        *writes, again = self.decide(obj, 15)
        assert again == Again(15)
        return writes


REQUESTED = {"cpu": "1", "memory": "1Gi"}


def pod(
    name: str,
    usage: str,
    version: int = 1,
    ready: bool = True,
    requests: dict[str, str] = REQUESTED,
) -> Pod:
    started = rfc3339(at(-3600))
    container = {"name": "c", "resources": {"requests": requests}}
    status = {
        "phase": "Running",
        "startTime": started,
        "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": started}],
        "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": started}}}],
    }
    labels: Document = {"labels": {"app": "web"}, "annotations": {"berth.dev/usage": usage}}
    spec = {"nodeName": "node", "containers": [container]}
    document = {"metadata": metadata(name, version, **labels), "spec": spec, "status": status}
    return read(document, Pod)


def scaled(writes: list[Write]) -> list[tuple[str, str, int]]:
    return [
        (write.kind, write.name, write.body["spec"]["replicas"])
        for write in writes
        if isinstance(write, Patch) and write.subresource == "scale"
    ]


def events(writes: list[Write]) -> list[tuple[str, str]]:
    documents = [write.document for write in writes if isinstance(write, Create)]
    return [(document["reason"], document["message"]) for document in documents]


def status(writes: list[Write]) -> Document:
    (patch,) = [w for w in writes if isinstance(w, Patch) and w.subresource == "status"]
    of: Document = patch.body["status"]
    return of


def conditions(writes: list[Write]) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c["reason"]) for c in status(writes)["conditions"]]


def message(writes: list[Write], type_: str) -> str:
    return next(str(c["message"]) for c in status(writes)["conditions"] if c["type"] == type_)


def test_it_scales_first_and_then_reports() -> None:
    obj = autoscaler()
    writes = Scene(obj).synced(obj)
    assert [type(write) for write in writes] == [Patch, Create, Patch]
    assert scaled(writes) == [("Deployment", "web", 3)]
    reason = "cpu resource utilization (percentage of request) above target"
    assert events(writes) == [("SuccessfulRescale", f"New size: 3; reason: {reason}")]
    assert conditions(writes) == [
        ("AbleToScale", "True", "SucceededRescale"),
        ("ScalingActive", "True", "ValidMetricFound"),
        ("ScalingLimited", "False", "DesiredWithinRange"),
    ]
    current = {"averageValue": "900m", "averageUtilization": 90}
    assert status(writes) == {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}],
        "conditions": status(writes)["conditions"],
        "lastScaleTime": rfc3339(at(15)),
    }


def test_it_decides_every_15_seconds_and_not_for_each_change() -> None:
    obj = autoscaler()
    scene = Scene(obj)
    scene.synced(obj)
    scene.scale(3, version=2)
    assert scene.decide(obj, 16) == [Again(14)]
    assert scaled(scene.decide(obj, 30)) == []


def test_a_refused_scale_is_reported_and_tried_again() -> None:
    obj = autoscaler()
    scene = Scene(obj)
    scene.synced(obj)
    scene.cluster.refusals["HorizontalPodAutoscaler", "n", "a"] = "denied"
    writes = scene.decide(obj, 16)
    reason = "cpu resource utilization (percentage of request) above target"
    message = f"New size: 3; reason: {reason}; error: denied"
    assert events(writes) == [("FailedRescale", message)]
    assert conditions(writes)[0] == ("AbleToScale", "False", "FailedUpdateScale")
    del scene.cluster.refusals["HorizontalPodAutoscaler", "n", "a"]
    assert scaled(scene.decide(obj, 30)) == [("Deployment", "web", 3)]


@pytest.mark.parametrize(
    ("replicas", "desired", "reason"),
    [
        (12, 10, "Current number of replicas above Spec.MaxReplicas"),
        (1, 2, "Current number of replicas below Spec.MinReplicas"),
    ],
)
def test_the_range_comes_before_the_metrics(replicas: int, desired: int, reason: str) -> None:
    obj = autoscaler(minReplicas=2)
    scene = Scene(obj)
    scene.scale(replicas, version=2)
    writes = scene.synced(obj)
    assert scaled(writes) == [("Deployment", "web", desired)]
    assert events(writes) == [("SuccessfulRescale", f"New size: {desired}; reason: {reason}")]


def test_zero_replicas_disable_it() -> None:
    obj = autoscaler()
    scene = Scene(obj)
    scene.scale(0, version=2)
    writes = scene.synced(obj)
    assert scaled(writes) == []
    assert conditions(writes)[1] == ("ScalingActive", "False", "ScalingDisabled")


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        ("Deployment", "db", 'deployments.apps "db" not found'),
        ("DaemonSet", "web", "the server could not find the requested resource"),
        ("Pear", "web", 'no matches for kind "Pear" in group "apps"'),
    ],
)
def test_a_target_without_a_scale(kind: str, name: str, why: str) -> None:
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    obj = autoscaler(scaleTargetRef=target)
    scene = Scene(obj)
    scene.put(read({"metadata": metadata("web")}, DaemonSet))
    writes = scene.synced(obj)
    assert events(writes) == [("FailedGetScale", why)]
    assert conditions(writes) == [("AbleToScale", "False", "FailedGetScale")]
    assert message(writes, "AbleToScale").endswith(f"target's current scale: {why}")
    assert events(scene.decide(obj, 30)) == []  # the same warning is not repeated


def metric(type_: str, **target: Any) -> Document:
    field = type_[0].lower() + type_[1:]
    if "Resource" in type_:
        name = target.pop("name", "cpu")
        container = {"container": "c"} if type_ == "ContainerResource" else {}
        return {"type": type_, field: {"name": name, **container, "target": target}}
    of = {"describedObject": {"kind": "Ingress", "name": "i"}} if type_ == "Object" else {}
    return {"type": type_, field: {"metric": {"name": "qps"}, **of, "target": target}}


@pytest.mark.parametrize(
    ("metrics", "replicas", "current"),
    [
        ([metric("Resource", averageValue="600m")], 3, {"averageValue": "900m"}),
        (
            [metric("ContainerResource", averageUtilization=30)],
            4,  # the most at once
            {"averageUtilization": 90, "averageValue": "900m"},
        ),
        (
            [metric("Resource", name="memory", averageValue="1Gi")],
            3,
            {"averageValue": "1536Mi"},
        ),
    ],
)
def test_metrics(metrics: list[Document], replicas: int, current: Document) -> None:
    obj = autoscaler(metrics=metrics)
    writes = Scene(obj, usage="cpu=900m, memory=1536Mi").synced(obj)
    assert scaled(writes) == [("Deployment", "web", replicas)]
    (shown,) = status(writes)["currentMetrics"]
    field = metrics[0]["type"][0].lower() + metrics[0]["type"][1:]
    assert shown[field]["current"] == current


def test_the_metric_that_asks_for_most_counts() -> None:
    some = [
        metric("Resource", averageUtilization=90),
        metric("Resource", averageUtilization=60),
        metric("Resource", averageUtilization=300),
    ]
    obj = autoscaler(metrics=some)
    assert scaled(Scene(obj).synced(obj)) == [("Deployment", "web", 3)]


def test_a_failed_metric_prevents_scaling_down_only() -> None:
    for share, wanted in ((60, [("Deployment", "web", 3)]), (300, [])):
        obj = autoscaler(
            metrics=[metric("Pods", averageValue="1"), metric("Resource", averageUtilization=share)]
        )
        writes = Scene(obj).synced(obj)
        assert scaled(writes) == wanted
        assert ("FailedGetPodsMetric", f"unable to get metric qps: {NO_CUSTOM}") in events(writes)
        first = {True: "ValidMetricFound", False: "FailedGetPodsMetric"}[bool(wanted)]
        assert conditions(writes)[1][2] == first


@pytest.mark.parametrize(
    ("which", "reason", "why"),
    [
        (
            metric("Object", value="1"),
            "FailedGetObjectMetric",
            f"unable to get metric qps: {NO_CUSTOM} on Ingress n/i",
        ),
        (
            metric("External", averageValue="1"),
            "FailedGetExternalMetric",
            (
                "failed to get qps external metric: unable to get external metric n/qps: unable to "
                "fetch metrics from external metrics API: "
                "no external metrics API (external.metrics.k8s.io) registered"
            ),
        ),
        (
            metric("Resource", name="gpu", averageValue="1"),
            "FailedGetResourceMetric",
            (
                "failed to get gpu usage: "
                "did not receive metrics for targeted pods (pods might be unready)"
            ),
        ),
        (
            metric("ContainerResource", name="disk", averageUtilization=1),
            "FailedGetContainerResourceMetric",
            (
                "failed to get disk utilization: "
                "did not receive metrics for targeted pods (pods might be unready)"
            ),
        ),
    ],
)
def test_a_metric_that_says_nothing(which: Document, reason: str, why: str) -> None:
    obj = autoscaler(metrics=[which])
    writes = Scene(obj).synced(obj)
    assert conditions(writes) == [
        ("AbleToScale", "True", "SucceededGetScale"),
        ("ScalingActive", "False", reason),
    ]
    assert message(writes, "ScalingActive") == (
        f"the HPA was unable to compute the replica count: {why}"
    )
    assert [each for each, _ in events(writes)] == [reason, "FailedComputeMetricsReplicas"]
    assert (
        "invalid metrics (1 invalid out of 1), first error is: failed to get"
        in (events(writes)[1][1])
    )


def test_pods_without_samples() -> None:
    obj = autoscaler()
    scene = Scene(obj)
    named = {"name": "node", "uid": "node", "resourceVersion": "2"}
    stopped = {**named, "annotations": {"berth.dev/kubelet": "stopped"}}
    scene.put(read({"metadata": stopped}, Node))
    assert events(scene.synced(obj))[0] == (
        "FailedGetResourceMetric",
        (
            "failed to get cpu utilization: unable to get metrics for resource cpu: "
            "no metrics returned from resource metrics API"
        ),
    )


def test_two_autoscalers_of_the_same_pods_do_nothing() -> None:
    first, second = autoscaler("a"), autoscaler("b")
    scene = Scene(first, second)
    assert scaled(scene.synced(first))  # as long as the other one has not been seen
    scene.decide(second, 15)
    writes = scene.decide(second, 30)
    assert scaled(writes) == []
    assert conditions(writes)[1] == ("ScalingActive", "False", "AmbiguousSelector")
    assert message(writes, "ScalingActive") == (
        "pods by selector app=web are controlled by multiple HPAs: [{a n} {b n}]"
    )
    scene.cluster.remove(first)
    assert scene.decide(first, 31) == []
    assert scaled(scene.decide(second, 45)) == [("Deployment", "web", 3)]


def test_a_new_autoscaler_of_the_same_name_begins_anew() -> None:
    obj = autoscaler()
    scene = Scene(obj)
    scene.synced(obj)
    scene.cluster.remove(obj)
    again = read({"metadata": {**metadata("a", 9), "uid": "other"}}, HorizontalPodAutoscaler)
    scene.put(again)
    assert scene.decide(again, 20) == [Again(15)]


def test_a_tolerance_of_its_own() -> None:
    obj = autoscaler(behavior={"scaleUp": {"tolerance": "0.2"}})
    assert scaled(Scene(obj).synced(obj)) == []


def test_a_recent_recommendation_scales_up_without_a_reason() -> None:
    obj = autoscaler(maxReplicas=10)
    scene = Scene(obj, usage="cpu=2500m")  # asks for 7, of which 4 are allowed at once
    assert scaled(scene.synced(obj)) == [("Deployment", "web", 4)]
    scene.decide(obj, 16)
    for name in ("p0", "p1", "p2", "p3"):
        scene.put(pod(name, "cpu=800m", version=2))
    scene.scale(4, version=2)
    writes = scene.decide(obj, 30)
    assert scaled(writes) == [("Deployment", "web", 7)]
    assert events(writes) == [("SuccessfulRescale", "New size: 7; reason: ")]


def test_of_metrics_without_any_usage_the_last_one_is_named() -> None:
    metrics = [
        {"type": "Resource", "resource": {"name": name, "target": {**UTILIZED}}}
        for name in ("cpu", "memory")
    ]
    obj = autoscaler(metrics=metrics)
    writes = Scene(obj, usage="cpu=0,memory=0").synced(obj)
    named = "from memory resource utilization (percentage of request)"
    assert message(writes, "ScalingActive").endswith(named)


def test_pods_that_are_not_ready_matter_before_requests_that_are_missing() -> None:
    obj = autoscaler()
    scene = Scene(obj)
    for name in ("p0", "p1"):
        scene.put(pod(name, "cpu=1", version=2, ready=False, requests={}))
    why = "did not receive metrics for targeted pods (pods might be unready)"
    assert message(scene.synced(obj), "ScalingActive").endswith(why)


def test_a_request_that_is_missing_is_told_once_pods_are_ready() -> None:
    obj = autoscaler()
    scene = Scene(obj)
    for name in ("p0", "p1"):
        scene.put(pod(name, "cpu=1", version=2, requests={}))
    why = "missing request for cpu in container c of Pod p0"
    assert message(scene.synced(obj), "ScalingActive").endswith(why)


def test_a_new_behavior_does_not_look_back_at_what_was_scaled_without_one() -> None:
    obj = autoscaler()
    scene = Scene(obj)
    assert scaled(scene.synced(obj)) == [("Deployment", "web", 3)]
    scene.decide(obj, 16)
    policy = {"type": "Pods", "value": 1, "periodSeconds": 600}
    behavior = {"scaleUp": {"policies": [policy]}}
    obj = autoscaler(version=2, behavior=behavior)
    scene.put(obj)
    scene.scale(3, version=2)
    scene.put(pod("p2", "cpu=900m"))
    for name in ("p0", "p1"):
        scene.put(pod(name, "cpu=1600m", version=2))
    assert scaled(scene.decide(obj, 30)) == [("Deployment", "web", 4)]
