"""Times of Kubernetes and seconds of the epoch."""

from __future__ import annotations

from datetime import UTC, datetime

from ..documents import stamp


def time_of(now: float) -> str:
    """Returns seconds of the epoch as a time of Kubernetes."""
    return stamp(datetime.fromtimestamp(now, UTC))


def seconds_of(text: str) -> float:
    """Returns a time of Kubernetes as seconds of the epoch."""
    return datetime.fromisoformat(text).timestamp()
