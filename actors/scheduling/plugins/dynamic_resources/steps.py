"""Steps: how long the allocator may take in a decision.

The other pods, and the lease, wait for a decision. The allocator has no clock, so it counts what it
does. The results for nodes are kept, so that the next attempt goes on from there.
"""

from __future__ import annotations

# Steps a second; one takes some millionths of a second.
STEPS_PER_SECOND = 150_000
# The work of all selectors in a decision, in units of half a millionth of a second. The last one
# may exceed it by its own limit.
MOST_EVALUATION = 250_000


class TimedOutError(Exception):
    """The allocator took too many steps."""


class Steps:
    """The number of steps that are left."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._evaluation = MOST_EVALUATION

    def take(self, number: int = 1) -> None:
        """Takes steps. Raises TimedOutError if none are left."""
        self._left -= number
        if self._left < 0:
            raise TimedOutError

    def evaluated(self, work: int) -> None:
        """Takes the work of a selector. Raises TimedOutError if the selectors took too long."""
        self._evaluation -= work
        if self._evaluation < 0:
            raise TimedOutError
