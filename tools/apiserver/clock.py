"""The current time in the form in which Kubernetes objects carry it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from time import time as seconds


def now() -> str:
    return _text(int(seconds()))


@lru_cache(maxsize=1)
def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
