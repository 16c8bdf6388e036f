"""Budgets are read once, and a victim is compared with those of its own namespace only."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.cache.state import CacheState, Lend
from berth.actors.messages.cache import ObjectPut, ObjectRemoved, TakeSnapshot
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.plugins.default_preemption import kept_budgets
from berth.actors.scheduling.plugins.default_preemption.kept_budgets import KeptBudgets
from berth.actors.scheduling.plugins.default_preemption.victims import (
    Budget,
    read_budget,
    violating,
)
from tests.kit.handle import Nowhere


def budget(name: str, namespace: str = "ns", allowed: int = 0) -> PodDisruptionBudget:
    document = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(document, PodDisruptionBudget)


def snapshot_of(cache: CacheState) -> Snapshot:
    (lend,) = cache.handle(TakeSnapshot(Nowhere()))
    assert isinstance(lend, Lend)
    return lend.snapshot


def test_only_budgets_that_changed_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(item: PodDisruptionBudget) -> Budget | None:
        read.append(item.metadata.name)
        return read_budget(item)

    monkeypatch.setattr(kept_budgets, "read_budget", reading)
    cache, kept = CacheState(), KeptBudgets()
    for name in "abc":
        cache.handle(ObjectPut(budget(name)))
    snapshot = snapshot_of(cache)
    assert kept.of(snapshot) is kept.of(snapshot)
    assert read == ["a", "b", "c"]
    cache.handle(ObjectPut(budget("b", allowed=1)))
    cache.handle(ObjectRemoved(budget("c")))
    assert [(b.name, b.allowed) for b in kept.of(snapshot)["ns"]] == [("a", 0), ("b", 1)]
    assert read == ["a", "b", "c", "b"]


def test_a_victim_is_compared_with_the_budgets_of_its_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []
    covers = Budget.covers

    def comparing(self: Budget, info: PodInfo) -> bool:
        compared.append(f"{self.namespace}/{self.name}")
        return covers(self, info)

    monkeypatch.setattr(Budget, "covers", comparing)
    cache = CacheState()
    for number in range(100):
        cache.handle(ObjectPut(budget(f"b{number}", "hostile")))
    cache.handle(ObjectPut(budget("own")))
    pod = {"metadata": {"name": "p", "namespace": "ns", "labels": {"app": "a"}}}
    info = PodInfo(msgspec.convert(pod, Pod))
    assert violating([info], KeptBudgets().of(snapshot_of(cache))) == {"ns/p": ["own"]}
    assert compared == ["ns/own"]
