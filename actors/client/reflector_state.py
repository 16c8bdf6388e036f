"""Decides on the request after the end of a list or watch, and on the delay before it. Pure.

After 410 Gone, or an expired resourceVersion, a new list is needed. If the server is overloaded or
unreachable, the same resourceVersion is tried again later. The backoff doubles from 0.8 s to 30 s,
and starts over after two minutes without a failure; the server may ask for a longer delay, but not
for a shorter one. A missing kind is listed again once a minute.

A busy API server closes the watches that it is slow to serve. A watch that ended at once, but
brought changes, is opened again at once, and a few times a second at most. One that had lines, but
brought nothing new, is opened again at once the first time, and then after the backoff.

A list may be streamed: it is the beginning of a watch. If the server does not send the stream to
the end of the list, a plain list follows at once, unless the server takes no requests at present.
A server that cannot stream lists is not asked again, for any kind; after another failure, the next
list is streamed again. Mirrors the reflector of client-go.
"""

from __future__ import annotations

import enum

import msgspec

from ..runtime.backoff import Backoff, Rng
from .seen_version import SeenVersion

RESET_AFTER_SECONDS = 120.0
ABSENT_SECONDS = 60.0
BACKOFF = Backoff(0.8, 30.0, 1.0)
NEWS_SECONDS = 0.25  # between the ends of two watches that brought changes


class RequestEnd(enum.Enum):
    """The ways in which a request ends."""

    QUIETLY = "quietly"  # the server closed the watch at its time-out
    NEWS = "news"  # the watch ended at once, but brought changes
    SHORT = "short"  # the watch ended at once, and its lines brought no change
    OLDER = "older"  # the list is older than what was seen
    GONE = "gone"  # 410: the resourceVersion is too old
    BUSY = "busy"  # 429, or the connection was refused
    BROKEN = "broken"  # 5xx, or the connection was lost
    STALLED = "stalled"  # a streamed list got neither more objects nor its end
    ABSENT = "absent"  # 404 for a list: the server does not have the kind
    UNSUPPORTED = "unsupported"  # 400 or 422: the server does not take the parameters
    REFUSED = "refused"  # any other failure


STREAMED_AGAIN = (RequestEnd.BUSY, RequestEnd.GONE, RequestEnd.OLDER)
CANNOT_STREAM = (RequestEnd.STALLED, RequestEnd.UNSUPPORTED)
LISTED_AGAIN = (RequestEnd.GONE, RequestEnd.UNSUPPORTED, RequestEnd.REFUSED, RequestEnd.OLDER)


class Next(msgspec.Struct, frozen=True):
    """The next request: a watch, or a list if `relist`, and the seconds to wait before it."""

    relist: bool
    delay: float


class Streaming:
    """Whether the server streams lists, as one reflector has found out for all."""

    def __init__(self, *, works: bool) -> None:
        self.works = works


class ReflectorState:
    """The state of a reflector. `resource_version` is where the next watch begins; "" if a list
    comes first.
    """

    def __init__(self, rng: Rng, streaming: Streaming) -> None:
        self._rng = rng
        self._failures = 0
        self._last = self._last_news = float("-inf")
        self._streaming = streaming
        self._lists_plainly = False
        self._seen = SeenVersion()
        self.resource_version = ""

    def takes(self, version: str) -> bool:
        """True if a list is not too old; the next watch then begins at its version."""
        if not self._seen.takes(version):
            return False
        self.resource_version = version
        return True

    @property
    def streams(self) -> bool:
        """True if the next list is a streamed one."""
        return self._streaming.works and not self._lists_plainly

    def ended(
        self,
        how: RequestEnd,
        now: float,
        retry_after: float | None = None,
        *,
        while_streaming: bool = False,
    ) -> Next:
        """Returns the next request. `retry_after` is the least delay that the server asks for, in
        seconds. `while_streaming` tells that the request ended before the end of a streamed list.
        """
        self._seen.see(self.resource_version)
        self._lists_plainly = while_streaming and how not in STREAMED_AGAIN
        if self._lists_plainly:
            if how in CANNOT_STREAM:
                self._streaming.works = False
            return Next(relist=True, delay=0.0)
        if now - self._last > RESET_AFTER_SECONDS:
            self._failures = 0
        if how is RequestEnd.NEWS:
            delay = max(0.0, self._last_news + NEWS_SECONDS - now)
            self._last_news = now + delay
            return Next(relist=not self.resource_version, delay=delay)
        self._last = now
        if how is RequestEnd.QUIETLY:
            return Next(relist=not self.resource_version, delay=0.0)
        if how is RequestEnd.ABSENT:
            self.resource_version = ""
            return Next(relist=True, delay=ABSENT_SECONDS)
        self._failures += 1
        delay = max(BACKOFF.delay(self._failures, self._rng), retry_after or 0.0)
        if self._failures == 1 and how in (RequestEnd.GONE, RequestEnd.SHORT):
            delay = 0.0
        if how in LISTED_AGAIN:
            self.resource_version = ""
        return Next(relist=not self.resource_version, delay=delay)
