"""The autoscaler as its controller reads it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from berth.actors.scheduling.kube.meta import Int32, Int64, LabelSelector, Object, ObjectMeta
from berth.actors.scheduling.kube.quantity import nano_value
from berth.actors.scheduling.kube.reading import ReadBy

Quantity = Annotated[str | Int64 | float, ReadBy(nano_value)]


class Reference(Object, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""


class Target(Object, frozen=True, kw_only=True):
    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: Int32 | None = None


class Identifier(Object, frozen=True, kw_only=True):
    name: str = ""
    selector: LabelSelector | None = None


class ResourceSource(Object, frozen=True, kw_only=True):
    """The use of a resource by pods, or by the containers of one name in them."""

    name: str = ""
    container: str = ""
    target: Target = Target()


class CustomSource(Object, frozen=True, kw_only=True):
    """A metric of pods, of another object, or from outside the cluster."""

    metric: Identifier = Identifier()
    described_object: Reference = Reference()
    target: Target = Target()


class Metric(Object, frozen=True, kw_only=True):
    type: str = ""
    resource: ResourceSource | None = None
    container_resource: ResourceSource | None = None
    pods: CustomSource | None = None
    object: CustomSource | None = None
    external: CustomSource | None = None


class Policy(Object, frozen=True, kw_only=True):
    type: str = ""
    value: Int32 = 0
    period_seconds: Int32 = 0


class Rules(Object, frozen=True, kw_only=True):
    """The limits on the speed of scaling in one direction."""

    stabilization_window_seconds: Int32 | None = None
    select_policy: str = "Max"
    policies: tuple[Policy, ...] = ()
    tolerance: Quantity | None = None


class Behavior(Object, frozen=True, kw_only=True):
    scale_up: Rules = Rules()
    scale_down: Rules = Rules()


class HorizontalPodAutoscalerSpec(Object, frozen=True, kw_only=True):
    scale_target_ref: Reference = Reference()
    min_replicas: Int32 = 1
    max_replicas: Int32 = 0
    metrics: tuple[Metric, ...] = ()
    behavior: Behavior | None = None


class AutoscalerCondition(Object, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class HorizontalPodAutoscalerStatus(Object, frozen=True, kw_only=True):
    last_scale_time: str | None = None
    current_replicas: Int32 = 0
    desired_replicas: Int32 = 0
    current_metrics: tuple[dict[str, Any], ...] = ()
    conditions: tuple[AutoscalerCondition, ...] = ()


class HorizontalPodAutoscaler(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = msgspec.field(default_factory=HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()
