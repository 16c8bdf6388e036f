"""Limits of requests: so many a second for each flow, and for a moment twice as many.

A flow is a user with one program. So one that asks too much is told to wait, while the others are
answered. Mirrors, in short, the 429 of API Priority and Fairness.
"""

from __future__ import annotations

import math

from ..types.api_documents import RefusedError
from .request import HttpRequest

MESSAGE = "Too many requests, please try again later."
MOST_FLOWS = 1000  # that are remembered


class FlowLimits:
    """Counts the requests of each flow."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = max(2 * per_second, 1.0)
        self._left: dict[tuple[str, str], tuple[float, float]] = {}  # requests, and when counted

    def check(self, user: str, request: HttpRequest, now: float) -> None:
        """Counts a request at a time in seconds. Raises RefusedError with 429 and the seconds to
        wait if there were too many.
        """
        flow = user, request.headers.get("user-agent", "").partition(" ")[0]
        left, then = self._left.pop(flow, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._per_second)
        self._left[flow] = (left - 1 if left >= 1 else left), now
        if len(self._left) > MOST_FLOWS:
            self._left.pop(next(iter(self._left)))
        if left < 1:
            seconds = max(1, math.ceil((1 - left) / self._per_second))
            raise RefusedError(429, "TooManyRequests", MESSAGE, {"retryAfterSeconds": seconds})
