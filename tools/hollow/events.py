"""Events that controllers and kubelets write about pods."""

from __future__ import annotations

from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.core import Pod

from .documents import stamp
from .objects import Document


class Reporter(msgspec.Struct, frozen=True):
    """The component that writes an event, and the node that it runs on, if any."""

    component: str
    host: str = ""


def about_pod(
    pod: Pod,
    type_: str,
    reason: str,
    message: str,
    reporter: Reporter,
    now: datetime,
) -> Document:
    """Returns an event about the pod; its type is Normal or Warning."""
    namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}
    time = stamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "generateName": f"{name}-"},
        "involvedObject": about,
        "type": type_,
        "reason": reason,
        "message": message,
        "source": {"component": reporter.component, "host": reporter.host},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
