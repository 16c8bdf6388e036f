"""The current time in the form in which Kubernetes objects carry it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from time import time as seconds


def now() -> str:
    return text_of(int(seconds()))


@lru_cache(maxsize=64)  # times of the last seconds are written most often
def text_of(seconds: int) -> str:
    """Returns seconds of the epoch in this form."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
