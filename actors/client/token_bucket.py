"""The token bucket with `qps` and `burst`, as in Kubernetes' clients: in any span of time, at most
`burst` + `qps` x seconds tokens are taken.
"""

from __future__ import annotations


class TokenBucket:
    """A bucket of at most `burst` tokens (at least one) that gains `qps` of them a second. Pure."""

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

    def give_back(self) -> None:
        """Gives back the token that was taken last, which nobody has used."""
        self._tokens += 1.0

    def validate(self) -> None:
        assert self._tokens <= self._burst
