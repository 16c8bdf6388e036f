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
from collections.abc import Hashable, ValuesView
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from actors.messages import RecordEvent

NOTE_BYTES = 1024
MOST_REMEMBERED = 4096
SIMILAR_MOST = 10
SIMILAR_SECONDS = 600.0
ALLOWED_AT_ONCE = 25
SECONDS_PER_ALLOWED = 300.0
COMBINED = "(combined from similar events): "

V = TypeVar("V")
Key = tuple[str, ...]


class EventWrite(msgspec.Struct, frozen=True):
    """An Event as it shall be on the server; with a count above 1 it may be there already."""

    namespace: str
    name: str
    document: dict[str, Any]

    @property
    def place(self) -> str:
        return f"Event {self.namespace}/{self.name}"

    @property
    def count(self) -> int:
        count: int = self.document["count"]
        return count

    @property
    def update(self) -> dict[str, Any]:
        """The patch for an Event that is there."""
        return {field: self.document[field] for field in ("count", "lastTimestamp", "message")}


class _Similar(msgspec.Struct):
    """The messages of similar events, oldest first, and when the latest came; how many writes they had left then."""

    messages: dict[str, None]
    at: float
    allowed: float


class Latest(Generic[V]):
    """A mapping that forgets what has not been used for longest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> None:
        """Of a key that was looked for just now: so it is the latest already, or new."""
        values = self._values
        values[key] = value
        if len(values) > self._most:
            values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> ValuesView[V]:
        return self._values.values()


class Correlator:
    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._similar: Latest[_Similar] = Latest(most)
        self._written: Latest[EventWrite] = Latest(most)
        self._second: tuple[datetime | None, str] = (None, "")
        self._serial = 0

    def observe(self, event: RecordEvent, now: float, wall: datetime) -> EventWrite | None:
        """What to write about an event that has happened; None if it is held back."""
        about = _about(event)
        similar = self._similar.get(about)
        if similar is None:
            similar = _Similar({}, now, ALLOWED_AT_ONCE)
            self._similar.put(about, similar)
        allowed = _allowed(similar, now)
        note = cut(event.note)
        key: Hashable = (about, event.note)
        if _combined(similar, event.note, now):
            note, key = cut(COMBINED + event.note), about
        seen = self._written.get(key)
        stamp = self._stamp(wall)
        if seen is None:
            write = self._first(event, note, wall, stamp)
        else:
            now_so = {**seen.document, "count": seen.count + 1, "lastTimestamp": stamp, "message": note}
            write = msgspec.structs.replace(seen, document=now_so)
        self._written.put(key, write)
        return write if allowed else None

    def _stamp(self, wall: datetime) -> str:
        """The time as the API has it; its text is made once a second."""
        second = wall.replace(microsecond=0)
        if self._second[0] != second:
            self._second = (second, f"{second.isoformat()[:19]}Z")
        return self._second[1]

    def _first(self, event: RecordEvent, note: str, wall: datetime, stamp: str) -> EventWrite:
        namespace = event.namespace or "default"
        name = f"{event.name}.{int(wall.timestamp() * 1e6):x}{self._serial:x}"
        self._serial += 1
        document = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": event.api_version,
                "kind": event.kind,
                "namespace": event.namespace,
                "name": event.name,
                "uid": event.uid,
            },
            "type": event.type.value,
            "reason": event.reason,
            "action": event.action,
            "message": note,
            "source": {"component": event.reporting_controller},
            "reportingComponent": event.reporting_controller,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        return EventWrite(namespace, name, document)

    def validate(self) -> None:
        """Memory is bounded."""
        assert max(len(self._similar), len(self._written)) <= self._most
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
    similar.allowed = min(similar.allowed + (now - similar.at) / SECONDS_PER_ALLOWED, ALLOWED_AT_ONCE)
    if similar.allowed < 1:
        return False
    similar.allowed -= 1
    return True


def cut(note: str, most: int = NOTE_BYTES) -> str:
    """The note in at most this many bytes of UTF-8, without half a character at the end."""
    if 4 * len(note) <= most:
        return note
    encoded = note.encode()
    return note if len(encoded) <= most else encoded[:most].decode(errors="ignore")


def _about(event: RecordEvent) -> Key:
    """Who says it about what, and why: all of an event but its message."""
    what = (event.api_version, event.kind, event.namespace, event.name, event.uid)
    return (event.reporting_controller, *what, event.type, event.reason)
