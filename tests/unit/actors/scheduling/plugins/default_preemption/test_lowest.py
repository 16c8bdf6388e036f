"""Nodes without pods of lower priority are not dry run, and a new pod of lower priority counts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    NodeAdded,
)
from berth.actors.scheduling.decision.outcome import Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.plugins import steps as counted
from berth.actors.scheduling.plugins.default_preemption import dry_runs
from berth.actors.scheduling.plugins.default_preemption.budgets import Budgets
from berth.actors.scheduling.plugins.default_preemption.victims import Outcome, dry_run
from berth.plugin import FailedAttempt, Steps
from tests.kit import structs
from tests.kit.profiles import profile_of

NODES = 40


def pod(name: str, node: str = "", priority: int = 5) -> Pod:
    """Returns a pod that must not share a zone with one of the same labels."""
    labels = {"app": "same"}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": labels}}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return structs.pod(name, node=node, priority=priority, labels=labels, affinity=away)


class Cluster:
    """Nodes of one zone, with a pod that keeps pods like it away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache, self.scheduler = CacheState(), Scheduler(Random(1))
        self.profile = profile_of()
        self.dry_run: list[str] = []  # the nodes
        for number in range(NODES):
            added = structs.node(f"n{number}", 1, pods=9, labels={"zone": "z"})
            self.cache.handle(NodeAdded(added))
        self.cache.handle(AssignedPodAdded(pod("on-n3", "n3")))

        def counting(
            attempt: FailedAttempt, rows: Sequence[int], limits: Budgets, left: counted.Steps
        ) -> Steps[list[Outcome]]:
            self.dry_run += [attempt.snapshot.columns.names[row] for row in rows]
            return dry_run(attempt, rows, limits, left)

        monkeypatch.setattr(dry_runs, "dry_run", counting)

    def decide(self, pending: Pod) -> Unfit:
        outcome = self.scheduler.schedule(self.profile, PodInfo(pending), self.cache.snapshot())
        assert isinstance(outcome, Unfit)
        return outcome


def test_nodes_without_pods_of_lower_priority_are_not_dry_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    outcome = cluster.decide(pod("p"))
    assert f"{NODES} No preemption victims found for incoming pod" in outcome.message
    assert cluster.dry_run == []


def test_pods_that_come_and_go_count_from_the_next_pod_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.decide(pod("p"))
    cluster.cache.handle(AssignedPodDeleted(pod("on-n3", "n3")))
    cluster.cache.handle(AssignedPodAdded(pod("low", "n7", priority=1)))
    outcome = cluster.decide(pod("q"))
    assert outcome.nomination is not None
    assert outcome.nomination.node == "n7"
    assert cluster.dry_run == ["n7"]
    cluster.cache.handle(AssignedPodDeleted(pod("low", "n7", priority=1)))
    cluster.cache.handle(AssignedPodAdded(pod("equal", "n8")))
    cluster.decide(pod("r"))
    assert cluster.dry_run == ["n7"]


def test_a_new_node_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.decide(pod("p"))
    metadata = {"name": "new", "labels": {"zone": "other"}}
    status = {"allocatable": {"cpu": 1, "memory": "8Gi", "pods": 9}}
    cluster.cache.handle(NodeAdded(msgspec.convert({"metadata": metadata, "status": status}, Node)))
    cluster.cache.handle(AssignedPodAdded(pod("low", "new", priority=1)))
    outcome = cluster.decide(pod("q"))
    assert outcome.nomination is not None
    assert outcome.nomination.node == "new"
