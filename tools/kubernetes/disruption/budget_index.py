"""The index keys of pods and budgets, by which each finds the other without a walk.

A pod is filed under all its labels. A budget is filed under the values of one label, of which every
pod that it selects has one; or under its namespace alone, if its selector requires no value.
"""

from __future__ import annotations

from functools import lru_cache

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.labels import Requirement, Selector, selector_or_nothing

from ..objects.structs import PodDisruptionBudget


def pod_labels(pod: Pod) -> tuple[str, ...]:
    return _labels(pod.metadata.namespace, tuple(pod.metadata.labels.items()))


def anything_in(namespace: str) -> str:
    """Returns the index key of budgets that may select any pod of the namespace."""
    return f"{namespace}/"


def budget_labels(budget: PodDisruptionBudget) -> list[str]:
    return selector_labels(budget.metadata.namespace, selector_or_nothing(budget.spec.selector))


def selector_labels(namespace: str, selector: Selector) -> list[str]:
    """Returns the index keys for a selector of pods."""
    if selector.nothing:
        return []
    required = [r for r in selector.requirements if r.operator == "In"]
    if not required:
        return [anything_in(namespace)]
    rarest = min(required, key=_likely_pods)
    return [f"{namespace}/{rarest.key}={value}" for value in rarest.values]


@lru_cache(maxsize=4096)  # most pods share their labels with others, and keep them
def _labels(namespace: str, labels: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(f"{namespace}/{key}={value}" for key, value in labels)


def _likely_pods(requirement: Requirement) -> tuple[int, int]:
    """Returns a sort key for requirements, by how many pods probably meet them: few for a long
    value.
    """
    return len(requirement.values), -len(requirement.values[0])
