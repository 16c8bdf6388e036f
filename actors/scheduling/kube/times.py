"""Times as the API server writes them: RFC 3339 text."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Annotated

from berth.actors.scheduling.kube.reading import ReadBy


@lru_cache(maxsize=1 << 12)
def seconds_of(text: str) -> float:
    """A time in seconds since 1970. Raises ValueError."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"expected a time with its offset from UTC, got {text!r}")
    return time.timestamp()


Time = Annotated[str, ReadBy(seconds_of)]
"""The text of a time that is read and not only passed on."""
