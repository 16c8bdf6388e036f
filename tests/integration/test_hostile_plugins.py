"""Plugins that are wrong in ways which no check of an answer sees: other pods are placed all the
same, and the failure names the plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import pytest

from berth.plugin import (
    PAUSE,
    PODS_TO_ACTIVATE,
    SUCCESS,
    CycleState,
    FailedAttempt,
    Ints,
    NodeFilterPlugin,
    NodeInfo,
    NodeView,
    Plugin,
    PluginScope,
    Pod,
    PodInfo,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
    UserMessageError,
    error,
    unschedulable,
)
from berth.testing import Cluster, pod, run_virtually
from berth.tools.testing import virtual_time
from tests.kit.logs import capture_logs

HALF = "gone-\udcff"  # what Python makes of a file name that is not UTF-8


class Filtering(NodeFilterPlugin):
    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return self.answer(info)

    def answer(self, info: PodInfo) -> Status:
        raise NotImplementedError


class Closing(Filtering):
    name = "Closing"

    def answer(self, info: PodInfo) -> Status:
        raise GeneratorExit


class Circling(Filtering):
    name = "Circling"

    def answer(self, info: PodInfo) -> Status:
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        raise first


class NoText(Filtering):
    name = "NoText"

    def answer(self, info: PodInfo) -> Status:
        raise FileNotFoundError(HALF)


class NoWords(Filtering):
    name = "NoWords"

    def answer(self, info: PodInfo) -> Status:
        raise UserMessageError(HALF)


class NoReason(Filtering):
    name = "NoReason"

    def answer(self, info: PodInfo) -> Status:
        return error(HALF)


class Talking(Filtering):
    name = "Talking"

    def answer(self, info: PodInfo) -> Status:
        return unschedulable(*map(str, range(100_000)))


class Noting(Filtering):
    name = "Noting"

    def answer(self, info: PodInfo) -> Status:
        self.handle.event(info, "Noted", HALF)
        self.handle.event(info, "Noted", ["no text"])  # type: ignore[arg-type]
        return SUCCESS


class Measuring(Filtering):
    name = "Measuring"

    def answer(self, info: PodInfo) -> Status:
        self.handle.metrics.histogram("measured", "").observe("much")  # type: ignore[arg-type]
        return SUCCESS


class Searching(Filtering, PostFilterPlugin):
    name = "Searching"

    def answer(self, info: PodInfo) -> Status:
        return unschedulable("no")

    def post_filter(self, attempt: FailedAttempt) -> Iterator[Any]:  # type: ignore[override]
        while True:
            try:
                yield PAUSE
            except GeneratorExit:
                continue


class _Odd(np.ndarray[Any, Any]):
    def __array_ufunc__(self, *_: Any, **__: Any) -> NoReturn:
        raise SystemExit(3)


class OddScores(ScorePlugin):
    name = "OddScores"

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.zeros(nodes.size, dtype=np.int64).view(_Odd)


class Reserving(ReservePlugin):
    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None: ...


class Activating(Reserving):
    name = "Activating"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        pods: Any = ("default/other",)
        state.write(PODS_TO_ACTIVATE, pods)
        return SUCCESS


class Assuming(Reserving):
    name = "Assuming"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.handle.objects.assume(node)  # type: ignore[arg-type]
        return SUCCESS


class Restoring(Reserving):
    name = "Restoring"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.handle.objects.restore(None)  # type: ignore[arg-type]
        return SUCCESS


class Rejecting(Reserving):
    name = "Rejecting"

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.handle.reject(info, 5)  # type: ignore[arg-type]
        return SUCCESS


class Leaving(PreBindPlugin):
    """Raises SystemExit where it is cancelled."""

    name = "Leaving"

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        try:
            await asyncio.sleep(1e6)
        finally:
            raise SystemExit(4)


CASES: list[tuple[type[Plugin], str]] = [
    (Closing, "GeneratorExit (node node-1)"),
    (Circling, "ValueError: first (node node-1)"),
    (NoText, r"FileNotFoundError: gone-\udcff (node node-1)"),
    (NoWords, r"gone-\udcff (node node-1)"),
    (NoReason, r"gone-\udcff"),
    (Talking, "expected 1000 reasons at most, got 100000 (node node-1)"),
    (Noting, "TypeError: note of an event: expected a text, got ['no text'] (node node-1)"),
    (Measuring, "TypeError: expected a number, got 'much' (node node-1)"),
    (Searching, "PluginOverrunError: no answer after 10,001 questions or pauses"),
    (OddScores, "expected an integer for each of 2 nodes, got _Odd"),
    (Activating, "TypeError: PodsToActivate: expected a set of namespace/name, got ("),
    (Assuming, "TypeError: expected an object of a kind that plugins look up, got 'node-"),
    (Restoring, "TypeError: expected an object of a kind that plugins look up, got None"),
    (Rejecting, "TypeError: reason: expected a text, got 5"),
]


def beside(plugin: type[Plugin]) -> dict[str, Any]:
    """Returns a configuration with a profile that has the plugin, and one that has not."""
    without = {"multiPoint": {"disabled": [{"name": plugin.name}]}}
    profiles = [
        {"schedulerName": "default-scheduler", "plugins": without},
        {"schedulerName": "bad"},
    ]
    return {"profiles": profiles}


# Python itself complains of the generator of Searching, which nobody can end.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("plugin", "text"), CASES, ids=lambda case: getattr(case, "name", ""))
def test_the_failure_is_told_and_other_pods_are_placed(plugin: type[Plugin], text: str) -> None:
    async def story() -> None:
        bad = [pod(f"bad-{number}", schedulerName="bad") for number in range(2)]
        config = beside(plugin)
        async with Cluster(*bad, nodes=2, plugins=[plugin], config=config) as cluster:
            await cluster.run_for(5)
            assert cluster.pod("bad-0").pending_because(text)
            assert any(text in note for note in cluster.events("FailedScheduling"))
            await cluster.run_for(60)
            await cluster.add(pod("good"))
            await cluster.run_for(5)
            assert cluster.pod("good").placed_on()
            assert any(plugin.name in note for note in cluster.events("PluginSwitchedOff"))

    with capture_logs():
        run_virtually(story)


def test_what_pre_bind_raises_instead_of_its_cancellation_is_its_failure() -> None:
    async def story() -> None:
        async with Cluster(
            pod("bad", schedulerName="bad"), nodes=1, plugins=[Leaving], config=beside(Leaving)
        ) as cluster:
            await cluster.run_for(5)
            await cluster.delete("Pod", "bad")
            await cluster.add(pod("good"))
            await cluster.run_for(5)
            assert cluster.pod("good").placed_on("node-1")

    with capture_logs() as lines:
        run_virtually(story)
    assert any(line.get("error") == "SystemExit: 4" for line in lines)


class Quitting(PreEnqueuePlugin):
    name = "Quitting"

    async def start(self, scope: PluginScope) -> None:
        raise SystemExit(1)

    async def close(self) -> None:
        raise SystemExit(2)

    def pre_enqueue(self, pod: Pod) -> Status:
        return SUCCESS


def test_an_exit_in_start_and_in_close_ends_nothing() -> None:
    async def story() -> None:
        async with Cluster(pod("good"), nodes=1, plugins=[Quitting]) as cluster:
            await cluster.run_for(5)
            assert cluster.pod("good").placed_on("node-1")

    with capture_logs() as lines:
        run_virtually(story)
    told = {(line["point"], line["error"]) for line in lines if line["event"] == "plugin failed"}
    assert told == {("Start", "SystemExit: 1"), ("Close", "SystemExit: 2")}


class Spinning(PreEnqueuePlugin):
    name = "Spinning"

    async def start(self, scope: PluginScope) -> None:
        async def spin() -> None:
            while True:
                await asyncio.sleep(0)

        scope.run(spin)

    def pre_enqueue(self, pod: Pod) -> Status:
        return SUCCESS


def test_a_task_that_never_waits_ends_a_test_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Spinning]) as cluster:
            await cluster.run_for(5)

    monkeypatch.setattr(virtual_time, "MOST_TURNS", 20_000)
    with pytest.raises(virtual_time.StandStillError, match="run: a task of plugin Spinning"):
        run_virtually(story)
