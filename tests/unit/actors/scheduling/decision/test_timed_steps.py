"""The times of a call in steps: the longest step counts, and all of them once they have no end."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from berth.actors.scheduling.decision.guard import questions_of
from berth.actors.scheduling.decision.overruns import PluginOverrunError
from berth.actors.scheduling.decision.timed_steps import (
    MOST_QUESTIONS,
    MOST_SEARCH_SECONDS,
    StepTimes,
    timed,
)
from berth.plugin import PAUSE


class Clock:
    def __init__(self) -> None:
        self.now = 0.0


def searching(clock: Clock, seconds: float, steps: int) -> Generator[Any, Any, str]:
    """Pauses so often, after a step of so many seconds each, and answers."""
    for _ in range(steps):
        clock.now += seconds
        yield PAUSE
    clock.now += seconds
    return "found"


def ran(clock: Clock, times: StepTimes, seconds: float, steps: int) -> str:
    search = questions_of(searching(clock, seconds, steps), times)
    run = timed(search, lambda: clock.now, times.note)
    while True:
        try:
            next(run)
            clock.now += 100.0  # in which others have their turn
        except StopIteration as done:
            return str(done.value)


def test_a_search_with_pauses_counts_by_its_longest_step() -> None:
    times = StepTimes()
    assert ran(Clock(), times, 0.5, 50) == "found"
    assert (times.seconds, times.take_too_long) == (0.5, False)


def test_a_search_that_takes_too_long_counts_by_all_its_steps() -> None:
    times = StepTimes()
    with pytest.raises(PluginOverrunError, match=r"no answer after 30\.5 s of computing"):
        ran(Clock(), times, 0.5, 1_000)
    assert times.seconds > MOST_SEARCH_SECONDS


def test_a_search_with_too_many_pauses_ends() -> None:
    times = StepTimes()
    with pytest.raises(
        PluginOverrunError, match=f"no answer after {MOST_QUESTIONS + 1:,} questions or pauses"
    ):
        ran(Clock(), times, 0.0, 10**9)
    assert times.seconds == 0.0
