"""Steps: how long a decision may search for devices.

The other pods, and the lease, wait for a decision. A search has no clock, so it counts what it
does. What it has found out is kept, so that the next attempt goes on from there.
"""

from __future__ import annotations

# Steps a second; one takes some millionths of a second.
STEPS_PER_SECOND = 150_000


class TimedOutError(Exception):
    """The search took too many steps."""


class Steps:
    """The steps that are left."""

    def __init__(self, number: int) -> None:
        self._left = number

    def take(self, number: int = 1) -> None:
        """Raises TimedOutError if no steps are left."""
        self._left -= number
        if self._left < 0:
            raise TimedOutError
