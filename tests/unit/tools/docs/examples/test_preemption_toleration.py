"""PreemptionToleration: a class says from whom, and for how long, its pods are safe."""

from __future__ import annotations

from typing import Any

import pytest

from berth.testing import Cluster, check_plugin, node, pod, priority_class, run_virtually
from berth.tools.docs.examples.preemption_toleration import (
    MINIMUM,
    SECONDS,
    PreemptionToleration,
)

Document = dict[str, Any]
HIGH = [priority_class("high", 1000), priority_class("top", 20_000)]
CONFIG = {
    "profiles": [
        {
            "plugins": {
                "postFilter": {
                    "enabled": [{"name": "PreemptionToleration"}],
                    "disabled": [{"name": "*"}],
                }
            }
        }
    ]
}


def low(minimum: str = "10000", seconds: str = "3600") -> Document:
    return priority_class("low", 100, annotations={MINIMUM: minimum, SECONDS: seconds})


def cluster_of(*objects: Document, kubelets: bool = True) -> Cluster:
    first, plugins = (*HIGH, *objects), [PreemptionToleration]
    return Cluster(*first, config=CONFIG, plugins=plugins, kubelets=kubelets)


def of_class(name: str, cpu: int = 2) -> Document:
    return pod(name, cpu=cpu, priorityClassName=name)


def test_pods_are_safe_for_an_hour_unless_the_preemptor_is_high_enough() -> None:
    async def story() -> None:
        async with cluster_of(low(), node("n", cpu=2)) as cluster:
            await cluster.add(of_class("low"))
            await cluster.settled()
            await cluster.add(of_class("high"))
            await cluster.run_for("50m")
            assert cluster.pod("low").running()
            assert cluster.pod("high").pending_because("no pods that tolerate no preemption")
            await cluster.run_for("20m")
            assert cluster.pod("high").running()
            assert cluster.pod("low").evicted_by("PreemptionByScheduler")

    run_virtually(story)


def test_pods_are_not_safe_from_the_minimum_on() -> None:
    async def story() -> None:
        async with cluster_of(low(), node("n", cpu=2)) as cluster:
            await cluster.add(of_class("low"))
            await cluster.settled()
            await cluster.add(of_class("top"))
            await cluster.run_for(60)
            assert cluster.pod("top").running()

    run_virtually(story)


@pytest.mark.parametrize("odd", [{"minimum": "many"}, {"seconds": "1h"}])
def test_a_class_that_cannot_be_read_tolerates_nothing(odd: dict[str, str]) -> None:
    async def story() -> None:
        async with cluster_of(low(**odd), node("n", cpu=2)) as cluster:
            await cluster.add(of_class("low"))
            await cluster.settled()
            await cluster.add(of_class("high"))
            await cluster.run_for(60)
            assert cluster.pod("high").running()

    run_virtually(story)


def test_a_search_of_many_nodes_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.actors.scheduling.decision.guard.MOST_QUESTIONS", 100)

    async def story() -> None:
        async with cluster_of(low(), kubelets=False) as cluster:
            names = [f"n{number}" for number in range(300)]
            safe = [pod(name, cpu=1, node=name, priorityClassName="low") for name in names]
            await cluster.add([node(name, cpu=2) for name in names], safe, of_class("high"))
            await cluster.run_for(5)
            assert cluster.pod("high").pending_because("no pods that tolerate no preemption")

    run_virtually(story)


def test_pods_are_safe_for_ever() -> None:
    async def story() -> None:
        async with cluster_of(low(seconds="-1"), node("n", cpu=2)) as cluster:
            await cluster.add(of_class("low"))
            await cluster.settled()
            await cluster.add(of_class("high"))
            await cluster.run_for("24h")
            assert cluster.pod("low").running()

    run_virtually(story)


def test_a_pod_with_victims_that_terminate_takes_no_others() -> None:
    async def story() -> None:
        plain = priority_class("plain", 10), priority_class("less", 5)
        async with cluster_of(*plain, node("n", cpu=2), kubelets=False) as cluster:
            await cluster.add(pod("a", cpu=2, node="n", priorityClassName="plain"))
            await cluster.add(of_class("high"))
            await cluster.run_for(5)
            await cluster.add(pod("b", cpu=4, node="m", priorityClassName="less"))
            await cluster.add(node("m", cpu=4))  # it wakes the pod
            await cluster.run_for(60)
            assert cluster.pod("a").evicted_by("PreemptionByScheduler")
            assert not cluster.pod("b").evicted_by("PreemptionByScheduler")
            calls = cluster.calls("PreemptionToleration", "post_filter")
            assert [call.pod for call in calls] == ["default/high"] * 2

    run_virtually(story)


def test_its_contracts() -> None:
    check_plugin(
        PreemptionToleration, others=[low(), *HIGH], pods=[of_class("high", 1)], examples=5
    )
