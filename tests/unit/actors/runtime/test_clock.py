"""The machine's clock: how it differs from that of the event loop."""

from __future__ import annotations

from berth.actors.runtime.clock import SystemClock


async def test_a_negative_delay_ends_at_once() -> None:
    """A pod's deadline on Permit may have passed before the wait for it begins."""
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(-60.0)
    assert clock.now() - before < 10.0
