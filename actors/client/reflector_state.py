"""Decides about the request that follows the end of a list or a watch, and its delay. Pure.

After 410 Gone, or an expired resourceVersion, a new list is needed. If the server is overloaded or
unreachable, the same resourceVersion is tried again later. The backoff doubles from 0.8 s to 30 s,
and starts over after two minutes without a failure; the server may ask for a longer delay, but not
for a shorter one. A watch that ends at once, although it had lines, is opened again at once, but
the next time after the backoff. A missing kind is listed again once a minute.

A list may be streamed: it is the beginning of a watch. If the server does not send the stream to
the end of the list, a plain list follows at once, unless the server takes no requests at present.
The next list is streamed again. Mirrors the reflector of client-go.
"""

from __future__ import annotations

import enum

import msgspec

from ..runtime.backoff import Backoff, Rng

RESET_AFTER_SECONDS = 120.0
ABSENT_SECONDS = 60.0
BACKOFF = Backoff(0.8, 30.0, 1.0)


class RequestEnd(enum.Enum):
    """The ways in which a request ends."""

    QUIETLY = "quietly"  # the server closed the watch at its time-out
    SHORT = "short"  # the watch ended at once, although it had lines
    GONE = "gone"  # 410: the resourceVersion is too old
    BUSY = "busy"  # 429, or the connection was refused
    BROKEN = "broken"  # 5xx, or the connection was lost
    STALLED = "stalled"  # a streamed list got neither more objects nor its end
    ABSENT = "absent"  # 404 for a list: the server does not have the kind
    REFUSED = "refused"  # any other failure


STREAMED_AGAIN = (RequestEnd.BUSY, RequestEnd.GONE)


class Next(msgspec.Struct, frozen=True):
    """The next step: a watch or a new list (`relist`), and the seconds to wait before it."""

    relist: bool
    delay: float


class ReflectorState:
    """`resource_version` is where the next watch begins; "" if a list comes first. `streams` is
    True if that list is a streamed one.
    """

    def __init__(self, rng: Rng, *, streams: bool) -> None:
        self._rng = rng
        self._failures = 0
        self._last = float("-inf")
        self._may_stream = streams
        self.streams = streams
        self.resource_version = ""

    def ended(self, how: RequestEnd, now: float, retry_after: float | None = None) -> Next:
        """Returns the next step; `retry_after` is the least delay that the server allows, in
        seconds.
        """
        if self.streams and not self.resource_version and how not in STREAMED_AGAIN:
            self.streams = False
            return Next(relist=True, delay=0.0)
        self.streams = self._may_stream
        if now - self._last > RESET_AFTER_SECONDS:
            self._failures = 0
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
        if how in (RequestEnd.GONE, RequestEnd.REFUSED):
            self.resource_version = ""
        return Next(relist=not self.resource_version, delay=delay)
