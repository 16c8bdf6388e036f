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
    def count(self) -> int:
        count: int = self.document["count"]
        return count

    @property
    def update(self) -> dict[str, Any]:
        """The patch for an Event that is there."""
        return {field: self.document[field] for field in ("count", "lastTimestamp", "message")}


class _Similar(msgspec.Struct):
    """The messages of similar events, oldest first, and when the latest came."""

    messages: dict[str, None]
    at: float


class _Allowance(msgspec.Struct):
    tokens: float
    at: float


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
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> ValuesView[V]:
        return self._values.values()


class Correlator:
    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._similar: Latest[_Similar] = Latest(most)
        self._written: Latest[EventWrite] = Latest(most)
        self._allowances: Latest[_Allowance] = Latest(most)
        self._serial = 0

    def observe(self, event: RecordEvent, now: float, wall: datetime) -> EventWrite | None:
        """What to write about an event that has happened; None if it is held back."""
        about = _about(event)
        note, key = cut(event.note), (*about, event.note)
        if self._combined(about, event.note, now):
            note, key = cut(COMBINED + event.note), about
        seen = self._written.get(key)
        stamp = f"{wall.isoformat(timespec='seconds')[:19]}Z"
        if seen is None:
            write = self._first(event, note, wall, stamp)
        else:
            now_so = {**seen.document, "count": seen.count + 1, "lastTimestamp": stamp, "message": note}
            write = msgspec.structs.replace(seen, document=now_so)
        self._written.put(key, write)
        return write if self._allowed(about, now) else None

    def _combined(self, about: Key, note: str, now: float) -> bool:
        """Whether so many different messages have come about this that they become one event."""
        similar = self._similar.get(about)
        if similar is None or now - similar.at > SIMILAR_SECONDS:
            similar = _Similar({}, now)
        similar.messages[note] = None
        similar.at = now
        self._similar.put(about, similar)
        if len(similar.messages) < SIMILAR_MOST:
            return False
        similar.messages.pop(next(iter(similar.messages)))
        return True

    def _allowed(self, about: Key, now: float) -> bool:
        allowance = self._allowances.get(about) or _Allowance(ALLOWED_AT_ONCE, now)
        gained = (now - allowance.at) / SECONDS_PER_ALLOWED
        allowance = _Allowance(min(allowance.tokens + gained, ALLOWED_AT_ONCE), now)
        allowed = allowance.tokens >= 1
        allowance.tokens -= allowed
        self._allowances.put(about, allowance)
        return allowed

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
        for held in (self._similar, self._written, self._allowances):
            assert len(held) <= self._most
        assert all(len(similar.messages) < SIMILAR_MOST for similar in self._similar.values())


def cut(note: str, most: int = NOTE_BYTES) -> str:
    """The note in at most this many bytes of UTF-8, without half a character at the end."""
    encoded = note.encode()
    return note if len(encoded) <= most else encoded[:most].decode(errors="ignore")


def _about(event: RecordEvent) -> Key:
    """Who says it about what, and why: all of an event but its message."""
    what = (event.api_version, event.kind, event.namespace, event.name, event.uid)
    return (event.reporting_controller, *what, event.type.value, event.reason)
