"""The labels by which pods and budgets are indexed, so that each finds the other without a walk.

A pod is filed under all its labels. A budget is filed under the values of one label, of which every
pod that it selects has one; or under its namespace, if its selector requires no value.
"""

from __future__ import annotations

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.labels import Requirement

from .claim import selector_from
from .objects import PodDisruptionBudget


def pod_labels(pod: Pod) -> list[str]:
    namespace = pod.metadata.namespace
    labels = [f"{namespace}/{key}={value}" for key, value in pod.metadata.labels.items()]
    return [f"{namespace}/", *labels]


def budget_labels(budget: PodDisruptionBudget) -> list[str]:
    namespace, selector = budget.metadata.namespace, selector_from(budget.spec.selector)
    if selector.nothing:
        return []
    required = [r for r in selector.requirements if r.operator == "In"]
    if not required:
        return [f"{namespace}/"]
    rarest = min(required, key=_likely_pods)
    return [f"{namespace}/{rarest.key}={value}" for value in rarest.values]


def _likely_pods(requirement: Requirement) -> tuple[int, int]:
    """Orders requirements by how many pods meet them: a long value is likely to be a rare one."""
    return len(requirement.values), -len(requirement.values[0])
