"""A plugin that fails, overruns or does not return is switched off, and its story is told."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from berth.actors.scheduling.decision.overruns import PluginOverrunError, interrupt
from berth.plugin import (
    SUCCESS,
    CycleState,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    PodInfo,
    ReservePlugin,
    Status,
    unschedulable,
)
from berth.testing import Cluster, pod, run_virtually
from tests.kit.logs import capture_logs


class Odd(NodeFilterPlugin):
    """A filter that fails until a test mends it."""

    name = "Odd"
    broken: ClassVar[bool] = True
    asked: ClassVar[int] = 0

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        type(self).asked += 1
        if type(self).broken:
            raise OSError("no answer")
        return SUCCESS


class Optional(Odd):
    name = "Optional"
    may_be_left_out = True


def play(kind: type[Odd], check: Callable[[Cluster], None], pods: int = 4) -> list[dict[str, Any]]:
    kind.broken, kind.asked = True, 0

    async def story() -> None:
        async with Cluster(nodes=2, plugins=[kind]) as cluster:
            await cluster.add([pod(f"p{number}") for number in range(pods)])
            await cluster.run_for("20m")
            check(cluster)
            kind.broken = False
            await cluster.run_for("6m")
            assert cluster.pods().placed_on()

    with capture_logs() as lines:
        run_virtually(story)
    return [line for line in lines if line["event"].startswith("plugin ")]


def test_its_pods_fail_with_a_status_that_says_so() -> None:
    def check(cluster: Cluster) -> None:
        assert cluster.pod("p0").pending_because("switched off, as it failed again and again")
        (event, *_) = cluster.events("PluginSwitchedOff")
        assert "The plugin Odd is switched off after failures in a row in Filter" in event
        assert "OSError: no answer" in event
        assert Odd.asked < 40  # in 20 minutes

    lines = play(Odd, check)
    steps = [line for line in lines if line["event"] != "plugin failed"]
    assert [line["event"] for line in steps[:3]] == [
        "plugin switched off",
        "plugin is tried again",
        "plugin switched off",
    ]
    assert steps[-1]["event"] == "plugin works again"
    assert {(line["plugin"], line["point"]) for line in steps} == {("Odd", "Filter")}


def test_a_plugin_that_may_be_left_out_holds_nobody_up() -> None:
    def check(cluster: Cluster) -> None:
        assert cluster.pods().placed_on()
        assert "it is left out" in cluster.events("PluginSwitchedOff")[0]

    play(Optional, check)


class Rejecting(ReservePlugin, NodeScorePlugin):
    """A plugin whose rejections are no failures."""

    name = "Rejecting"

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 1

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return unschedulable("not now")

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass


def test_rejections_switch_nothing_off() -> None:
    async def story() -> None:
        async with Cluster(nodes=2, plugins=[Rejecting]) as cluster:
            await cluster.add([pod(f"p{number}") for number in range(10)])
            await cluster.run_for("10m")
            assert not cluster.events("PluginSwitchedOff")

    run_virtually(story)


class Looping(NodeFilterPlugin):
    """A filter that does not return before it is interrupted, as by a signal."""

    name = "Looping"
    waited: ClassVar[list[float]] = []

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        began = time.monotonic()
        while info.pod.metadata.name == "odd":
            waited = time.monotonic() - began
            interrupt(sys._getframe(), 0.0, 0.0)  # Nothing is overdue by this clock.
            interrupt(sys._getframe(), 1e9, 0.0)
            self.waited.append(waited)
        return SUCCESS


def test_a_loop_is_interrupted_in_the_plugins_own_code() -> None:
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Looping]) as cluster:
            await cluster.add(pod("odd"), pod("even"))
            await cluster.run_for(1)
            assert cluster.pod("even").placed_on("node-1")
            assert cluster.pod("odd").pending_because("PluginOverrunError: interrupted after ")

    with capture_logs():
        run_virtually(story)
    assert not Looping.waited


def test_code_that_no_plugin_calls_is_not_interrupted() -> None:
    interrupt(sys._getframe(), 1e9, 1e9)
    with pytest.raises(PluginOverrunError):
        raise PluginOverrunError
