"""The decision on one autoscaler at one time. Mirrors reconcileAutoscaler of the podautoscaler.

There are metrics of resources only: the APIs of custom and external metrics do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.quantity import binary_text, decimal_text, milli_value, nano_value
from berth.actors.scheduling.kube.times import rfc3339

from ..kubelet.usage_samples import Sample
from ..objects.autoscalers import CustomSource, HorizontalPodAutoscaler, Metric, ResourceSource
from ..objects.documents import status_of
from ..objects.object_events import Reporter, event_about
from ..objects.structs import Document, Pod
from ..objects.writes import Create, Patch, Write, status_writes
from .replicas import (
    Goal,
    NoMetricsError,
    PodMetric,
    Proposal,
    Tolerances,
    propose,
    requests_of,
)
from .scaling_limits import History, LimitVerdict, limit

SYNC_SECONDS = 15.0
REPORTER = Reporter("horizontal-pod-autoscaler")
GOT_SCALE = "the HPA controller was able to get the target's current scale"
NO_SCALE = "the HPA controller was unable to get the target's current scale"
NO_CUSTOM = (
    "unable to fetch metrics from custom metrics API: "
    "no custom metrics API (custom.metrics.k8s.io) registered"
)
NO_EXTERNAL = (
    "unable to fetch metrics from external metrics API: "
    "no external metrics API (external.metrics.k8s.io) registered"
)
_KINDS = {"Pods": "pods", "Object": "object", "External": "external"}


class ScaleTarget(msgspec.Struct, frozen=True):
    """The scale of a target: its replicas, and its pods.

    `rivals` are the autoscalers that also select one of the pods, this one included.
    """

    kind: str
    replicas: int
    selector: str
    pods: Sequence[Pod]
    rivals: Sequence[str] = ()


class _MetricError(Exception):
    """A metric that cannot be used: the reason for the condition, and the message."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class _MetricReplicas(msgspec.Struct, frozen=True):
    """The replicas that a metric asks for, its name in words, and its status."""

    replicas: int
    name: str
    status: Document


class ScalingDecision:
    """The decision for one autoscaler: a new status, events and perhaps a new scale.

    A warning, a reason and a message, that has just been `reported` is not repeated.
    """

    def __init__(
        self,
        autoscaler: HorizontalPodAutoscaler,
        history: History,
        sample: Callable[[Pod], Sample | None],
        now: datetime,
        reported: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self._obj = autoscaler
        self._reported = reported
        self._history = history
        self._sample = sample
        self._now = now
        self._conditions: list[Document] = status_of(autoscaler).get("conditions", [])
        self._samples: dict[str, Sample] | None = None  # by pod, once a metric needs them
        self._metrics: list[Document] = []
        self._desired = autoscaler.status.desired_replicas
        self._events: list[tuple[str, str, str]] = []  # type, reason, message
        self.target: int | None = None  # the new scale
        self.reason = ""  # of the new scale

    @property
    def warnings(self) -> frozenset[tuple[str, str]]:
        """The reasons and messages of its warnings."""
        return frozenset(event[1:] for event in self._events if event[0] == "Warning")

    def without_scale(self, why: str) -> list[Write]:
        """Decides for a target that has no scale."""
        self._set_condition(
            "AbleToScale", LimitVerdict(False, "FailedGetScale", f"{NO_SCALE}: {why}")
        )
        self._metrics = list(self._obj.status.current_metrics)
        self._warn("FailedGetScale", why)
        return self._writes(self._obj.status.current_replicas)

    def after_failure(self, target: int, reason: str, why: str) -> list[Write]:
        """Reports that the server refused the last change of the scale, which was made for this
        reason.
        """
        message = f"the HPA controller was unable to update the target scale: {why}"
        self._set_condition("AbleToScale", LimitVerdict(False, "FailedUpdateScale", message))
        self._metrics = list(self._obj.status.current_metrics)
        self._warn("FailedRescale", f"New size: {target}; reason: {reason}; error: {why}")
        return self._writes(self._obj.status.current_replicas)

    def decide(self, scale: ScaleTarget) -> list[Write]:
        spec, current, seconds = self._obj.spec, scale.replicas, self._now.timestamp()
        self._set_condition("AbleToScale", LimitVerdict(True, "SucceededGetScale", GOT_SCALE))
        self._history.begin(current, seconds)
        desired, reason = current, ""
        if current == 0:
            message = "scaling is disabled since the replica count of the target is zero"
            self._set_condition("ScalingActive", LimitVerdict(False, "ScalingDisabled", message))
        elif current > spec.max_replicas:
            desired, reason = (
                spec.max_replicas,
                "Current number of replicas above Spec.MaxReplicas",
            )
        elif current < spec.min_replicas:
            desired, reason = (
                spec.min_replicas,
                "Current number of replicas below Spec.MinReplicas",
            )
        else:
            largest = self._largest_metric(scale)
            if largest is None:
                return self._writes(current)
            if largest.replicas > current:
                reason = f"{largest.name} above target"
            elif largest.replicas < current:
                reason = "All metrics below target"
            limited = limit(self._history, spec, current, largest.replicas, seconds)
            desired = limited.replicas
            self._set_condition("AbleToScale", limited.able)
            self._set_condition("ScalingLimited", limited.limited)
        self._desired = desired
        if desired == current:
            return self._writes(current)
        self.target, self.reason = desired, reason
        message = f"the HPA controller was able to update the target scale to {desired}"
        self._set_condition("AbleToScale", LimitVerdict(True, "SucceededRescale", message))
        self._events.append(
            ("Normal", "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        )
        reference = spec.scale_target_ref
        body = {"spec": {"replicas": desired}}
        namespace = self._obj.metadata.namespace
        rescale = Patch(scale.kind, namespace, reference.name, body, "scale")
        return [rescale, *self._writes(current, rescaled=True)]

    def _largest_metric(self, scale: ScaleTarget) -> _MetricReplicas | None:
        """Returns the metric that asks for the most replicas; None if nothing can be decided."""
        problem = self._selector_problem(scale)
        if problem:
            self._warn("FailedComputeMetricsReplicas", problem)
            return None
        specs, largest, failures = self._obj.spec.metrics, None, list[tuple[str, str, str]]()
        for metric in specs:
            try:
                sized = self._metric_replicas(metric, scale)
            except _MetricError as failure:
                prefix = _error_prefix(metric)
                failures.append((failure.reason, str(failure), f"{prefix}: {failure}"))
                self._warn(failure.reason, str(failure))
                self._metrics.append({"type": ""})
                continue
            self._metrics.append(sized.status)
            # of metrics that ask for no replicas, the last one is named
            if largest is None or not largest.replicas or sized.replicas > largest.replicas:
                largest = sized
        if largest is None or (failures and largest.replicas < scale.replicas):
            reason, why, first = failures[0]
            message = f"the HPA was unable to compute the replica count: {why}"
            self._set_condition("ScalingActive", LimitVerdict(False, reason, message))
            counts = f"({len(failures)} invalid out of {len(specs)})"
            self._warn(
                "FailedComputeMetricsReplicas",
                f"invalid metrics {counts}, first error is: {first}",
            )
            return None
        message = f"the HPA was able to successfully calculate a replica count from {largest.name}"
        self._set_condition("ScalingActive", LimitVerdict(True, "ValidMetricFound", message))
        return largest

    def _selector_problem(self, scale: ScaleTarget) -> str:
        if not scale.selector:
            message = "the HPA target's scale is missing a selector"
            self._set_condition("ScalingActive", LimitVerdict(False, "InvalidSelector", message))
            self._warn("SelectorRequired", "selector is required")
            return "selector is required"
        if len(scale.rivals) > 1:
            names = " ".join(scale.rivals)
            problem = (
                f"pods by selector {scale.selector} are controlled by multiple HPAs: [{names}]"
            )
            self._set_condition("ScalingActive", LimitVerdict(False, "AmbiguousSelector", problem))
            self._warn("AmbiguousSelector", problem)
            return problem
        return ""

    def _metric_replicas(self, metric: Metric, scale: ScaleTarget) -> _MetricReplicas:
        """Returns what a metric asks for. Raises _MetricError."""
        if metric.resource is not None:
            return self._resource("Resource", metric.resource, scale)
        if metric.container_resource is not None:
            return self._resource("ContainerResource", metric.container_resource, scale)
        source: CustomSource | None = getattr(metric, _KINDS[metric.type])
        assert source is not None
        reason = f"FailedGet{metric.type}Metric"
        raise _MetricError(reason, self._missing_api_error(metric.type, source))

    def _missing_api_error(self, type_: str, source: CustomSource) -> str:
        """Returns the error about a metric for which there is no API, in the words of
        Kubernetes.
        """
        namespace, name = self._obj.metadata.namespace, source.metric.name
        match type_:
            case "Object":
                place = f"{source.described_object.kind} {namespace}/{source.described_object.name}"
                why = f"unable to get metric {name}: {NO_CUSTOM} on {place}"
                averaged = f"failed to get {name} object metric: "
            case "External":
                why = f"unable to get external metric {namespace}/{name}: {NO_EXTERNAL}"
                averaged = f"failed to get {name} external metric: "
            case _:
                return f"unable to get metric {name}: {NO_CUSTOM}"
        return f"{averaged}{why}" if source.target.average_value is not None else why

    def _resource(self, type_: str, source: ResourceSource, scale: ScaleTarget) -> _MetricReplicas:
        target, resource, container = source.target, source.name, source.container
        by_value = target.average_value is not None
        try:
            proposal = self._propose(source, scale)
        except NoMetricsError as problem:
            what = "usage" if by_value else "utilization"
            why = f"failed to get {resource} {what}: {problem}"
            raise _MetricError(f"FailedGet{type_}Metric", why) from None
        current: Document = {"averageValue": _quantity(resource, proposal.average)}
        if proposal.utilization is not None:
            current["averageUtilization"] = proposal.utilization
        field = type_[0].lower() + type_[1:]
        of = {"name": resource, **({"container": container} if container else {})}
        within = "container resource" if container else "resource"
        name = (
            f"{resource} resource"
            if by_value
            else f"{resource} {within} utilization (percentage of request)"
        )
        status = {"type": type_, field: {**of, "current": current}}
        return _MetricReplicas(proposal.replicas, name, status)

    def _propose(self, source: ResourceSource, scale: ScaleTarget) -> Proposal:
        """Returns the replicas for a resource. Raises NoMetricsError."""
        target, resource = source.target, source.name
        if self._samples is None:
            samples = {pod.metadata.name: self._sample(pod) for pod in scale.pods}
            self._samples = {name: each for name, each in samples.items() if each is not None}
        if not self._samples:
            raise NoMetricsError(
                f"unable to get metrics for resource {resource}: "
                "no metrics returned from resource metrics API"
            )
        metrics = _metrics(self._samples, resource, source.container)

        def goal() -> Goal:
            if target.average_value is not None:
                return Goal(milli_value(target.average_value))
            requests = requests_of(scale.pods, source.container, resource)
            return Goal(target.average_utilization or 0, requests)

        return propose(
            scale.pods,
            metrics,
            resource,
            goal,
            scale.replicas,
            tolerances(self._obj),
            self._now.timestamp(),
        )

    def _set_condition(self, type_: str, verdict: LimitVerdict) -> None:
        """Sets a condition. Its time changes only with its status."""
        status = "True" if verdict.status else "False"
        before = next((each for each in self._conditions if each["type"] == type_), None)
        condition = {
            "type": type_,
            "status": status,
            "reason": verdict.reason,
            "message": verdict.message,
            "lastTransitionTime": (
                before["lastTransitionTime"]
                if before is not None and before["status"] == status
                else rfc3339(self._now)
            ),
        }
        if before is None:
            self._conditions = [*self._conditions, condition]
        else:
            self._conditions = [condition if e is before else e for e in self._conditions]

    def _warn(self, reason: str, message: str) -> None:
        self._events.append(("Warning", reason, message))

    def _writes(self, current: int, *, rescaled: bool = False) -> list[Write]:
        """Returns the events and the status."""
        obj, status = self._obj, self._obj.status
        events = [
            Create("Event", event_about(obj, type_, reason, message, REPORTER, self._now))
            for type_, reason, message in self._events
            if type_ == "Normal" or (reason, message) not in self._reported
        ]
        last = rfc3339(self._now) if rescaled else status.last_scale_time
        document: Document = {
            "currentReplicas": current,
            "desiredReplicas": self._desired,
            "currentMetrics": self._metrics,
            "conditions": self._conditions,
            **({"lastScaleTime": last} if last else {}),
        }
        return [*events, *status_writes(obj, document)]


def tolerances(autoscaler: HorizontalPodAutoscaler) -> Tolerances:
    behavior = autoscaler.spec.behavior
    if behavior is None:
        return Tolerances()
    down, up = (
        0.1 if rules.tolerance is None else nano_value(rules.tolerance) / 1e9
        for rules in (behavior.scale_down, behavior.scale_up)
    )
    return Tolerances(down, up)


def _error_prefix(metric: Metric) -> str:
    """Returns the beginning of the error message of a metric."""
    match metric.type:
        case "Resource" if metric.resource is not None:
            return f"failed to get {metric.resource.name} resource metric value"
        case "ContainerResource" if metric.container_resource is not None:
            return f"failed to get {metric.container_resource.container} container metric value"
        case "External" if metric.external is not None:
            return f"failed to get {metric.external.metric.name} external metric value"
        case _:
            return f"failed to get {metric.type.lower()} metric value"


def _metrics(samples: Mapping[str, Sample], resource: str, container: str) -> dict[str, PodMetric]:
    """Returns the usage of a resource by pod: of all containers, or of those with one name."""
    metrics: dict[str, PodMetric] = {}
    for name, sample in samples.items():
        counted = [each for each in sample.containers if container in ("", each.name)]
        if not counted or resource not in ("cpu", "memory"):
            continue
        total = sum(
            -(-each.cpu // 10**6) if resource == "cpu" else each.memory * 1000 for each in counted
        )
        metrics[name] = PodMetric(total, sample.at.timestamp(), sample.window)
    return metrics


def _quantity(resource: str, milli: int) -> str:
    """Returns an average as upstream writes it: memory in units such as Mi."""
    if resource == "memory" and milli % 1000 == 0:
        return binary_text(milli // 1000)
    return decimal_text(milli * 10**6)
