"""core/v1 Event as the recorder writes it: structs, because they are made and encoded for every pod that is placed.

Immutable, and its own memory: an Event that counts is the one before with another count.
"""

from __future__ import annotations

import msgspec

from actors.messages import EventType


class EventMetadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class EventSource(msgspec.Struct, frozen=True, gc=False):
    component: str


class Event(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An Event as it shall be on the server; with a count above 1 it may be there already."""

    metadata: EventMetadata
    involved_object: ObjectReference
    type: EventType
    reason: str
    action: str
    message: str
    source: EventSource
    reporting_component: str
    first_timestamp: str
    last_timestamp: str
    count: int = 1
    api_version: str = "v1"
    kind: str = "Event"

    @property
    def update(self) -> dict[str, str | int]:
        """The patch for an Event that is there."""
        return {"count": self.count, "lastTimestamp": self.last_timestamp, "message": self.message}
