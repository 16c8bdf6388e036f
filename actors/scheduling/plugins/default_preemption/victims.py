"""Preemption as a dry run: which pods would have to go from which node, and which node costs least.

Pods are removed from the live rows in thought (see berth.actors.scheduling.model.what_if), many
nodes at a time where no rule looks beyond a row; who is asked again and again keeps the answers
(see berth.actors.scheduling.plugins.default_preemption.dry_runs). Every pod of lower priority goes
first; then they are let back in one after the other, the more important ones first, those whose
disruption budget would be broken before all others. Mirrors the framework's preemption package and
DefaultPreemption's choice of victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np
from berth.actors.scheduling.kube.labels import Selector, SelectorError, from_label_selector
from berth.plugin import (
    FailedAttempt,
    PodDisruptionBudget,
    PodInfo,
    Status,
    Supposition,
    Victims,
    error,
    supposing,
    unresolvable,
)

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
LEAST_PRIORITY = 1 << 31  # added to every priority, so that a sum grows with the number of pods


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget that can be read; `exempt` are pods, by name, that count as gone
    already.
    """

    name: str
    namespace: str
    selector: Selector
    allowed: int
    exempt: frozenset[str]

    def covers(self, info: PodInfo) -> bool:
        metadata = info.pod.metadata
        if (
            not metadata.labels
            or metadata.namespace != self.namespace
            or metadata.name in self.exempt
        ):
            return False
        return self.selector.matches(metadata.labels)


class Candidate(msgspec.Struct, frozen=True, dict=True):
    """A node on which the pod would fit without the victims, who are ordered by importance."""

    node: str
    victims: Victims

    @cached_property
    def cost(self) -> tuple[float, ...]:
        """What is compared, in this order: budgets broken, then priorities, number, and how long
        the victims ran.
        """
        pods = self.victims.pods
        highest = max(pod.priority for pod in pods)  # extenders may put them in any order
        earliest = min(pod.started for pod in pods if pod.priority == highest)
        total = sum(pod.priority + LEAST_PRIORITY for pod in pods)
        return (self.victims.pdb_violations, highest, total, len(pods), -earliest)


def budgets(found: Iterable[PodDisruptionBudget]) -> tuple[Budget, ...]:
    """What can be read of them. One with a selector that is empty, absent or malformed covers no
    pod.
    """
    readable = []
    for budget in found:
        try:
            selector = from_label_selector(budget.spec.selector)
        except SelectorError:
            continue
        if selector.nothing or not selector.requirements:
            continue
        metadata, exempt = budget.metadata, frozenset(budget.status.disrupted_pods)
        allowed = budget.status.disruptions_allowed
        readable.append(Budget(metadata.name, metadata.namespace, selector, allowed, exempt))
    return tuple(readable)


def importance(info: PodInfo) -> tuple[float, float]:
    """The more important pods come first: by priority, then by how long they have run."""
    return (-info.priority, info.started)


def violating(pods: Sequence[PodInfo], limits: Sequence[Budget]) -> dict[str, list[str]]:
    """The keys of the pods that budgets, told by name, would not let go, if they went in this
    order.
    """
    allowed = [budget.allowed for budget in limits]
    found: dict[str, list[str]] = {}
    for info in pods:
        for i, budget in enumerate(limits):
            if budget.covers(info):
                allowed[i] -= 1
                if allowed[i] < 0:
                    found.setdefault(info.key, []).append(budget.name)
    return found


Outcome = Candidate | Status


class _Node:
    """One node in a dry run: who waits to be let back in, and who could not be."""

    def __init__(self, row: int, pods: list[PodInfo], limits: Sequence[Budget]) -> None:
        self.row = row
        pods.sort(key=importance)
        self.violating = violating(pods, limits) if limits else {}
        others = [info for info in pods if info.key not in self.violating]
        self.waiting = [info for info in pods if info.key in self.violating] + others
        self.victims: list[PodInfo] = []

    def candidate(self, name: str) -> Outcome:
        if not self.victims:
            return error(f'expected at least one victim pod on node "{name}"')
        self.victims.sort(key=importance)
        broken = sum(info.key in self.violating for info in self.victims)
        return Candidate(name, Victims(tuple(self.victims), broken))


def dry_run(attempt: FailedAttempt, rows: Sequence[int], limits: Sequence[Budget]) -> list[Outcome]:
    """For each row the candidate that it makes, or why it makes none; all at once, which must be of
    no consequence.

    Raises PluginError.
    """
    columns, priority = attempt.snapshot.columns, attempt.info.priority
    found: dict[int, Outcome] = {}
    nodes: list[_Node] = []
    with supposing(attempt.snapshot) as supposition:
        for row in rows:
            info = columns.infos[row]
            assert info is not None, row
            pods = [pod for pod in info.pods.values() if pod.priority < priority]
            if not pods:
                found[row] = NO_VICTIMS
                continue
            for pod in pods:
                supposition.remove(row, pod)
            nodes.append(_Node(row, pods, limits))
        supposition.settle()
        if nodes:
            diagnosis = attempt.supposed(np.array([node.row for node in nodes]))
            fits = diagnosis.feasible().tolist()
            found |= {node.row: diagnosis.status(i) for i, node in enumerate(nodes) if not fits[i]}
            nodes = [node for i, node in enumerate(nodes) if fits[i]]
            _reprieve(attempt, supposition, nodes)
    found |= {node.row: node.candidate(columns.names[node.row]) for node in nodes}
    return [found[row] for row in rows]


def _reprieve(attempt: FailedAttempt, supposition: Supposition, nodes: Sequence[_Node]) -> None:
    """Let back in who can be, one pod a node at a time; the others become victims."""
    turn = 0
    left = list(nodes)
    while left:
        for node in left:
            supposition.add(node.row, node.waiting[turn])
        supposition.settle()
        fits = attempt.supposed(np.array([node.row for node in left])).feasible().tolist()
        for node, fit in zip(left, fits, strict=True):
            if not fit:
                supposition.remove(node.row, node.waiting[turn])
                node.victims.append(node.waiting[turn])
        turn += 1
        left = [node for node in left if turn < len(node.waiting)]
    supposition.settle()


def cheapest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that nothing tells apart from the best, in the order given."""
    if not candidates:
        return []
    costs = [candidate.cost for candidate in candidates]
    least = min(costs)
    return [candidate for candidate, cost in zip(candidates, costs, strict=True) if cost == least]
