"""What the recorder writes: events and pod conditions as the API takes them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from actors.messages import RecordEvent, SetUnschedulable

NOTE_BYTES = 1024


def cut(note: str, most: int = NOTE_BYTES) -> str:
    """The note in at most this many bytes of UTF-8, without half a character at the end."""
    encoded = note.encode()
    return note if len(encoded) <= most else encoded[:most].decode(errors="ignore")


def event_document(event: RecordEvent, wall: datetime, serial: int) -> dict[str, Any]:
    """A core/v1 Event; `serial` makes its name unique."""
    namespace = event.namespace or "default"
    stamp = wall.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{event.name}.{int(wall.timestamp() * 1e6):x}{serial:x}", "namespace": namespace},
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
        "message": cut(event.note),
        "source": {"component": event.reporting_controller},
        "reportingComponent": event.reporting_controller,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def condition_patch(order: SetUnschedulable, wall: datetime) -> dict[str, Any] | None:
    """A strategic merge patch of the pod's status; None if the condition says so already."""
    for condition in order.pod.status.conditions:
        if condition.type == "PodScheduled":
            same = (condition.status, condition.reason, condition.message) == ("False", order.reason, order.message)
            if same:
                return None
    stamp = wall.strftime("%Y-%m-%dT%H:%M:%SZ")
    condition_now = {
        "type": "PodScheduled",
        "status": "False",
        "reason": order.reason,
        "message": order.message,
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
    }
    return {"metadata": {"uid": order.pod.metadata.uid}, "status": {"conditions": [condition_now]}}
