"""Dry runs of preemption: finds the victims on each node, and the node whose victims cost least.

A dry run removes pods from the live rows as a what-if question (see
berth.actors.scheduling.model.what_if), on many nodes at a time if no rule looks beyond a row.
berth.actors.scheduling.plugins.default_preemption.dry_runs keeps the results. First all pods of
lower priority are removed. Then each is reprieved, that is added back, if the preemptor still fits:
first the pods whose disruption budget would be violated, then the others, both in order of
importance. Mirrors the framework's preemption package and DefaultPreemption's choice of victims.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np

from berth.plugin import (
    PAUSE,
    FailedAttempt,
    PodInfo,
    Status,
    Steps,
    Supposition,
    Victims,
    error,
    supposing,
    unresolvable,
)

from .. import steps as counted
from .budgets import Budgets, violators

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
TOO_LARGE = unresolvable("The pods of lower priority are too large for preemption")
MOST_ON_NODE = 300_000  # the most that is dry run on one node
MOST_STEPS = 50_000  # between two pauses, unless one node takes more
# The steps of a dry run: to ask the filters, for each node, to remove a pod, and to add it back.
ASKING, NODE, REMOVING, ADDING = 160, 10, 30, 20
# Added to every priority, which makes it positive: a sum then grows with the number of pods.
PRIORITY_OFFSET = 1 << 31


class Candidate(msgspec.Struct, frozen=True, dict=True):
    """A node on which the pod would fit without the victims, which are in order of importance.

    `violators` are the keys of the node's pods whose removal would violate a budget: the victims
    depend on them.
    """

    node: str
    victims: Victims
    violators: tuple[str, ...] = ()

    @cached_property
    def cost(self) -> tuple[float, ...]:
        """The criteria, in order; the lowest cost wins.

        They are the budget violations, the highest priority, the sum of priorities, the number of
        victims, and how long the oldest victim of the highest priority has run.
        """
        pods = self.victims.pods
        highest = max(pod.priority for pod in pods)  # extenders may put them in any order
        earliest = min(pod.started for pod in pods if pod.priority == highest)
        total = sum(pod.priority + PRIORITY_OFFSET for pod in pods)
        return (self.victims.pdb_violations, highest, total, len(pods), -earliest)


def importance(info: PodInfo) -> tuple[float, float]:
    """Returns a sort key: pods of higher priority first, then those that have run longer."""
    return (-info.priority, info.started)


Outcome = Candidate | Status


def work_on(attempt: FailedAttempt, row: int) -> int:
    """Returns the work of a dry run on a row that exceeds the work for small pods."""
    own, all_values = attempt.info.template, attempt.seen_by is None
    if not (all_values or own.excess or own.attaches):
        return 0
    info, priority = attempt.snapshot.columns.infos[row], attempt.info.priority
    assert info is not None, row
    lower = [pod.template for pod in info.pods.values() if pod.priority < priority]
    work = sum(t.excess if all_values else min(t.excess, own.excess) for t in lower)
    return work + sum(t.volumes_excess for t in lower) if own.attaches else work


class _Node:
    """A node in a dry run: the pods that may be reprieved, and the victims so far."""

    def __init__(self, row: int, pods: Sequence[PodInfo], violators: tuple[str, ...]) -> None:
        self.row = row
        self.violators = violators
        violating = frozenset(violators)
        self.waiting = sorted(pods, key=lambda info: info.key not in violating)
        self.victims: list[PodInfo] = []

    def candidate(self, name: str) -> Outcome:
        if not self.victims:
            return error(f'expected at least one victim pod on node "{name}"')
        self.victims.sort(key=importance)
        violating = frozenset(self.violators)
        violations = sum(info.key in violating for info in self.victims)
        return Candidate(name, Victims(tuple(self.victims), violations), self.violators)


def _lower_by_importance(pods: Iterable[PodInfo], priority: int) -> list[PodInfo]:
    """Returns the pods of lower priority, in order of importance."""
    return sorted([pod for pod in pods if pod.priority < priority], key=importance)


def violators_on(
    attempt: FailedAttempt, row: int, limits: Budgets, steps: counted.Steps
) -> tuple[str, ...]:
    """Returns the present violators of a candidate."""
    info = attempt.snapshot.columns.infos[row]
    assert info is not None, row
    keys, taken = violators(_lower_by_importance(info.pods.values(), attempt.info.priority), limits)
    steps.take(taken)
    return keys


def dry_run(
    attempt: FailedAttempt, rows: Sequence[int], limits: Budgets, steps: counted.Steps
) -> Steps[list[Outcome]]:
    """Returns, for each row, the candidate or the reason why there is none. Takes steps, but ends
    only when it is done; pauses in between.

    The rows are dry run together, so they must not affect one another. Raises PluginError.
    """
    columns, priority = attempt.snapshot.columns, attempt.info.priority
    outcomes: dict[int, Outcome] = {}
    nodes: list[_Node] = []
    since_pause = 0
    steps.take(ASKING + NODE * len(rows))
    with supposing(attempt.snapshot, attempt.seen_by) as supposition:
        for row in rows:
            info = columns.infos[row]
            assert info is not None, row
            pods = _lower_by_importance(info.pods.values(), priority)
            if not pods:
                outcomes[row] = NO_VICTIMS
                continue
            if work_on(attempt, row) > MOST_ON_NODE:
                outcomes[row] = TOO_LARGE
                continue
            keys, taken = violators(pods, limits) if limits else ((), 0)
            taken += REMOVING * len(pods)
            steps.take(taken)
            for pod in pods:
                supposition.remove(row, pod)
            nodes.append(_Node(row, pods, keys))
            since_pause += taken
            if since_pause > MOST_STEPS:
                since_pause = 0
                yield PAUSE
        supposition.settle()
        if nodes:
            diagnosis = attempt.supposed(np.array([node.row for node in nodes]))
            fits = diagnosis.feasible().tolist()
            outcomes |= {
                node.row: diagnosis.status(i) for i, node in enumerate(nodes) if not fits[i]
            }
            nodes = [node for i, node in enumerate(nodes) if fits[i]]
            yield from _reprieve(attempt, supposition, nodes, steps)
    outcomes |= {node.row: node.candidate(columns.names[node.row]) for node in nodes}
    return [outcomes[row] for row in rows]


def _reprieve(
    attempt: FailedAttempt, supposition: Supposition, nodes: Sequence[_Node], steps: counted.Steps
) -> Steps[None]:
    """Adds back each pod beside which the preemptor still fits, one pod per node at a time.

    The pods that cannot be added back become victims.
    """
    turn = taken = 0
    left = list(nodes)
    while left:
        number = ASKING + ADDING * len(left)
        steps.take(number)
        taken += number
        if taken > MOST_STEPS:
            taken = 0
            yield PAUSE
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


def cheapest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates with the lowest cost, in the given order."""
    if not candidates:
        return []
    costs = [candidate.cost for candidate in candidates]
    least = min(costs)
    return [candidate for candidate, cost in zip(candidates, costs, strict=True) if cost == least]
