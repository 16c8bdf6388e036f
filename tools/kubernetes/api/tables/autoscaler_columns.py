"""The columns of autoscalers, and of the metrics of pods and nodes."""

from __future__ import annotations

from datetime import datetime

from berth.actors.scheduling.kube.quantity import nano_value

from ..rules.autoscaler_rules import SOURCES
from ..types.amounts import Sum
from ..types.api_documents import Document
from .column import (
    AGE,
    NAME,
    UNKNOWN,
    UNSET,
    Column,
    entries,
    field,
    integer,
    mapping,
    text,
    value_at,
)

MOST_TARGETS = 2


def _reference(document: Document, _: datetime) -> str:
    target = mapping(document, "spec", "scaleTargetRef")
    return f"{text(target, 'kind')}/{text(target, 'name')}"


def _targets(document: Document, _: datetime) -> str:
    """Returns the current and the desired amount of the first metrics."""
    metrics = entries(document, "spec", "metrics")
    current = entries(document, "status", "currentMetrics")
    current += [{}] * (len(metrics) - len(current))
    shown = [_target(metric, now) for metric, now in zip(metrics, current, strict=False)]
    if not shown:
        return "<none>"
    more = len(shown) - MOST_TARGETS
    return ", ".join(shown[:MOST_TARGETS]) + (f" + {more} more..." if more > 0 else "")


def _target(metric: Document, status: Document) -> str:
    source = SOURCES.get(text(metric, "type"), "")
    if not source:
        return "<unknown type>"
    target, current = mapping(metric, source, "target"), mapping(status, source, "current")
    of_resource = source in ("resource", "containerResource")
    name = f"{text(metric, source, 'name')}: " if of_resource else ""
    if text(target, "averageValue"):
        average = " (avg)" if source in ("object", "external") else ""
        now = text(current, "averageValue", default=UNKNOWN)
        return f"{name}{now}/{text(target, 'averageValue')}{average}"
    if not of_resource:
        return f"{text(current, 'value', default=UNKNOWN)}/{text(target, 'value')}"
    now, desired = (value_at(each, "averageUtilization") for each in (current, target))
    share = UNKNOWN if now is None else f"{now}%"
    return f"{name}{share}/{'<auto>' if desired is None else f'{desired}%'}"


def _amount(name: str) -> Column:
    """Returns the column of a resource, of all containers of a pod or of a node."""

    def read(document: Document, _: datetime) -> str:
        usages = [mapping(each, "usage") for each in entries(document, "containers")]
        amounts = [text(usage, name) for usage in usages or [mapping(document, "usage")]]
        total = sum(nano_value(amount) for amount in amounts if amount)
        return Sum(total, binary=name == "memory").text()

    return Column(name, read, f"How much {name} it uses.")


AUTOSCALERS = (
    NAME,
    Column("Reference", _reference, "The workload that it scales."),
    Column("Targets", _targets, "What its metrics are, and what they should be."),
    Column("MinPods", field("spec", "minReplicas", default=UNSET), "The least replicas."),
    Column("MaxPods", integer("spec", "maxReplicas"), "The most replicas."),
    Column("Replicas", integer("status", "currentReplicas"), "The replicas that it saw last."),
    AGE,
)
METRICS = (
    NAME,
    _amount("cpu"),
    _amount("memory"),
    Column("Window", field("window"), "The time over which the usage of cpu was measured."),
)
