"""The Event of events.k8s.io/v1, as the recorder writes it. It is a struct, because one is made and
encoded for every pod that is placed.

Immutable: to count, a new Event is made from the old one, with another series.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..messages.recorder import EventType
from ..scheduling.kube.meta import ObjectReference

API = "/apis/events.k8s.io/v1"
CORE_API = "/api/v1"
_CORE_NAMES = {
    "reportingController": "reportingComponent",
    "regarding": "involvedObject",
    "note": "message",
}


class EventMetadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str


class EventSeries(msgspec.Struct, frozen=True, rename="camel", gc=False):
    count: int
    last_observed_time: str


class Event(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An Event as it shall be at the API server. If it has a series, it may be there already."""

    metadata: EventMetadata
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: ObjectReference
    note: str
    type: EventType
    related: ObjectReference | msgspec.UnsetType = msgspec.UNSET
    series: EventSeries | msgspec.UnsetType = msgspec.UNSET
    api_version: str = "events.k8s.io/v1"
    kind: str = "Event"


def in_core(event: Event) -> dict[str, Any]:
    """Returns the same event in core/v1, for an API server that has no events.k8s.io."""
    document: dict[str, Any] = msgspec.to_builtins(event)
    for name, core_name in _CORE_NAMES.items():
        document[core_name] = document.pop(name)
    return {**document, "apiVersion": "v1"}
