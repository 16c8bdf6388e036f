"""Makes Events of events.k8s.io/v1 from facts. A repeated fact is one Event with a series, which
counts. Pure.

Facts are equal if they are equal in all but their notes: the reporter, the reason, the action, the
type, and the objects, down to their resourceVersions. Without an action, the notes count too. The
first one is a new Event, with its note. The second one makes it a series, which is written at once.
After that the fact is only counted. The count is written every half hour, and when the fact was not
repeated for six minutes, which ends the series. Mirrors the broadcaster of client-go's
tools/events, except that memory is bounded: only the `most` facts that occurred last are
remembered, and if a series is forgotten for another fact, its last count is not written.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

import msgspec

from ..messages.recorder import EventType, RecordEvent
from ..scheduling.kube.meta import ObjectReference
from .event import Event, EventMetadata, EventSeries

NOTE_BYTES = 1024
NOTE_END = " ..."
INSTANCE_BYTES = 128
LONGEST_NAME = 253 - len(".ffffffffffffffff")  # of an object, as part of an event's name
MOST_REMEMBERED = 16_384
FINISH_SECONDS = 360.0
REFRESH_SECONDS = 1800.0

Fact = tuple[ObjectReference, str, str, str, bool, ObjectReference | None]
_WARNING = EventType.WARNING  # Looking a member up in its class is slow, and so is its hash.


class _Tally(msgspec.Struct, eq=False, gc=False):
    """The count of a fact. It last occurred `at` monotonic seconds, or at `last` as the API writes
    times. `written` is the count in the Event's last write.
    """

    event: Event
    at: float
    count: int = 1
    last: str = ""
    written: int = 1


class SeriesTracker:
    """The facts with their counts. Invariant: they are in the order of their last occurrence."""

    def __init__(self, hostname: str, most: int = MOST_REMEMBERED) -> None:
        self._hostname = hostname
        self._most = most
        self._facts: OrderedDict[Fact, _Tally] = OrderedDict()
        self._instances: dict[str, str] = {}
        self._second, self._stamp = -1, ""
        self._name_time = 0

    def observe(self, event: RecordEvent, now: float, wall: datetime) -> Event | None:
        """Returns the Event to write for a fact; None if the fact is only counted."""
        fact = (
            event.regarding,
            event.reason,
            event.action or event.note,
            event.reporting_controller,
            event.type is _WARNING,
            event.related,
        )
        tally = self._facts.get(fact)
        if tally is None:
            first = self._first(event, wall)
            self._facts[fact] = _Tally(first, now)
            if len(self._facts) > self._most:
                self._facts.popitem(last=False)
            return first
        self._facts.move_to_end(fact)
        tally.at = now
        tally.count += 1
        tally.last = self._micro_time(wall)
        return _with_count(tally) if tally.count == 2 else None

    def finish(self, now: float) -> list[Event]:
        """Forgets facts that did not occur for six minutes. Returns the last counts to write."""
        last_counts = []
        while self._facts:
            fact, tally = next(iter(self._facts.items()))
            if tally.at >= now - FINISH_SECONDS:
                break
            del self._facts[fact]
            if tally.written != tally.count:
                last_counts.append(_with_count(tally))
        return last_counts

    def refresh(self) -> list[Event]:
        """Returns every series, to be written again, because an event that is not written
        expires.
        """
        return [_with_count(tally) for tally in self._facts.values() if tally.count > 1]

    def _micro_time(self, wall: datetime) -> str:
        """Returns the time with six decimals, which the API server requires."""
        second = int(wall.timestamp())
        if second != self._second:
            self._second, self._stamp = second, f"{wall:%Y-%m-%dT%H:%M:%S}"
        return f"{self._stamp}.{wall.microsecond:06}Z"

    def _first(self, event: RecordEvent, wall: datetime) -> Event:
        regarding, sender = event.regarding, event.reporting_controller
        time = self._micro_time(wall)
        # The name contains the time in nanoseconds, which is never used twice, even if the clock is
        # set back.
        name_time = self._second * 1_000_000_000 + wall.microsecond * 1000
        self._name_time = name_time = (
            name_time if name_time > self._name_time else self._name_time + 1
        )
        name = regarding.name
        if len(name) > LONGEST_NAME:
            name = name[:LONGEST_NAME].rstrip("-.")
        instance = self._instances.get(sender)
        if instance is None:
            instance = self._instances[sender] = shortened_note(
                f"{sender}-{self._hostname}", INSTANCE_BYTES, ""
            )
        return Event(
            EventMetadata(f"{name}.{name_time:x}", regarding.namespace or "default"),
            time,
            sender,
            instance,
            event.action,
            event.reason,
            regarding,
            shortened_note(event.note),
            event.type,
            msgspec.UNSET if event.related is None else event.related,
        )

    def __len__(self) -> int:
        return len(self._facts)

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        assert len(self._facts) <= self._most
        times = [tally.at for tally in self._facts.values()]
        assert times == sorted(times)
        assert all((tally.count > 1) == bool(tally.last) for tally in self._facts.values())


def _with_count(tally: _Tally) -> Event:
    """Returns the Event with its present count."""
    tally.written = tally.count
    return msgspec.structs.replace(tally.event, series=EventSeries(tally.count, tally.last))


def shortened_note(note: str, most: int = NOTE_BYTES, end: str = NOTE_END) -> str:
    """Returns the note in at most `most` bytes of UTF-8.

    If it is cut, it ends in `end`, and never in half a character.
    """
    if 4 * len(note) <= most:
        return note
    encoded = note.encode()
    if len(encoded) <= most:
        return note
    return encoded[: most - len(end)].decode(errors="ignore") + end
