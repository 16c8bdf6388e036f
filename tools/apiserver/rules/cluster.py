"""Rules for nodes, services, priority classes, leases, runtime classes, events and config maps."""

from __future__ import annotations

import re

from berth.actors.scheduling.kube.names import dns_label, qualified_name

from .fields import (
    Document,
    between,
    duplicate,
    forbidden,
    invalid,
    labels,
    non_negative,
    one_of,
    quantities,
    required,
    unchanged,
)
from .placement import taints
from .pods import PROTOCOLS

HIGHEST_USER_PRIORITY = 1_000_000_000
EVENT_FIELD_BYTES, EVENT_MESSAGE_BYTES = 128, 1024
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
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
_CONFIG_KEY = re.compile("[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
    "regex used for validation is '[-._a-zA-Z0-9]+')"
)


def node(document: Document) -> list[str]:
    status = document.get("status") or {}
    problems = taints("spec.taints", (document.get("spec") or {}).get("taints") or ())
    problems += quantities("status.capacity", status.get("capacity"))
    return problems + quantities("status.allocatable", status.get("allocatable"))


def service(spec: Document) -> list[str]:
    kind = spec.get("type") or "ClusterIP"
    problems = one_of("spec.type", kind, _SERVICE_TYPES) + labels(
        "spec.selector", spec.get("selector")
    )
    problems += one_of("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    ports = spec.get("ports") or ()
    if kind == "ExternalName":
        problems += [] if spec.get("externalName") else [required("spec.externalName")]
    elif not ports and spec.get("clusterIP") != "None":
        problems.append(required("spec.ports"))
    names: set[str] = set()
    for i, port in enumerate(ports):
        path, name = f"spec.ports[{i}]", port.get("name") or ""
        if name:
            problems += [invalid(f"{path}.name", name, message) for message in dns_label(name)]
        elif len(ports) > 1:
            problems.append(required(f"{path}.name"))
        if name and name in names:
            problems.append(duplicate(f"{path}.name", name))
        names.add(name)
        problems += between(f"{path}.port", port.get("port") or 0, 1, 65535)
        problems += one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
        if isinstance(target := port.get("targetPort"), int):
            problems += between(f"{path}.targetPort", target, 1, 65535)
    return problems


def priority_class(document: Document, before: Document | None) -> list[str]:
    problems: list[str] = []
    name, value = (document.get("metadata") or {}).get("name") or "", document.get("value") or 0
    if name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) != value:
            detail = (
                "priority class names with 'system-' prefix are reserved for system use only. "
                "error: "
            )
            mismatch = (
                f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
                if name in SYSTEM_CLASSES
                else ""
            )
            detail += mismatch or f"{name} is not a known system priority class"
            problems.append(forbidden("metadata.name", detail))
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        problems.append(forbidden("value", detail))
    policy = document.get("preemptionPolicy") or "PreemptLowerPriority"
    problems += one_of("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    if before is not None:
        if value != (before.get("value") or 0):
            problems.append(forbidden("value", "may not be changed in an update."))
        was = before.get("preemptionPolicy") or "PreemptLowerPriority"
        problems += unchanged("preemptionPolicy", policy, was)
    return problems


def lease(spec: Document) -> list[str]:
    problems: list[str] = []
    if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
        problems.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return problems + non_negative("spec.leaseTransitions", spec.get("leaseTransitions"))


def runtime_class(document: Document, before: Document | None) -> list[str]:
    handler = document.get("handler") or ""
    problems = [invalid("handler", handler, message) for message in dns_label(handler)]
    problems += quantities("overhead.podFixed", (document.get("overhead") or {}).get("podFixed"))
    return problems + (
        unchanged("handler", handler, before.get("handler") or "") if before is not None else []
    )


def event(document: Document, controller: str) -> list[str]:
    """Checks that an event is in its object's namespace, or in default if the object has no
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
    problems = (
        []
        if fits
        else [invalid("involvedObject.namespace", about, "does not match event.namespace")]
    )
    if timed:
        reporter = document.get("reportingComponent") or ""
        problems += [] if reporter else [required(controller)]
        problems += [invalid(controller, reporter, message) for message in qualified_name(reporter)]
        needed = ("reportingInstance", "action", "reason")
        problems += [required(field) for field in needed if not document.get(field)]
        for field, most in (
            *((field, EVENT_FIELD_BYTES) for field in needed),
            ("message", EVENT_MESSAGE_BYTES),
        ):
            if len((document.get(field) or "").encode()) > most:
                problems.append(invalid(field, "", f"can have at most {most} characters"))
    return problems


def strict_event(document: Document, before: Document | None) -> list[str]:
    """Checks the further rules of events.k8s.io: an update may change nothing but the series."""
    problems: list[str] = []
    series = document.get("series") or {}
    if series and (before is None or series != before.get("series")):
        if (series.get("count") or 0) < 2:
            problems.append(invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            problems.append(required("series.lastObservedTime"))
    if before is not None:
        for field in _FIXED_OF_EVENT:
            problems += unchanged(field, document.get(field), before.get(field))
        return problems
    if not document.get("eventTime"):
        problems.append(required("eventTime"))
    if document.get("type") not in ("Normal", "Warning"):
        problems.append(invalid("type", "", f"has invalid value: {document.get('type') or ''}"))
    unset = [
        field
        for field in ("firstTimestamp", "lastTimestamp", "count", "source")
        if document.get(field)
    ]
    return problems + [invalid(field, "", "needs to be unset") for field in unset]


def config_map(document: Document, before: Document | None) -> list[str]:
    problems: list[str] = []
    data, binary = document.get("data") or {}, document.get("binaryData") or {}
    for field, contents in (("data", data), ("binaryData", binary)):
        problems += [
            invalid(f"{field}[{key}]", key, _CONFIG_KEY_RULE)
            for key in contents
            if not _CONFIG_KEY.fullmatch(key)
        ]
    problems += [
        invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in data
        if key in binary
    ]
    if before is not None and before.get("immutable"):
        for field in ("data", "binaryData"):
            if (document.get(field) or {}) != (before.get(field) or {}):
                problems.append(forbidden(field, "field is immutable when `immutable` is set"))
    return problems
