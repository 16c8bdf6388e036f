"""Where time goes: the sampler sees who runs, and the sums are those of the stacks."""

from __future__ import annotations

from berth.tools.bench.sampling import ELSEWHERE, Sampler, Share, functions, rooms

from tests.kit.busy import busy

STACKS = {
    "asyncio/runners.py:Runner.run": 1,
    "asyncio/runners.py:Runner.run;actors/queue/actor.py:QueueActor.handle": 2,
    "asyncio/runners.py:Runner.run;actors/queue/actor.py:QueueActor.handle;actors/queue/state.py:QueueState.handle": 4,
    "asyncio/runners.py:Runner.run;actors/cycle/state.py:Scheduler.steps;core/numeric.py:flatnonzero": 9,
}


def test_the_sampler_sees_who_runs_and_who_called_it() -> None:
    sampler = Sampler()
    sampler.start()
    busy(0.2)
    stacks = sampler.stop()
    seen = sum(times for stack, times in stacks.items() if stack.endswith("busy.py:busy"))
    assert seen > 5
    assert seen > sum(stacks.values()) * 0.8
    assert all("test_the_sampler_sees_who_runs" in stack for stack in stacks)


def test_functions_are_in_the_order_of_their_own_time() -> None:
    assert functions(STACKS, most=2) == (
        Share("core/numeric.py:flatnonzero", 0.5625, 0.5625),
        Share("actors/queue/state.py:QueueState.handle", 0.25, 0.25),
    )
    assert {share.name: share.total for share in functions(STACKS)}[
        "asyncio/runners.py:Runner.run"
    ] == 1.0


def test_the_time_of_a_library_is_that_of_the_room_which_called_it() -> None:
    assert rooms(STACKS) == (
        Share("actors/cycle", 0.5625, 0.5625),
        Share("actors/queue", 0.375, 0.375),
        Share(ELSEWHERE, 0.0625, 0.0625),
    )


def test_nothing_was_seen() -> None:
    assert functions({}) == rooms({}) == ()
