"""policy/v1 as far as scheduling reads it."""

from __future__ import annotations

import msgspec
from berth.actors.scheduling.kube.core import Object
from berth.actors.scheduling.kube.meta import Int32, LabelSelector, ObjectMeta


class PodDisruptionBudgetSpec(
    Object, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(
    Object, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """`disrupted_pods` are pods whose eviction the API server has let pass, by name."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str | None] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(
    Object, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
