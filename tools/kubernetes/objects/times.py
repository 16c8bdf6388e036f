"""Times of Kubernetes and seconds of the epoch."""

from __future__ import annotations

from datetime import datetime

from ..api.clock import text_of


def time_of(now: float) -> str:
    """Returns seconds of the epoch as a time of Kubernetes."""
    return text_of(int(round(now, 6)))  # to the microsecond, as other times


def seconds_of(text: str) -> float:
    """Returns a time of Kubernetes as seconds of the epoch."""
    return datetime.fromisoformat(text).timestamp()
