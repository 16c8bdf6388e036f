"""The client-side rate limit: a token bucket with `qps` and `burst`, as in Kubernetes' clients.

In any span of time, at most `burst` + `qps` x seconds requests are sent, in the order in which they
called `wait_turn`.
"""

from __future__ import annotations

from ..runtime.clock import Clock


class TokenBucket:
    """Holds at most `burst` tokens (at least one) and gains `qps` of them a second. Pure."""

    def __init__(self, qps: float, burst: int) -> None:
        assert qps > 0
        self._qps = qps
        self._burst = max(burst, 1)
        self._tokens = float(self._burst)
        self._at: float | None = None

    def take(self, now: float) -> float:
        """Takes a token, and returns the seconds until it is available."""
        if self._at is not None:
            self._tokens = min(self._tokens + max(now - self._at, 0.0) * self._qps, self._burst)
        self._at = now if self._at is None else max(now, self._at)
        self._tokens -= 1.0
        return max(-self._tokens / self._qps, 0.0)

    def validate(self) -> None:
        assert self._tokens <= self._burst


class RateLimit:
    """Delays requests. A `qps` of 0 or less means no limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._bucket = TokenBucket(qps, burst) if qps > 0 else None
        self._clock = clock

    async def wait_turn(self) -> float:
        """Waits until a request may be sent, and returns for how many seconds it waited. A
        cancelled waiter has used its token nevertheless.
        """
        delay = 0.0 if self._bucket is None else self._bucket.take(self._clock.now())
        if delay > 0:
            await self._clock.sleep(delay)
        return delay
