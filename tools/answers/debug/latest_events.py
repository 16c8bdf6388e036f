"""The latest events about a pod, and a pod of a similar name, read from the API server with the
user's own rights.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import anyio
import msgspec

from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import ApiError, Connection, ConnectionFailedError
from berth.config.fields import suggestion

from .debug_client import DebugTarget
from .user_access import connection_of

MOST, MOST_PODS = 5, 500
SECONDS = 10.0


class EventNow(msgspec.Struct, frozen=True):
    """An event. `by` is the process that reported it."""

    time: str
    reason: str
    by: str
    message: str


def events_about(key: str, uid: str, target: DebugTarget) -> list[EventNow]:
    """Returns the last events about a pod (namespace/name), oldest first; none if the user has no
    kubeconfig or may not list events. Without a uid, they are about any pods of this name.
    """
    with suppress(KubeconfigError, ApiError, ConnectionFailedError):
        connection = connection_of(target.kubeconfig, target.context)
        if connection is not None:
            return anyio.run(_events, connection, key, uid)
    return []


def near_pod(key: str, target: DebugTarget) -> str:
    """Returns ", did you mean X?" if a pod X, one of the first MOST_PODS of the namespace, has a
    name similar to that of the key (namespace/name), otherwise ""; also if the user may not list
    pods.
    """
    namespace, _, name = key.partition("/")
    with suppress(KubeconfigError, ApiError, ConnectionFailedError):
        connection = connection_of(target.kubeconfig, target.context)
        if connection is not None:
            return suggestion(name, anyio.run(_pod_names, connection, namespace))
    return ""


async def _pod_names(connection: Connection, namespace: str) -> list[str]:
    path = f"/api/v1/namespaces/{quote(namespace)}/pods?limit={MOST_PODS}"
    async with ReadOnlyClient(connection, SECONDS) as client:
        listed = await client.call("GET", path, dict)
    return [pod["metadata"]["name"] for pod in listed.get("items") or ()]


async def _events(connection: Connection, key: str, uid: str) -> list[EventNow]:
    namespace, _, name = key.partition("/")
    of_uid = f",regarding.uid={uid}" if uid else ""
    chosen = quote(f"regarding.kind=Pod,regarding.name={name}{of_uid}")
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldSelector={chosen}"
    async with ReadOnlyClient(connection, SECONDS) as client:
        listed = await client.call("GET", path, dict)
    events = sorted(map(_event, listed.get("items") or ()), key=lambda event: event.time)
    return events[-MOST:]


def _event(document: dict[str, Any]) -> EventNow:
    source = document.get("deprecatedSource") or {}
    times = (
        (document.get("series") or {}).get("lastObservedTime"),
        document.get("eventTime"),
        document.get("deprecatedLastTimestamp"),
        (document.get("metadata") or {}).get("creationTimestamp"),
    )
    return EventNow(
        next((time[:19] + "Z" for time in times if time), ""),
        document.get("reason") or "",
        document.get("reportingInstance")
        or document.get("reportingController")
        or source.get("component")
        or "",
        document.get("note") or "",
    )
