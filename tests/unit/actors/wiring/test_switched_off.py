"""A plugin that fails, overruns or does not return is switched off, and its story is told."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from berth.actors.scheduling.decision.overruns import PluginOverrunError, interrupt
from berth.actors.scheduling.framework.breaker import Breaker
from berth.plugin import (
    PAUSE,
    SKIP,
    SUCCESS,
    Action,
    BindPlugin,
    ClusterEvent,
    CycleState,
    FailedAttempt,
    Hint,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    PluginScope,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    Registration,
    ReservePlugin,
    Resource,
    Status,
    Steps,
    error,
    unschedulable,
)
from berth.testing import Cluster, pod, run_virtually
from tests.kit.logs import capture_logs

EVERYWHERE = {
    "multiPoint": {"enabled": [{"name": "Slow"}]},
    "bind": {
        "enabled": [{"name": "Slow"}, {"name": "DefaultBinder"}],
        "disabled": [{"name": "*"}],
    },
}


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
        assert cluster.pod("p0").pending_because("switched off, as it failed")
        (event, *_) = cluster.events("PluginSwitchedOff")
        assert "The plugin Odd is switched off, and its pods fail; the last failure, in" in event
        assert "in Filter: OSError: no answer" in event
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


class Gating(PreEnqueuePlugin):
    """A plugin whose PreEnqueue fails for pods of a profile until a test mends it. Any event may
    help these pods, but those of bystanders.
    """

    name = "Gating"
    broken: ClassVar[bool] = True

    def pre_enqueue(self, pod: Pod) -> Status:
        if Gating.broken and pod.spec.scheduler_name == "gated":
            raise OSError("no answer")
        return SUCCESS

    def events_to_register(self) -> Sequence[Registration]:
        def hint(pod: Pod, old: object | None, new: object | None) -> Hint:
            return Hint.SKIP if "bystander" in str(new) else Hint.QUEUE

        return (Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.ALL), hint),)


def test_pods_that_it_gates_wait_for_it_and_not_for_events(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []
    words = Breaker.in_words

    def in_words(breaker: Breaker, now: float) -> str:
        refused.append(now)
        return words(breaker, now)

    monkeypatch.setattr(Breaker, "in_words", in_words)
    gated = {"schedulerName": "gated", "plugins": {"multiPoint": {"enabled": [{"name": "Gating"}]}}}
    config = {"profiles": [{"schedulerName": "default-scheduler"}, gated]}

    async def story() -> None:
        async with Cluster(nodes=2, plugins=[Gating], config=config) as cluster:
            await cluster.add([pod(f"g{number}", schedulerName="gated") for number in range(6)])
            await cluster.run_for(1)
            assert cluster.pod("g5").pending_because("switched off")
            refused.clear()
            await cluster.add([pod(f"bystander-{number}") for number in range(50)])
            await cluster.run_for(8)
            assert len(refused) < 10
            Gating.broken = False
            await cluster.run_for(5)
            await cluster.add(pod("bystander-late"))
            await cluster.run_for(5)
            for number in range(6):
                assert cluster.pod(f"g{number}").placed_on()

    with capture_logs():
        run_virtually(story)


def test_pods_that_it_gates_are_placed_after_its_rest_if_nothing_happens() -> None:
    gated = {"schedulerName": "gated", "plugins": {"multiPoint": {"enabled": [{"name": "Gating"}]}}}

    async def story() -> None:
        async with Cluster(nodes=2, plugins=[Gating], config={"profiles": [gated]}) as cluster:
            Gating.broken = True
            await cluster.add([pod(f"g{number}", schedulerName="gated") for number in range(6)])
            await cluster.run_for(1)
            assert cluster.pod("g5").pending_because("switched off")
            Gating.broken = False
            await cluster.run_for(45)  # its rest of 10 s, and a flush, which is every 30 s
            assert cluster.pods().placed_on()

    with capture_logs():
        run_virtually(story)


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


class Slow(NodeFilterPlugin, PostFilterPlugin, PreBindPlugin, BindPlugin):
    """A plugin one method of which takes `seconds` of its breaker's time. From `longest` on it is
    interrupted.
    """

    name = "Slow"
    method: ClassVar[str]
    seconds: ClassVar[float] = 1.5
    longest: ClassVar[float] = 5.0

    def works(self, method: str) -> None:
        if method == self.method:
            self.spent += self.seconds
            if self.seconds >= self.longest:
                raise PluginOverrunError(f"interrupted after {self.seconds} s")

    async def start(self, scope: PluginScope) -> None:
        breaker = self.breaker
        assert breaker is not None
        now, self.spent = breaker.now, 0.0
        breaker.now = lambda: now() + self.spent
        scope.every(1, lambda: self.works("task"))

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        is_odd = self.method in ("post_filter", "hint") and "odd" in info.pod.metadata.name
        return unschedulable("full") if is_odd else SUCCESS

    def post_filter(self, attempt: FailedAttempt) -> Steps[PostFiltered]:
        yield PAUSE
        self.works("post_filter")
        return PostFiltered(unschedulable())

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        await asyncio.sleep(3)  # It may wait as long as it likes.
        self.works("pre_bind")
        return error("no") if self.method == "roll_back" else SUCCESS

    async def roll_back(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.works("roll_back")

    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.works("bind")
        return SKIP

    def events_to_register(self) -> Sequence[Registration]:
        def hint(pod: Pod, old: object | None, new: object | None) -> Hint:
            self.works("hint")
            return Hint.QUEUE

        return (Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.ALL), hint),)


@pytest.mark.parametrize("seconds", [pytest.param(1.5, marks=pytest.mark.full("long")), 6.0])
@pytest.mark.parametrize("method", ["post_filter", "pre_bind", "roll_back", "bind", "hint", "task"])
def test_a_slow_call_counts_wherever_it_is(
    method: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that had to be interrupted suffices."""
    monkeypatch.setattr(Slow, "method", method, raising=False)
    monkeypatch.setattr(Slow, "seconds", seconds)
    config = {"profiles": [{"plugins": EVERYWHERE}]}

    async def story() -> None:
        async with Cluster(nodes=2, plugins=[Slow], config=config) as cluster:
            for number in range(1 if seconds > Slow.longest else 6):
                await cluster.add(pod(f"odd{number}"), pod(f"even{number}"))
                await cluster.run_for(4)
            await cluster.run_for(3)
            if method != "task":  # There is no pod to tell it about.
                (event, *_) = cluster.events("PluginSwitchedOff")
                assert "The plugin Slow is switched off" in event

    with capture_logs() as lines:
        run_virtually(story)
    assert "plugin switched off" in [line["event"] for line in lines]


def test_a_task_of_a_plugin_rests_while_it_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Slow, "method", "task", raising=False)
    monkeypatch.setattr(Slow, "seconds", 6.0)
    calls = []

    class Counted(Slow):
        name = "Counted"

        def works(self, method: str) -> None:
            calls.append(method)
            super().works(method)

    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Counted]) as cluster:
            await cluster.run_for("10m")
            assert 3 < calls.count("task") < 10
            monkeypatch.setattr(Slow, "method", "none")
            await cluster.run_for("6m")
            calls.clear()
            await cluster.add(pod("a"))
            await cluster.run_for(10)
            assert calls.count("task") >= 9  # once a second
            assert cluster.pod("a").placed_on()

    with capture_logs() as lines:
        run_virtually(story)
    assert lines[-1]["event"] == "plugin works again"


class Shifted(ReservePlugin):
    """A plugin that takes time of a clock that such plugins share."""

    spent: ClassVar[float] = 0.0

    async def start(self, scope: PluginScope) -> None:
        breaker = self.breaker
        assert breaker is not None
        now = breaker.now
        breaker.now = lambda: now() + Shifted.spent

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return error("no")

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None: ...


class Undoing(Shifted):
    """A plugin that takes too long when it undoes, and from the fourth call on in its task."""

    name = "Undoing"
    tasks: ClassVar[int] = 0
    undone: ClassVar[int] = 0

    async def start(self, scope: PluginScope) -> None:
        await super().start(scope)
        scope.every(1, self.work)

    def work(self) -> None:
        Undoing.tasks += 1
        Shifted.spent += 6.0 if Undoing.tasks > 3 else 0.0

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        Undoing.undone += 1
        Shifted.spent += 6.0


class Brief(Shifted):
    """A plugin that takes too long for some pods."""

    name = "Brief"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        Shifted.spent += 1.5 if info.pod.metadata.name == "late" else 0.0
        return SUCCESS


def test_a_plugin_rests_from_all_in_which_it_takes_too_long() -> None:
    """Also from what it undoes, and from a task while it is off for something else. Meanwhile,
    another one is switched off after the first call that takes too long.
    """

    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Brief, Undoing]) as cluster:
            await cluster.add(pod("a"))
            await cluster.run_for("10m")
            assert 2 <= Undoing.undone < 12
            assert 5 <= Undoing.tasks < 15
            await cluster.add(pod("late"))
            await cluster.run_for(1)
            events = cluster.events("PluginSwitchedOff")
            assert any("Brief is switched off" in event for event in events)

    with capture_logs():
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


class Compared:
    """A key of which each comparison takes 0.3 s of the breaker's time, or does not return before
    it is interrupted.
    """

    def __init__(self, plugin: Comparing) -> None:
        self.plugin = plugin

    def __lt__(self, other: object) -> bool:
        if self.plugin.loops:
            interrupt(sys._getframe(), 1e9, 1e9)
            raise AssertionError("not interrupted")
        self.plugin.spent += 0.3
        return True


class Comparing(QueueSortPlugin):
    name = "Comparing"
    loops: ClassVar[bool]
    spent = 0.0

    async def start(self, scope: PluginScope) -> None:
        breaker = self.breaker
        assert breaker is not None
        now = breaker.now
        breaker.now = lambda: now() + self.spent

    def sort_key(self, info: PodInfo, enqueued_at: float) -> Compared:
        return Compared(self)


@pytest.mark.parametrize("loops", [False, True])
def test_keys_that_are_slow_to_compare_are_no_longer_compared(
    loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Comparing, "loops", loops, raising=False)

    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Comparing]) as cluster:
            await cluster.add([pod(f"p{number}") for number in range(50)])
            await cluster.run_for("10m")
            assert len(cluster.pods()) == 50
            assert cluster.pods().running()

    with capture_logs() as lines:
        run_virtually(story)
    if loops:
        assert any("PluginOverrunError: interrupted" in line.get("error", "") for line in lines)
    else:
        (line, *_) = [line for line in lines if line["event"] == "plugin switched off"]
        assert (line["point"], line["error"]) == ("QueueSort", "took 2.1 s in one attempt")


class InterruptedTextError(Exception):
    """An exception that is interrupted once more while its text is written."""

    def __str__(self) -> str:
        interrupt(sys._getframe(), 1e9, 1e9)
        return "its text"


class Failing(NodeFilterPlugin):
    name = "Failing"

    async def start(self, scope: PluginScope) -> None:
        raise InterruptedTextError

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        raise InterruptedTextError


def test_what_is_told_of_a_call_is_not_interrupted_with_it() -> None:
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Failing]) as cluster:
            await cluster.add(pod("a"))
            await cluster.run_for(1)
            assert cluster.pod("a").pending_because("InterruptedTextError: its text")

    with capture_logs() as lines:
        run_virtually(story)
    assert {line["point"] for line in lines if line["event"] == "plugin failed"} == {
        "Filter",
        "Start",
    }


def test_code_that_no_plugin_calls_is_not_interrupted() -> None:
    interrupt(sys._getframe(), 1e9, 1e9)
    with pytest.raises(PluginOverrunError):
        raise PluginOverrunError
