"""From facts to core/v1 Events: equal ones are one object that counts, similar ones are combined, a flood is cut. Pure.

Equal (same sender, object, type, reason and message): the Event that is there gets a higher `count` and a later
`lastTimestamp`. Similar (all but the message equal): from the tenth message within ten minutes on, they are one Event
"(combined from similar events)". And of the writes about one object for one reason, 25 go through at once and then one
every five minutes; what is held back still counts. Everything is remembered for the latest `most` keys only.

Mirrors client-go's EventCorrelator, with one difference: there all reasons share one allowance, so that a pod that was
refused for long would never be told that it is scheduled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, ValuesView
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from actors.messages import EventType, RecordEvent
from actors.recorder.event import Event, EventMetadata, EventSource, ObjectReference

NOTE_BYTES = 1024
MOST_REMEMBERED = 4096
SIMILAR_MOST = 10
SIMILAR_SECONDS = 600.0
ALLOWED_AT_ONCE = 25
SECONDS_PER_ALLOWED = 300.0
COMBINED = "(combined from similar events): "

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
About = tuple[str, str, str, str, str, str, bool, str]
_NORMAL = EventType.NORMAL  # looking a member up in its class is slow, and so is its hash


class _Similar(msgspec.Struct, eq=False):
    """The messages of similar events, oldest first, and when the latest came; how many writes they had left then.

    It is a key itself: its events are remembered under it and their message.
    """

    messages: dict[str, None]
    at: float
    allowed: float


class Latest(Generic[K, V]):
    """A mapping that forgets what has not been used for longest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Of a key that was looked for just now: so it is the latest already, or new."""
        values = self._values
        values[key] = value
        if len(values) > self._most:
            values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def values(self) -> ValuesView[V]:
        return self._values.values()


class Correlator:
    """Invariant: what is remembered of an event is under a _Similar that is remembered too: both are used at once."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._similar: Latest[About, _Similar] = Latest(most)
        self._written: Latest[tuple[_Similar, str | None], Event] = Latest(most)
        self._second, self._stamp, self._micros = -1, "", ""
        self._serial = 0

    def observe(self, event: RecordEvent, now: float, wall: datetime) -> Event | None:
        """What to write about an event that has happened; None if it is held back."""
        about, said = _about(event), event.note
        note = cut(said)
        key: str | None = said
        similar = self._similar.get(about)
        if similar is None:
            similar = _Similar({said: None}, now, ALLOWED_AT_ONCE - 1)
            self._similar.put(about, similar)
            allowed, seen = True, None
        else:
            allowed = _allowed(similar, now)
            if _combined(similar, said, now):
                note, key = cut(COMBINED + said), None
            seen = self._written.get((similar, key))
        self._look_at(wall)
        if seen is None:
            write = self._first(event, note)
        else:
            write = msgspec.structs.replace(seen, count=seen.count + 1, last_timestamp=self._stamp, message=note)
        self._written.put((similar, key), write)
        return write if allowed else None

    def _look_at(self, wall: datetime) -> None:
        """Note the time as the API has it, and the microseconds that make names unlike those of other recorders; once
        a second, because it is slow.
        """
        time = wall.timestamp()
        if int(time) != self._second:
            self._second = int(time)
            self._stamp, self._micros = f"{wall:%Y-%m-%dT%H:%M:%SZ}", f"{int(time * 1e6):x}"

    def _first(self, event: RecordEvent, note: str) -> Event:
        sender, name, stamp = event.reporting_controller, event.name, self._stamp
        self._serial += 1
        return Event(
            EventMetadata(f"{name}.{self._micros}{self._serial:x}", event.namespace or "default"),
            ObjectReference(event.api_version, event.kind, event.namespace, name, event.uid),
            event.type,
            event.reason,
            event.action,
            note,
            EventSource(sender),
            sender,
            stamp,
            stamp,
        )

    def validate(self) -> None:
        """Memory is bounded."""
        assert max(len(self._similar), len(self._written)) <= self._most
        alive = set(self._similar.values())
        assert all(similar in alive for similar, _ in self._written)
        assert all(len(similar.messages) < SIMILAR_MOST for similar in self._similar.values())


def _combined(similar: _Similar, note: str, now: float) -> bool:
    """Whether so many different messages have come about this that they become one event."""
    if now - similar.at > SIMILAR_SECONDS:
        similar.messages.clear()
    similar.messages[note] = None
    similar.at = now
    if len(similar.messages) < SIMILAR_MOST:
        return False
    similar.messages.pop(next(iter(similar.messages)))
    return True


def _allowed(similar: _Similar, now: float) -> bool:
    """Before `_combined`, which notes the time."""
    allowed = min(similar.allowed + (now - similar.at) / SECONDS_PER_ALLOWED, ALLOWED_AT_ONCE)
    similar.allowed = allowed - 1 if allowed >= 1 else allowed
    return allowed >= 1


def cut(note: str, most: int = NOTE_BYTES) -> str:
    """The note in at most this many bytes of UTF-8, without half a character at the end."""
    if 4 * len(note) <= most:
        return note
    encoded = note.encode()
    return note if len(encoded) <= most else encoded[:most].decode(errors="ignore")


def _about(event: RecordEvent) -> About:
    """Who says it about what, and why: all of an event but its message."""
    return (
        event.uid,
        event.name,
        event.namespace,
        event.kind,
        event.api_version,
        event.reporting_controller,
        event.type is _NORMAL,
        event.reason,
    )
