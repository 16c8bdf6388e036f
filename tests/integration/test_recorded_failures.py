"""The flight recorder tells of the failures after a decision, with their reason and their time."""

from __future__ import annotations

from typing import ClassVar

import anyio
import pytest

from berth.actors.attempt.attempts_page import RecordedAttempt
from berth.actors.client.rest import ApiError
from berth.actors.messages.cache import AssignedPodAdded
from berth.plugin import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    PermitPlugin,
    PodInfo,
    PreBindPlugin,
    PreBindPreFlightResult,
    ReservePlugin,
    Status,
    unschedulable,
)
from berth.tools.views.commands.why import lines_of
from tests.kit.pipeline import Pipeline, pipeline
from tests.kit.structs import node, pod

NODE = node("n", 1)


class Fragile(ReservePlugin, PermitPlugin, PreBindPlugin):
    """A plugin that rejects pods at one extension point."""

    name = "Fragile"
    fails: ClassVar[str]

    def _answer(self, point: str) -> Status:
        return unschedulable("no") if self.fails == point else SUCCESS

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return self._answer("reserve")

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        waits = self.fails == "wait"
        return (Status(Code.WAIT) if waits else self._answer("permit")), 60.0

    def pre_bind_pre_flight(
        self, state: CycleState, info: PodInfo, node: str
    ) -> Status | PreBindPreFlightResult:
        return PreBindPreFlightResult(True) if self.fails == "pre-bind" else SKIP

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return self._answer("pre-bind")


def attempts(running: Pipeline, name: str) -> tuple[RecordedAttempt, ...]:
    assert running.flights is not None
    return running.flights.page(f"ns/{name}").attempts


@pytest.mark.parametrize(
    ("point", "reason", "seconds"),
    [
        ("reserve", "0/1 nodes are available: 1 no.", 0),
        ("permit", "0/1 nodes are available: 1 no.", 0),
        ("wait", "timeout", 60),
        ("pre-bind", "no", 0),
        ("bind", "refused", 0),
    ],
)
async def test_a_failure_after_the_decision_is_recorded(
    point: str, reason: str, seconds: float
) -> None:
    Fragile.fails = point
    async with pipeline(Fragile, recorder_bytes=1 << 20) as running:
        if point == "bind":
            running.store.refusals.append(ApiError(403, "Forbidden", "refused"))
        await running.add_node(NODE)
        await running.add_pod(pod("p", "1"))
        await running.clock.advance(seconds)
        await running.clock.settle()
        decided, failed = attempts(running, "p")[:2]
        assert (decided.result, decided.node, decided.number) == ("placed", "n", 1)
        assert (failed.result, failed.node, failed.number) == ("failed", "n", 1)
        assert reason in failed.message
        assert failed.at - decided.at == pytest.approx(seconds, abs=0.01)
        assert running.flights is not None
        told = list(lines_of(running.flights.page("ns/p"), (decided, failed)))
        assert "attempt 1: chose n" in told[0]
        assert told[-2].endswith("attempt 1: failed on n after the decision")
        assert reason in told[-1]  # the end of the story


@pytest.mark.parametrize("aside", [True, False])
async def test_a_preemption_that_fails_is_recorded(aside: bool) -> None:
    async with pipeline(recorder_bytes=1 << 20, SchedulerAsyncPreemption=aside) as running:
        running.store.eviction_refusals.append(ApiError(403, "Forbidden", "not allowed"))
        running.store.evicting = anyio.Event()
        running.store.evicting.set()
        await running.add_node(NODE)
        running.cache.tell(AssignedPodAdded(pod("low", "1", node="n")))
        await running.add_pod(pod("high", "1", priority=10))
        await running.clock.advance(0)
        decided, failed, *_ = attempts(running, "high")
        assert (decided.result, decided.nominated) == ("unschedulable", "n")
        assert (failed.result, failed.node, failed.number) == ("failed", "n", 1)
        assert failed.message == "preempting ns/low: not allowed"
        assert running.flights is not None
        page = running.flights.page("ns/high")
        lines = list(lines_of(page, (failed,)))
        assert lines[0].endswith("attempt 1: failed on n after the decision")
        assert lines[1:] == ["  preempting ns/low: not allowed"]
