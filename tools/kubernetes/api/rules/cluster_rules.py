"""Rules for nodes, leases, runtime classes and events."""

from __future__ import annotations

from collections.abc import Iterator

from berth.actors.scheduling.kube.names import qualified_name

from .container_rules import resources
from .fields import (
    Document,
    duplicate,
    forbidden,
    go_struct,
    invalid,
    quantities,
    required,
    unchanged,
)
from .placement_rules import taints
from .value_forms import cidr

_TOLERATION = ("Key", "Operator", "Value", "Effect", "TolerationSeconds")
_UNSET = {"key": "", "operator": "", "value": "", "effect": ""}
EVENT_FIELD_BYTES, EVENT_MESSAGE_BYTES = 128, 1024
_FIXED_OF_EVENT = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def node(document: Document, before: Document | None) -> list[str]:
    status, spec = document.get("status") or {}, document.get("spec") or {}
    problems = taints("spec.taints", spec.get("taints") or ())
    ranges = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    wrong = [
        problem for i, each in enumerate(ranges) for problem in cidr(f"spec.podCIDRs[{i}]", each)
    ]
    families = {":" in each for each in ranges}
    if not wrong and len(ranges) > len(families):
        detail = "may specify no more than one CIDR for each IP family"
        wrong.append(invalid("spec.podCIDRs", ranges, detail))
    problems += wrong
    was = (before or {}).get("spec") or {}
    for field, name in (("podCIDR", "podCIDRs"), ("providerID", "providerID")):
        if was.get(field) and was[field] != spec.get(field):
            detail = f'node updates may not change {field} except from "" to valid'
            problems.append(forbidden(f"spec.{name}", detail))
    problems += quantities("status.capacity", status.get("capacity"))
    return problems + quantities("status.allocatable", status.get("allocatable"))


def overhead(path: str, value: Document) -> list[str]:
    """Checks the overhead of a RuntimeClass."""
    return resources(path, {"limits": value.get("podFixed")})


def scheduling(path: str, value: Document) -> list[str]:
    """Checks that no toleration of a RuntimeClass occurs twice."""
    tolerations = value.get("tolerations") or ()
    keys = [
        tuple(each.get(field) or "" for field in ("key", "operator", "value", "effect"))
        for each in tolerations
    ]
    return [
        duplicate(f"{path}.tolerations[{i}]", go_struct({**_UNSET, **tolerations[i]}, _TOLERATION))
        for i, key in enumerate(keys)
        if key in keys[:i]
    ]


def core_event(document: Document) -> Iterator[str]:
    yield from _event(document, "reportingComponent")


def _event(document: Document, controller: str) -> Iterator[str]:
    """Checks that an event is in the namespace of its object, or in `default` if the object has no
    namespace.

    An event with an eventTime may be in any namespace, but must name its reporter and a reason.
    `controller` is the name of the reporter's field in the API through which the event is written.
    """
    about = (document.get("involvedObject") or {}).get("namespace") or ""
    namespace = (document.get("metadata") or {}).get("namespace") or ""
    timed = bool(document.get("eventTime"))
    if about:
        fits = timed or about == namespace
    else:
        fits = namespace in (("kube-system", "default") if timed else ("", "default"))
    if not fits:
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")
    if timed:
        reporter = document.get("reportingComponent") or ""
        if not reporter:
            yield required(controller)
        yield from (invalid(controller, reporter, message) for message in qualified_name(reporter))
        needed = ("reportingInstance", "action", "reason")
        yield from (required(field) for field in needed if not document.get(field))
        for field, most in (
            *((field, EVENT_FIELD_BYTES) for field in needed),
            ("message", EVENT_MESSAGE_BYTES),
        ):
            if len((document.get(field) or "").encode()) > most:
                yield invalid(field, "", f"can have at most {most} characters")


def strict_event(document: Document, before: Document | None) -> Iterator[str]:
    """Checks the stricter rules of events.k8s.io: an update may change the series only."""
    yield from _event(document, "reportingController")
    series = document.get("series") or {}
    if series and (before is None or series != before.get("series")):
        if (series.get("count") or 0) < 2:
            yield invalid("series.count", "", "should be at least 2")
        if not series.get("lastObservedTime"):
            yield required("series.lastObservedTime")
    if before is not None:
        for field in _FIXED_OF_EVENT:
            yield from unchanged(field, document.get(field), before.get(field))
        return
    if not document.get("eventTime"):
        yield required("eventTime")
    if document.get("type") not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {document.get('type') or ''}")
    unset = [
        field
        for field in ("firstTimestamp", "lastTimestamp", "count", "source")
        if document.get(field)
    ]
    yield from (invalid(field, "", "needs to be unset") for field in unset)
