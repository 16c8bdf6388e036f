"""What is remembered of nodes gives way to what becomes of them."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from actors.cache.state import CacheState, Lend
from actors.cycle.state import Chosen, Scheduler
from actors.kube.core import Node, Pod
from actors.messages import NodeAdded, NodeUpdated, TakeSnapshot
from actors.model.pod_info import PodInfo
from actors.system import profiles_of
from config.types import KubeSchedulerConfiguration
from tests.kit.handle import NoApi, Nowhere

PROFILE = profiles_of(KubeSchedulerConfiguration(), NoApi())["default-scheduler"]
NAMES = ["n0", "n1", "n2"]


def make_node(name: str, effect: str = "") -> Node:
    document = {
        "metadata": {"name": name},
        "spec": {"taints": [{"key": "k", "effect": effect}] if effect else []},
        "status": {"allocatable": {"cpu": 1, "memory": "1Gi", "pods": 2}},
    }
    return msgspec.convert(document, Node)


def chosen(scheduler: Scheduler, cache: CacheState) -> str:
    (lend,) = cache.handle(TakeSnapshot(Nowhere()))
    assert isinstance(lend, Lend)
    pod = msgspec.convert({"metadata": {"namespace": "default", "name": "p"}}, Pod)
    outcome = scheduler.schedule(PROFILE, PodInfo(pod), lend.snapshot)
    assert isinstance(outcome, Chosen)
    return outcome.node


@pytest.mark.parametrize("effect", ["PreferNoSchedule", "NoSchedule"])
def test_a_taint_is_seen_by_pods_whose_like_were_scheduled_before(effect: str) -> None:
    cache, scheduler = CacheState(), Scheduler(Random(1))
    for name in NAMES:
        cache.handle(NodeAdded(make_node(name)))
    assert {chosen(scheduler, cache) for _ in range(30)} == {*NAMES}
    cache.handle(NodeUpdated(make_node("n1"), make_node("n1", effect)))
    assert {chosen(scheduler, cache) for _ in range(30)} == {"n0", "n2"}
    cache.handle(NodeUpdated(make_node("n1", effect), make_node("n1")))
    assert {chosen(scheduler, cache) for _ in range(30)} == {*NAMES}
