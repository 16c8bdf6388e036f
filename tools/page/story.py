"""The story of a pod: its object, its events, and its decision as `berth explain` makes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from berth.actors.scheduling.decision.registry import RegistryError
from berth.config.load import ConfigError
from berth.config.types import KubeSchedulerConfiguration

from ..explain.answering import Explainer, decided
from ..explain.decision import Decision, Failure
from ..explain.source import SourceError, question_about
from ..explain.subject import Subject

Document = dict[str, Any]


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str
    message: str
    time: str


class Happening(msgspec.Struct, frozen=True):
    """An event about the pod."""

    time: str
    type: str
    reason: str
    message: str
    count: int


class Story(msgspec.Struct, frozen=True):
    """A pod. `decision` treats it as if it were pending now; `problem` says why there is none."""

    key: str
    node: str
    phase: str
    scheduler: str
    priority: int
    created: str
    labels: dict[str, str]
    conditions: list[Condition]
    events: list[Happening]
    decision: Decision | Failure | None = None
    problem: str = ""


def story_of(
    pod: Document,
    events: Iterable[Document],
    objects: list[Document],
    configuration: KubeSchedulerConfiguration,
    gates: Mapping[str, bool],
) -> Story:
    """Returns the story of a pod; `objects` are the cluster with it. Takes seconds in a large
    cluster, and changes nothing.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    decision: Decision | Failure | None = None
    problem = ""
    try:
        explainer = Explainer(configuration, gates)
        subject = Subject("Pod", metadata["namespace"], metadata["name"])
        decision = decided(
            explainer.attempt(question_about(subject, objects, configuration))
        ).decision
    except (SourceError, ConfigError, RegistryError) as wrong:
        problem = str(wrong)
    happenings = [
        _happening(event)
        for event in events
        if (event.get("involvedObject") or {}).get("uid") == metadata["uid"]
    ]
    return Story(
        f"{metadata['namespace']}/{metadata['name']}",
        spec.get("nodeName", ""),
        status.get("phase", ""),
        spec.get("schedulerName", ""),
        spec.get("priority", 0),
        metadata.get("creationTimestamp") or "",
        metadata.get("labels") or {},
        [
            Condition(
                condition["type"],
                condition["status"],
                condition.get("reason", ""),
                condition.get("message", ""),
                condition.get("lastTransitionTime") or "",
            )
            for condition in status.get("conditions") or ()
        ],
        sorted(happenings, key=lambda happening: happening.time),
        decision,
        problem,
    )


def _happening(event: Document) -> Happening:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return Happening(
        series.get("lastObservedTime") or next(filter(None, times), ""),
        event.get("type", ""),
        event.get("reason", ""),
        event.get("message", ""),
        series.get("count") or event.get("count") or 1,
    )
