"""Reads and writes times as the API server does, in RFC 3339."""

from __future__ import annotations

from datetime import UTC, datetime
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


def time_of(seconds: float) -> str:
    """Returns the text of seconds since 1970."""
    return _text_of(int(round(seconds, 6)))  # to the microsecond, as other times


def rfc3339(time: datetime) -> str:
    """Returns the text of a time in UTC, to the second."""
    return time_of(time.timestamp())


def micro_time(time: datetime) -> str:
    """Returns the text of a time in UTC, to the microsecond."""
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


@lru_cache(maxsize=64)  # times of the last seconds are written most often
def _text_of(seconds: int) -> str:
    # strftime looks up the local time zone at each call.
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}Z"


Time = Annotated[str, ReadBy(seconds_of)]
"""The text of a time that this scheduler reads, instead of only passing it on."""
