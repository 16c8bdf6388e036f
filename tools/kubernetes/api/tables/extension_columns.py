"""The columns of what extends or guards an API server: certificate requests, webhooks, policies,
services of groups, flows.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from ..types.api_documents import Document
from .column import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    Read,
    entries,
    field,
    integer,
    mapping,
    number,
    size,
    text,
)
from .duration import human


def _request_state(request: Document, _: datetime) -> str:
    conditions = entries(request, "status", "conditions")
    types = {text(condition, "type") for condition in conditions}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = ",Failed" if "Failed" in types else ""
    return state + failed + (",Issued" if text(request, "status", "certificate") else "")


def _requested_duration(request: Document, _: datetime) -> str:
    seconds = number(request, "spec", "expirationSeconds")
    return human(timedelta(seconds=seconds)) if seconds else NONE


CERTIFICATE_REQUESTS = (
    NAME,
    AGE,
    Column("SignerName", field("spec", "signerName", default=NONE), "Who is to sign it."),
    Column("Requestor", field("spec", "username"), "The user who made it."),
    Column("RequestedDuration", _requested_duration, "How long the certificate is to be valid."),
    Column("Condition", _request_state, "What was decided."),
)
WEBHOOKS = (NAME, Column("Webhooks", size(("webhooks",)), "How many it has.", "integer"), AGE)


def _missing_level(schema: Document, _: datetime) -> str:
    dangling = [
        text(condition, "status")
        for condition in entries(schema, "status", "conditions")
        if condition.get("type") == "Dangling"
    ]
    return dangling[0] if dangling else "?"


FLOW_SCHEMAS = (
    NAME,
    Column(
        "PriorityLevel",
        field("spec", "priorityLevelConfiguration", "name"),
        "The priority level of its requests.",
    ),
    Column(
        "MatchingPrecedence",
        integer("spec", "matchingPrecedence"),
        "The schema with the lowest number counts.",
    ),
    Column(
        "DistinguisherMethod",
        field("spec", "distinguisherMethod", "type", default=NONE),
        "What tells its flows apart.",
    ),
    AGE,
    Column("MissingPL", _missing_level, "Whether its priority level does not exist."),
)


def _limit(*path: str) -> Read:
    def read(level: Document, _: datetime) -> Cell:
        inner = mapping(level, "spec", "limited", *path[:-1])
        return number(inner, path[-1]) if path[-1] in inner else NONE

    return read


PRIORITY_LEVELS = (
    NAME,
    Column("Type", field("spec", "type"), "Limited or Exempt."),
    Column(
        "NominalConcurrencyShares",
        _limit("nominalConcurrencyShares"),
        "Its part of the requests at once.",
    ),
    Column("Queues", _limit("limitResponse", "queuing", "queues"), "How many queues it has."),
    Column(
        "HandSize",
        _limit("limitResponse", "queuing", "handSize"),
        "Among how many queues a flow chooses.",
    ),
    Column(
        "QueueLengthLimit",
        _limit("limitResponse", "queuing", "queueLengthLimit"),
        "How many requests wait in a queue.",
    ),
    AGE,
)


def _service(service: Document, _: datetime) -> str:
    reference = mapping(service, "spec", "service")
    return f"{text(reference, 'namespace')}/{text(reference, 'name')}" if reference else "Local"


def _available(service: Document, _: datetime) -> str:
    for condition in entries(service, "status", "conditions"):
        if condition.get("type") == "Available":
            state, reason = text(condition, "status"), text(condition, "reason")
            return state if state == "True" or not reason else f"{state} ({reason})"
    return "Unknown"


API_SERVICES = (
    NAME,
    Column("Service", _service, "The service that answers."),
    Column("Available", _available, "Whether it answers."),
    AGE,
)


def _health(component: Document) -> Document:
    healthy = [c for c in entries(component, "conditions") if c.get("type") == "Healthy"]
    return healthy[0] if healthy else {}


def _component_state(component: Document, _: datetime) -> str:
    state = text(_health(component), "status")
    return {"": "Unknown", "True": "Healthy"}.get(state, "Unhealthy")


COMPONENTS = (
    NAME,
    Column("Status", _component_state, "Whether it is healthy."),
    Column("Message", lambda each, _: text(_health(each), "message"), "What it says."),
    Column("Error", lambda each, _: text(_health(each), "error"), "Why it did not answer."),
)
