"""Tenure: the time in which this process may write. It ends with the lease.

A write may wait long before it is sent: for the rate limit, a connection, a TLS handshake, or a
delay that the server requested. Meanwhile the lease may run out. The process may also be stopped
and resumed, or the machine may sleep. Permission is therefore checked at the moment of sending,
against a clock that keeps running through all of this.

The leader election sets the end of the tenure, from its own thread; the clients only read it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..runtime.clock import seconds_since_boot

ALWAYS = float("inf")
NEVER = float("-inf")


class Tenure:
    """The time until which writes are permitted.

    It permits nothing until `lasts_until` is called. `now` returns seconds, and any thread may call
    it.
    """

    def __init__(self, now: Callable[[], float] = seconds_since_boot) -> None:
        self._now = now
        self._until = NEVER
        self._latest = NEVER

    def lasts_until(self, until: float) -> None:
        """Permits writes before this time of the clock.

        ALWAYS is for a process without leader election, NEVER for one that lost the lease.
        """
        self._until = until
        if until != NEVER:
            self._latest = until

    def permits(self) -> bool:
        """True if a write may be sent now. Call it immediately before sending."""
        return self._now() < self._until

    def over_for(self) -> float:
        """Returns the seconds since the latest end that was set for the tenure.

        It makes no difference whether the tenure was given up before that end. Returns 0 while the
        tenure lasts, and if there was none.
        """
        return 0.0 if self._latest == NEVER else max(self._now() - self._latest, 0.0)
