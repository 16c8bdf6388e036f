"""The time in which this process may write: as long as the lease that it holds has time left.

A write may wait long before it is sent: for the rate limit, a connection, a TLS handshake, the
pause that the server asked for. Meanwhile the lease may run out, and the process may be stopped and
resumed, or the machine sleep. So the right to write is looked at in the moment of sending, against
a clock that runs on through all of that.

The leader sets how long it lasts, from whatever thread it runs in; the clients only read.
"""

from __future__ import annotations

from collections.abc import Callable

from berth.actors.runtime.clock import seconds_since_boot

ALWAYS = float("inf")
NEVER = float("-inf")


class Tenure:
    """Nothing may be written until `lasts_until` says so. `now` gives seconds, to any thread."""

    def __init__(self, now: Callable[[], float] = seconds_since_boot) -> None:
        self._now = now
        self._until = NEVER

    def lasts_until(self, until: float) -> None:
        """Writes may be sent before this time of the clock: ALWAYS without leader election, NEVER
        once deposed.
        """
        self._until = until

    def permits(self) -> bool:
        """Whether a write may be sent now; to be asked right before."""
        return self._now() < self._until
