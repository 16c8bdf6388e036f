"""From facts to events.k8s.io/v1 Events: a fact that repeats itself is one Event whose series
counts. Pure.

Facts are equal if all but their notes are: who reports what kind of thing about which object, down
to the object's resourceVersion. The first is a new Event, with its note. The second makes a series
of it, which is written at once. From then on it is only counted: the count is written every half
hour, and when nothing was added for six minutes, which ends the series. Mirrors the broadcaster of
client-go's tools/events, except that memory is bounded: of the `most` facts that came last
something is known, and the last count of a series that is forgotten for another is not written.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

import msgspec
from berth.actors.messages import EventType, RecordEvent
from berth.actors.recorder.event import Event, EventMetadata, EventSeries
from berth.actors.scheduling.kube.meta import ObjectReference

NOTE_BYTES = 1024
NOTE_END = " ..."
INSTANCE_BYTES = 128
LONGEST_NAME = 253 - len(".ffffffffffffffff")  # of an object, to be part of an event's name
MOST_REMEMBERED = 16_384
FINISH_SECONDS = 360.0
REFRESH_SECONDS = 1800.0

Fact = tuple[ObjectReference, str, str, str, bool, ObjectReference | None]
_WARNING = EventType.WARNING  # looking a member up in its class is slow, and so is its hash


class _Known(msgspec.Struct, eq=False, gc=False):
    """How often a fact was seen, and when last: monotonic seconds, and as the API has it. `told` is
    the count that the Event was last written with.
    """

    event: Event
    at: float
    count: int = 1
    last: str = ""
    told: int = 1


class SeriesTracker:
    """Invariant: what is remembered is in the order in which it was seen last."""

    def __init__(self, hostname: str, most: int = MOST_REMEMBERED) -> None:
        self._hostname = hostname
        self._most = most
        self._known: OrderedDict[Fact, _Known] = OrderedDict()
        self._instances: dict[str, str] = {}
        self._second, self._stamp = -1, ""
        self._name_time = 0

    def observe(self, event: RecordEvent, now: float, wall: datetime) -> Event | None:
        """What to write about an event that has happened; None if it is only counted."""
        fact = (
            event.regarding,
            event.reason,
            event.action,
            event.reporting_controller,
            event.type is _WARNING,
            event.related,
        )
        known = self._known.get(fact)
        if known is None:
            first = self._first(event, wall)
            self._known[fact] = _Known(first, now)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
            return first
        self._known.move_to_end(fact)
        known.at = now
        known.count += 1
        known.last = self._micro_time(wall)
        return _counted(known) if known.count == 2 else None

    def finish(self, now: float) -> list[Event]:
        """Forget what has not been seen for six minutes; the counts that have to be written for
        that.
        """
        last_counts = []
        while self._known:
            fact, known = next(iter(self._known.items()))
            if known.at >= now - FINISH_SECONDS:
                break
            del self._known[fact]
            if known.told != known.count:
                last_counts.append(_counted(known))
        return last_counts

    def refresh(self) -> list[Event]:
        """Every series, to be written again: events that nobody writes to expire."""
        return [_counted(known) for known in self._known.values() if known.count > 1]

    def _micro_time(self, wall: datetime) -> str:
        """The time with the six decimals that the API server demands."""
        second = int(wall.timestamp())
        if second != self._second:
            self._second, self._stamp = second, f"{wall:%Y-%m-%dT%H:%M:%S}"
        return f"{self._stamp}.{wall.microsecond:06}Z"

    def _first(self, event: RecordEvent, wall: datetime) -> Event:
        regarding, sender = event.regarding, event.reporting_controller
        time = self._micro_time(wall)
        # The name holds the time in nanoseconds. We never use one twice, whatever the clock says.
        name_time = self._second * 1_000_000_000 + wall.microsecond * 1000
        self._name_time = name_time = (
            name_time if name_time > self._name_time else self._name_time + 1
        )
        name = regarding.name
        if len(name) > LONGEST_NAME:
            name = name[:LONGEST_NAME].rstrip("-.")
        instance = self._instances.get(sender)
        if instance is None:
            instance = self._instances[sender] = cut(
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
            cut(event.note),
            event.type,
            msgspec.UNSET if event.related is None else event.related,
        )

    def __len__(self) -> int:
        return len(self._known)

    def validate(self) -> None:
        """Memory is bounded."""
        assert len(self._known) <= self._most
        times = [known.at for known in self._known.values()]
        assert times == sorted(times)
        assert all((known.count > 1) == bool(known.last) for known in self._known.values())


def _counted(known: _Known) -> Event:
    """The Event with its series as it is now."""
    known.told = known.count
    return msgspec.structs.replace(known.event, series=EventSeries(known.count, known.last))


def cut(note: str, most: int = NOTE_BYTES, end: str = NOTE_END) -> str:
    """The note in at most this many bytes of UTF-8; one that is cut ends in `end`, and in no half
    character.
    """
    if 4 * len(note) <= most:
        return note
    encoded = note.encode()
    if len(encoded) <= most:
        return note
    return encoded[: most - len(end)].decode(errors="ignore") + end
