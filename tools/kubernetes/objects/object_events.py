"""The events that controllers and kubelets write about objects."""

from __future__ import annotations

from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.times import rfc3339

from .documents import reference_to
from .structs import Document


class Reporter(msgspec.Struct, frozen=True):
    """The component that writes an event, and the node that it runs on, if any."""

    component: str
    host: str = ""


CLAIM_REPORTER, CLAIM_FAILED = Reporter("resource_claim"), "FailedResourceClaimCreation"


def event_about(
    obj: HasMetadata,
    type_: str,
    reason: str,
    message: str,
    reporter: Reporter,
    now: datetime,
) -> Document:
    """Returns an event about an object; the type is Normal or Warning.

    Events about objects without a namespace are in the namespace "default".
    """
    namespace, name = obj.metadata.namespace, obj.metadata.name
    time = rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace or "default", "generateName": f"{name}-"},
        "involvedObject": {
            **reference_to(obj, controls=False),
            **({"namespace": namespace} if namespace else {}),
            "resourceVersion": obj.metadata.resource_version,
        },
        "type": type_,
        "reason": reason,
        "message": message,
        "source": {
            "component": reporter.component,
            **({"host": reporter.host} if reporter.host else {}),
        },
        "reportingComponent": reporter.component,
        "reportingInstance": reporter.host,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


def reporter_of(owner: HasMetadata) -> Reporter:
    """Returns the reporter of the events of an owner's controller."""
    kind = type(owner).__name__
    if kind == "Pod":
        return CLAIM_REPORTER
    return Reporter(f"{kind.lower().removesuffix('controller')}-controller")


def refused_creation(owner: HasMetadata, document: Document, why: str, now: datetime) -> Document:
    """Returns an event about an owner for which the server refused to create an object."""
    name, reason = document["metadata"].get("name", ""), "FailedCreate"
    message = f"Error creating: {why}"
    match type(owner).__name__:
        case "Pod":
            reason = CLAIM_FAILED
        case "CronJob":
            message = f"Error creating job: {why}"
        case "Deployment":
            reason = "ReplicaSetCreateError"
            message = f'Failed to create new replica set "{name}": {why}'
        case "StatefulSet":
            set_ = owner.metadata.name
            pod = f"Pod {set_}-{name.rpartition('-')[2]}"
            what = pod if document["kind"] == "Pod" else f"Claim {name} for {pod}"
            message = f"Create {what} in StatefulSet {set_} failed error: {why}"
    return event_about(owner, "Warning", reason, message, reporter_of(owner), now)


def refused_deletion(owner: HasMetadata, pod: str, why: str, now: datetime) -> Document:
    """Returns an event about an owner one of whose pods the server refused to delete."""
    message = f"Error deleting: {why}"
    if type(owner).__name__ == "StatefulSet":
        message = f"Delete Pod {pod} in StatefulSet {owner.metadata.name} failed error: {why}"
    return event_about(owner, "Warning", "FailedDelete", message, reporter_of(owner), now)
