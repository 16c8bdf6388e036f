"""Remembered dry runs of preemption are dropped as soon as anything that they depend on changes."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from berth.actors.cache.state import CacheState, Lend
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    NodeAdded,
    Nominate,
    ObjectPut,
    TakeSnapshot,
)
from berth.actors.scheduling.decision.outcome import Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration
from tests.kit.handle import NoApi, Nowhere


def pod(name: str, node: str = "", priority: int = 0, started: int | None = None) -> Pod:
    document = {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": name,
            "labels": {"app": name if node else "new"},
        },
        "spec": {
            "nodeName": node,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "900m"}}}],
        },
        "status": {} if started is None else {"startTime": f"2026-01-01T00:00:0{started}Z"},
    }
    return msgspec.convert(document, Pod)


class Cluster:
    """Two nodes, each filled by one pod. The pod on `late` started later, which makes it the better
    victim.
    """

    def __init__(self) -> None:
        self.cache = CacheState()
        self.scheduler = Scheduler(Random(1))
        self.profile = profiles_of(KubeSchedulerConfiguration(), NoApi())["default-scheduler"]
        for name, started in (("early", 1), ("late", 5)):
            node = {
                "metadata": {"name": name},
                "status": {"allocatable": {"cpu": 1, "memory": "8Gi", "pods": 9}},
            }
            self.cache.handle(NodeAdded(msgspec.convert(node, Node)))
            self.cache.handle(AssignedPodAdded(pod(f"on-{name}", name, started=started)))
        for number in range(3):  # the template is remembered, and every row has been read
            assert self.promised(pod(f"before-{number}", priority=9)) == "late"

    def promised(self, pending: Pod) -> str:
        """Returns the node that preemption nominates for a pod, or ""."""
        (lend,) = self.cache.handle(TakeSnapshot(Nowhere()))
        assert isinstance(lend, Lend)
        outcome = self.scheduler.schedule(self.profile, PodInfo(pending), lend.snapshot)
        assert isinstance(outcome, Unfit)
        return "" if outcome.nomination is None else outcome.nomination.node


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_budget_counts_from_the_next_pod_on(cluster: Cluster) -> None:
    budget = {
        "metadata": {"namespace": "ns", "name": "keep"},
        "spec": {"selector": {"matchLabels": {"app": "on-late"}}},
        "status": {"disruptionsAllowed": 0},
    }
    cluster.cache.handle(ObjectPut(msgspec.convert(budget, PodDisruptionBudget)))
    assert cluster.promised(pod("next", priority=9)) == "early"
    cluster.cache.handle(
        ObjectPut(
            msgspec.convert(budget | {"status": {"disruptionsAllowed": 1}}, PodDisruptionBudget)
        )
    )
    assert cluster.promised(pod("third", priority=9)) == "late"


def test_a_pod_that_has_started_is_judged_by_its_start(cluster: Cluster) -> None:
    cluster.cache.handle(AssignedPodAdded(pod("on-late", "late", started=0)))
    assert cluster.promised(pod("next", priority=9)) == "early"


def test_a_new_pod_on_a_node_is_a_victim_there(cluster: Cluster) -> None:
    cluster.cache.handle(AssignedPodDeleted(pod("on-late", "late")))
    cluster.cache.handle(AssignedPodAdded(pod("vital", "late", priority=9)))
    assert cluster.promised(pod("next", priority=9)) == "early"


def test_a_nominated_pods_room_is_free_only_for_itself(cluster: Cluster) -> None:
    first, second = pod("first", priority=9), pod("second", priority=9)
    cluster.cache.handle(Nominate(PodInfo(first), "late"))
    for _ in range(2):
        assert cluster.promised(second) == "early"
        assert cluster.promised(first) == "late"
