"""The story of a pod: its object, its events, the attempts that the scheduler recorded, and its
decision as `berth explain` makes it, with what would change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from berth.actors.attempt.attempts_page import AttemptsPage, RecordedAttempt, Score
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.scheduling.kube.core import Pod
from berth.config.load import ConfigError
from berth.config.types import KubeSchedulerConfiguration

from ..explain.cause import Cause
from ..explain.changes.proof_search import changes_to_show, is_pending, search
from ..explain.cluster_source import ClusterQuestion, SourceError, question_about
from ..explain.decider import Explainer, decided
from ..explain.decision import Decision, Failure
from ..explain.decision_report import sentence_of
from ..explain.on_node import on_node
from ..explain.pending_pods import decision_of
from ..explain.reasons.pod_causes import PodCauses
from ..explain.reasons.recorded_causes import causes_now, rejection_causes
from ..explain.recorded_attempts import conclusion as recorded_conclusion
from ..explain.recorded_attempts import held_now, woken_by
from ..explain.subject import Subject
from ..explain.tried_cluster import AskedPod, asked

Document = dict[str, Any]
MOST_ATTEMPTS = 20
Verdict_co = TypeVar("Verdict_co", covariant=True)
NOTHING_RECORDED = AttemptsPage(0.0, None, ())


class StoryCondition(msgspec.Struct, frozen=True):
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


class Reason(msgspec.Struct, frozen=True):
    """The number of nodes that a plugin rejected for the same reasons, and the codes of these."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: int
    causes: list[Cause] = []


class PastAttempt(msgspec.Struct, frozen=True, rename="camel"):
    """A recorded attempt. Times are in seconds, `at` of Unix time."""

    number: int
    at: float
    seconds: float
    waited: float
    result: str
    conclusion: str
    woken_by: str
    best: tuple[Score, ...]
    reasons: list[Reason]
    message: str
    nominated: str
    victims: tuple[str, ...]


class StoryChange(msgspec.Struct, frozen=True):
    """A change that would let the pod fit. `who` can cause it: wait (nobody has to), owner or
    admin.
    """

    who: str
    sentence: str


class StoryOf(msgspec.Struct, Generic[Verdict_co], frozen=True, rename="camel"):
    """A pod. `sentence` says where a pending pod goes, or why it stays pending, as `berth explain`
    does, without the pod; "" for others. `attempts` are the latest, newest first.

    `decision` treats the pod as if it were pending now; `problem` is the reason if there is no
    decision. `changes` are the changes after which a pending pod fits, None if it fits already;
    `changes_problem` says why there may be more. `events` is None if they are not read. `causes`
    are the reasons why a pending pod is not placed, for programs.
    """

    key: str
    node: str
    phase: str
    scheduler: str
    priority: int
    created: str
    labels: dict[str, str]
    conditions: list[StoryCondition]
    events: list[Happening] | None
    decision: Verdict_co | None = None
    problem: str = ""
    attempts: list[PastAttempt] = []
    changes: list[StoryChange] | None = None
    changes_problem: str = ""
    sentence: str = ""
    causes: list[Cause] = []


Story = StoryOf[Decision | Failure]


def read_story(body: bytes) -> Story:
    """Returns the story in JSON. Raises msgspec.ValidationError."""
    try:
        return msgspec.json.decode(body, type=StoryOf[Failure])
    except msgspec.ValidationError:  # The decision is no failure.
        return msgspec.json.decode(body, type=StoryOf[Decision])


def as_pending(
    pod: Document,
    objects: list[Document],
    configuration: KubeSchedulerConfiguration,
    gates: Mapping[str, bool],
) -> AskedPod:
    """Asks for the decision about a pod as if it were pending; `objects` are the cluster, including
    the pod. It takes seconds in a large cluster.

    Raises SourceError, ConfigError or RegistryError.
    """
    explainer = Explainer(configuration, gates)
    return asked(explainer, question_about_pod(pod, objects, configuration))


def question_about_pod(
    pod: Document, objects: list[Document], configuration: KubeSchedulerConfiguration
) -> ClusterQuestion:
    """Returns the question about a pod of these objects. Raises SourceError."""
    metadata = pod["metadata"]
    subject = Subject("Pod", metadata["namespace"], metadata["name"])
    return question_about(subject, objects, configuration)


def story_of(
    pod: Document,
    events: Iterable[Document] | None,
    recorded: AttemptsPage,
    ask: Callable[[], AskedPod],
) -> Story:
    """Returns the story of a pod; `ask` may raise SourceError, ConfigError or RegistryError."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    decision: Decision | Failure | None = None
    changes: list[StoryChange] | None = None
    causes: list[Cause] = []
    sentence = problem = changes_problem = ""
    try:
        pending = ask()
        explained = decided(pending.attempt)
        decision = explained.decision
        question, attempt = pending.question, pending.attempt
        waits = question.pinned_to or not spec.get("nodeName")
        if waits:
            held = held_now(recorded) or attempt.held
            standing = (*question.standing, *held)
            there = on_node(attempt, explained.outcome)
            decided_so = decision_of(
                attempt, explained, there, now=not standing, bound=not question.unmade
            )
            sentence = sentence_of(standing, decided_so)
            causes = PodCauses(attempt, decision).of_pod(standing, there)
        if waits and is_pending(pending, decision):
            result = search(pending, explained.outcome)
            changes_problem = result.problem
            if result.says_something:
                changes = [
                    StoryChange(each.who.value, each.sentence)
                    for each in changes_to_show(result.suggestions)
                ]
    except (SourceError, ConfigError, RegistryError) as wrong:
        problem = str(wrong)
    happenings = None if events is None else _happenings(events, metadata.get("uid", ""))
    return Story(
        f"{metadata['namespace']}/{metadata['name']}",
        spec.get("nodeName", ""),
        status.get("phase", ""),
        spec.get("schedulerName", ""),
        spec.get("priority", 0),
        metadata.get("creationTimestamp") or "",
        metadata.get("labels") or {},
        [
            StoryCondition(
                condition["type"],
                condition["status"],
                condition.get("reason", ""),
                condition.get("message", ""),
                condition.get("lastTransitionTime") or "",
            )
            for condition in status.get("conditions") or ()
        ],
        happenings,
        decision,
        problem,
        _latest(recorded),
        changes,
        changes_problem,
        sentence,
        causes,
    )


def undecided(pod: Pod, recorded: AttemptsPage, problem: str) -> Story:
    """Returns the story of a pod without events and without a decision; `problem` says why."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    return Story(
        f"{metadata.namespace}/{metadata.name}",
        spec.node_name,
        status.phase,
        spec.scheduler_name,
        spec.priority or 0,
        metadata.creation_timestamp or "",
        dict(metadata.labels),
        [
            StoryCondition(
                each.type, each.status, each.reason, each.message, each.last_transition_time or ""
            )
            for each in status.conditions
        ],
        None,
        problem=problem,
        attempts=_latest(recorded),
        sentence="" if spec.node_name else "; ".join(held_now(recorded)),
        causes=[] if spec.node_name else causes_now(recorded),
    )


def _latest(recorded: AttemptsPage) -> list[PastAttempt]:
    return [_past_attempt(recorded, each) for each in recorded.attempts[: -MOST_ATTEMPTS - 1 : -1]]


def _past_attempt(page: AttemptsPage, attempt: RecordedAttempt) -> PastAttempt:
    return PastAttempt(
        attempt.number,
        attempt.at,
        attempt.seconds,
        attempt.waited,
        attempt.result,
        recorded_conclusion(attempt),
        woken_by(page, attempt),
        attempt.best,
        [
            Reason(each.plugin, each.reasons, len(each.nodes), rejection_causes(each))
            for each in attempt.rejections
        ],
        attempt.message,
        attempt.nominated,
        attempt.victims,
    )


def _happenings(events: Iterable[Document], uid: str) -> list[Happening]:
    """Returns the events about the pod of a uid, the first ones first."""
    happenings = [
        _happening(event)
        for event in events
        if (event.get("involvedObject") or {}).get("uid") == uid
    ]
    return sorted(happenings, key=lambda happening: happening.time)


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
