"""The machine's clock, as far as it differs from the event loop's."""

from __future__ import annotations

from berth.actors.runtime.clock import SystemClock


async def test_a_time_that_is_over_is_not_waited_for() -> None:
    """A pod's time on Permit may be over before anybody waits for its end."""
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(-60.0)
    assert clock.now() - before < 10.0
