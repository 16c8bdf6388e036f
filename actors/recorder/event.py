"""The Event of events.k8s.io/v1, as the recorder writes it. It is a struct, because one is made and
encoded for every pod that is placed.

An event without an action is one of the older kind, which only core/v1 takes: kube-scheduler writes
such events about its lease.

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
    """An Event as the recorder wants it at the API server. With a series, it may be there
    already.
    """

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
    """Returns the event in the form of core/v1's older events, without an action."""
    document: dict[str, Any] = msgspec.to_builtins(event)
    for name, core_name in _CORE_NAMES.items():
        document[core_name] = document.pop(name)
    document["apiVersion"] = "v1"
    if event.action:
        return document
    for name in ("action", "eventTime"):
        del document[name]
    second = event.event_time.partition(".")[0] + "Z"
    source = {"component": event.reporting_controller}
    times = {"firstTimestamp": second, "lastTimestamp": second, "count": 1}
    return {**document, **times, "source": source, "reportingInstance": ""}
