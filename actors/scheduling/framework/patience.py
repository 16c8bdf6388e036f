"""How long plugins together may hold everybody up. All breakers of a scheduler share a Patience.

The time of calls that took too long is added up, and forgotten over time: a second of it in
REST_FOR_EACH seconds. While the sum is above `most`, patience is short: a plugin that takes too
long is switched off at once, its call is interrupted sooner, and none that was switched off for its
time is tried again. So plugins that hold everybody up take about a twentieth of the time, once each
of them is known, however many they are. The one that has rested longest is tried first.
"""

from __future__ import annotations

from math import inf

REST_FOR_EACH = 20.0  # seconds of rest for each second that was taken
TURN_SECONDS = 15.0  # for the first in turn to be asked about a pod; pods back off for 10


class Patience:
    """The sum of the seconds that calls took too long; `most` of them may pass in a burst."""

    def __init__(self, most: float = inf) -> None:
        self.most = most
        self._sum = 0.0  # at the time _at
        self._at = 0.0
        self._first: tuple[float, object] | None = None  # of those that wait: its time, itself

    def spend(self, seconds: float, now: float) -> None:
        """Adds the time of a call. What was above `most` is forgotten, so that a rest is as long as
        the last call deserves.
        """
        self._sum = min(self._left(now), self.most) + seconds
        self._at = now

    def wait(self, now: float) -> float:
        """Returns the seconds for which patience is still short; 0 if it is not."""
        return max(self._left(now) - self.most, 0.0) * REST_FOR_EACH

    def grants(self, breaker: object, due: float, now: float) -> bool:
        """True if a plugin may be tried again whose rest was over at the time `due`."""
        if self.wait(now):
            if self._first is None or due < self._first[0]:
                self._first = due, breaker
            return False
        patient_at = self._at + (self._sum - self.most) * REST_FOR_EACH
        is_late = now > patient_at + TURN_SECONDS
        if self._first is not None and self._first[1] is not breaker and not is_late:
            return False
        self._first = None
        return True

    def _left(self, now: float) -> float:
        return max(self._sum - (now - self._at) / REST_FOR_EACH, 0.0)
