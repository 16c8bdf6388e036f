"""Examines the parked pods: decides about each of them in the cluster as it is now.

The rule for a forgotten pod is that of the scheduler itself (actors/queue/forgotten.py), here with
all nodes on which the pod would fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic

import msgspec

from berth.actors.messages.queue import Place, QueuedPodDump
from berth.actors.queue.forgotten import forgotten_on, waits_for_event
from berth.actors.scheduling.decision.failures import PluginError
from berth.actors.scheduling.decision.outcome import Choice
from berth.actors.scheduling.decision.plain import Plain
from berth.actors.scheduling.decision.profile import Profile

from ...kubernetes.api.types.api_documents import key_of, place_of
from ..explain.cause import Cause
from ..explain.cluster_source import Document, SourceError
from ..explain.decider import Attempt, Explainer, decided, fitting_nodes, rejections
from ..explain.decision import Decision, Failure
from ..explain.eviction_story import eviction
from ..explain.reasons.cause_search import cause_of
from ..explain.reasons.pod_causes import PodCauses
from ..explain.subject import standing
from ..explain.tried_cluster import TriedCluster

SUCCESS = "Success"
FORGOTTEN = "forgotten"
GATED = "gated"


class Examination(msgspec.Struct, frozen=True):
    """The nodes on which each pod would fit, by the pod's key.

    `left` are the pods that were not examined: the time was too short, or the scheduler does not
    try them now. `causes` say of pods why they fit nowhere.
    """

    nodes: Mapping[str, tuple[str, ...]]
    left: tuple[str, ...] = ()
    causes: Mapping[str, list[Cause]] = {}


class ParkedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A parked pod. `since` is in seconds of Unix time, 0 if unknown.

    `events` are the events for which the plugins in `rejected_by` registered; one of them should
    have woken a forgotten pod. `skipped` tells how often each plugin's hint skipped an event since
    the last attempt. A gated pod is kept out of the queue by the plugin in `rejected_by`, with this
    `message`. `causes` are the reasons for programs: of a gated pod, and of one that does not fit,
    for the first pods.
    """

    key: str
    since: float
    rejected_by: tuple[str, ...]
    verdict: str
    node: str = ""
    events: tuple[str, ...] = ()
    skipped: Mapping[str, int] = {}
    message: str = ""
    causes: list[Cause] = []


class ParkedPods(msgspec.Struct, frozen=True):
    """The answer of `berth doctor` for programs."""

    items: list[ParkedPod]


def parked(queue: Iterable[QueuedPodDump], key: str | None = None) -> dict[str, QueuedPodDump]:
    """Returns the pods that only an event can wake, or only the pod of `key` among them.

    Pods that are gated, that back off, or that await the end of a preemption are left out.
    """
    return {
        pod.key: pod
        for pod in queue
        if waits_for_event(pod.place, held=pod.held) and key in (None, pod.key)
    }


def gated(queue: Iterable[QueuedPodDump], key: str | None = None) -> list[ParkedPod]:
    """Returns the pods that a plugin keeps out of the queue, or only the pod of `key` among
    them.
    """
    return [
        ParkedPod(
            pod.key,
            pod.story[-1].at if pod.story else 0.0,
            (pod.gated_by,),
            GATED,
            message=pod.gate_message,
            causes=[cause_of(pod.gated_by, pod.gate_message)],
        )
        for pod in sorted(queue, key=lambda pod: pod.key)
        if pod.place is Place.GATED and not pod.held and key in (None, pod.key)
    ]


def examine(
    explainer: Explainer,
    objects: list[Document],
    keys: Iterable[str],
    seconds: float,
    told: int = 0,
) -> Examination:
    """Decides about the pods of these keys, for about `seconds` at most, and says of the first
    `told` of them why they fit nowhere. Raises SourceError.
    """
    tried = TriedCluster(explainer, objects)
    end = monotonic() + seconds
    causes: dict[str, list[Cause]] = {}
    nodes: dict[str, tuple[str, ...]] = {}
    left: list[str] = []
    pods = {key_of(document): document for document in objects if document.get("kind") == "Pod"}
    for key in keys:
        pod = pods.get(key)
        if pod is None or standing(pod) or eviction(pod, ()) or monotonic() > end:
            left.append(key)
            continue
        try:
            attempt = tried.attempt(place_of(pod))
        except SourceError:
            left.append(key)  # It belongs to another scheduler.
            continue
        nodes[key] = _fitting_nodes(attempt)
        if not nodes[key] and len(causes) < told:
            causes[key] = PodCauses(attempt, rejections(attempt)).of_pod()
    return Examination(nodes, tuple(left), causes)


def always_parked(
    before: Mapping[str, QueuedPodDump],
    first: Examination,
    after: Mapping[str, QueuedPodDump],
    second: Examination,
    events: Mapping[str, tuple[str, ...]],
) -> list[ParkedPod]:
    """Returns the pods that were parked from the first look to the last, the forgotten ones first.

    `events` are the events for which each plugin registered.
    """
    pods = []
    for key, pod in before.items():
        now = after.get(key)
        if now is None or _moves_and_attempts(now) != _moves_and_attempts(pod):
            continue
        rejectors = tuple(sorted({*pod.rejected_by, *pod.pending}))
        since = pod.story[-1].at if pod.story else 0.0
        if key in first.left or key in second.left:
            pods.append(ParkedPod(key, since, rejectors, "not examined"))
            continue
        node = forgotten_on(first.nodes.get(key, ()), second.nodes.get(key, ()))
        if not node:
            causes = second.causes.get(key, [])
            pods.append(ParkedPod(key, since, rejectors, "does not fit", causes=causes))
            continue
        waking = [
            f"{plugin}: {event}" for plugin in rejectors for event in events.get(plugin, ("*",))
        ]
        pods.append(ParkedPod(key, since, rejectors, FORGOTTEN, node, tuple(waking), now.skipped))
    return sorted(pods, key=lambda pod: (pod.verdict != FORGOTTEN, pod.key))


def registered_events(profiles: Iterable[Profile]) -> dict[str, tuple[str, ...]]:
    """Returns the names of the events that each plugin registered for."""
    events: dict[str, set[str]] = {}
    for profile in profiles:
        for plugin, registrations in profile.hints().items():
            events.setdefault(plugin, set()).update(str(r.event) for r in registrations)
    return {plugin: tuple(sorted(names)) for plugin, names in events.items()}


def _fitting_nodes(attempt: Attempt) -> tuple[str, ...]:
    """Returns the nodes that the pod fits on. Extenders are asked too."""
    if attempt.configuration.extenders:
        explained = decided(attempt)
        return _feasible(explained.decision) if isinstance(explained.outcome, Choice) else ()
    try:
        return tuple(fitting_nodes(Plain(attempt.profile, attempt.info, attempt.snapshot)))
    except PluginError:
        return ()


def _feasible(decision: Decision | Failure) -> tuple[str, ...]:
    if isinstance(decision, Failure):
        return ()
    return tuple(name for name, verdict in decision.filter.items() if verdict.code == SUCCESS)


def _moves_and_attempts(pod: QueuedPodDump) -> tuple[str, int, tuple[tuple[str, str], ...]]:
    """Returns the parts of a story that change with each attempt and each move. The times in it may
    differ by the clock's drift.
    """
    return pod.uid, pod.attempts, tuple((step.queue, step.event) for step in pod.story)
