"""Reads and writes times as the API server does, in RFC 3339."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Annotated

from .reading import ReadBy


@lru_cache(maxsize=1 << 12)
def seconds_of(text: str) -> float:
    """Returns a time as seconds since 1970. Raises ValueError."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"expected a time with its offset from UTC, got {text!r}")
    return time.timestamp()


def rfc3339(time: datetime) -> str:
    """Returns the text of a time in UTC, to the second."""
    # strftime looks up the local time zone at each call.
    return f"{time.isoformat()[:19]}Z"


Time = Annotated[str, ReadBy(seconds_of)]
"""The text of a time that this scheduler reads, instead of only passing it on."""
