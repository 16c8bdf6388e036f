"""The client's own rate limit: a bucket of `burst` requests that fills up again at `qps` a second.

Mirrors client-go's flow control. Pure: `now` is given, and what is returned is how long to wait.
"""

from __future__ import annotations


class TokenBucket:
    """Without limit if qps is 0 or less. Requests are let go in the order in which they ask."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._tokens = self._burst
        self._filled_at: float | None = None

    def take(self, now: float) -> float:
        """Take the next token; the seconds until it is there."""
        if self._qps <= 0:
            return 0.0
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)
