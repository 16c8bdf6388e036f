"""The fields of policy/v1's PodDisruptionBudget that scheduling reads."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .meta import Int32, LabelSelector, Object, WholeObject


class PodDisruptionBudgetSpec(Object, frozen=True, kw_only=True):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Object, frozen=True, kw_only=True):
    """The status of a budget. `disrupted_pods` holds pods whose eviction is granted, by name."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: Mapping[str, str | None] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(WholeObject, frozen=True, kw_only=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
