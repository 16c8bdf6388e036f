"""Events that controllers and kubelets write about pods."""

from __future__ import annotations

from datetime import datetime

from berth.tools.hollow.documents import Document, name_of, namespace_of, stamp, uid_of


def warning(pod: Document, reason: str, message: str, reporter: str, now: datetime) -> Document:
    """A Warning about a pod; `reporter` is the component that writes it."""
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": namespace_of(pod),
        "name": name_of(pod),
        "uid": uid_of(pod),
    }
    time = stamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace_of(pod), "generateName": f"{name_of(pod)}."},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": reporter},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
