"""Profiles: the sampler sees the running function, and shares are computed from the stacks."""

from __future__ import annotations

import signal

import pytest

from berth.tools.bench.stack_samples import ELSEWHERE, SECONDS, Sampler, Share, functions, rooms
from tests.kit.busy import LOOKS, busy

STACKS = {
    "asyncio/runners.py:Runner.run": 1,
    "asyncio/runners.py:Runner.run;actors/queue/actor.py:QueueActor.handle": 2,
    (
        "asyncio/runners.py:Runner.run;actors/queue/actor."
        "py:QueueActor.handle;actors/queue/state.py:QueueState.handle"
    ): 4,
    (
        "asyncio/runners.py:Runner.run;actors/cycle/state."
        "py:Scheduler.steps;core/numeric.py:flatnonzero"
    ): 9,
}


def test_the_sampler_sees_the_running_function_and_its_callers() -> None:
    sampler = Sampler()
    sampler.start()
    assert signal.getitimer(signal.ITIMER_REAL)[1] == pytest.approx(SECONDS)
    busy()
    stacks = sampler.stop()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    seen = sum(times for stack, times in stacks.items() if stack.endswith("busy.py:busy"))
    assert seen >= LOOKS
    assert all("test_the_sampler_sees_the_running_function" in stack for stack in stacks)


def test_functions_are_ordered_by_their_own_time() -> None:
    assert functions(STACKS, most=2) == (
        Share("core/numeric.py:flatnonzero", 0.5625, 0.5625),
        Share("actors/queue/state.py:QueueState.handle", 0.25, 0.25),
    )
    assert {share.name: share.total for share in functions(STACKS)}[
        "asyncio/runners.py:Runner.run"
    ] == 1.0


def test_the_time_of_a_library_counts_for_the_room_that_called_it() -> None:
    assert rooms(STACKS) == (
        Share("actors/cycle", 0.5625, 0.5625),
        Share("actors/queue", 0.375, 0.375),
        Share(ELSEWHERE, 0.0625, 0.0625),
    )


def test_a_room_that_only_calls_others_is_in_the_table() -> None:
    stacks = {"actors/cycle/state.py:steps;actors/scheduling/decision/rules.py:decide": 3}
    assert rooms(stacks) == (
        Share("actors/scheduling", 1.0, 1.0),
        Share("actors/cycle", 0.0, 1.0),
    )


def test_no_stacks_give_no_shares() -> None:
    assert functions({}) == rooms({}) == ()
