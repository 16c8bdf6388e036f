"""The recorded attempts of a pod, in a form for people and programs."""

from __future__ import annotations

import msgspec

from ..messages.binding import WaitingPodDump
from ..messages.queue import StoryStep
from ..scheduling.kube.core import Pod, PodCondition


class Score(msgspec.Struct, frozen=True):
    node: str
    score: int


class Rejection(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes that one plugin rejected for the same reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]


class RecordedAttempt(msgspec.Struct, frozen=True, rename="camel"):
    """An attempt, for people to read. Times are in seconds of Unix time.

    `result` is placed, unschedulable, error or failed. An attempt that fails after the decision, in
    Reserve or later, is there twice: the second time it is failed, with the node, the reason as
    `message`, and the time of the failure. The same is true of a preemption that fails.

    `evaluated` nodes were looked at, `feasible` of them fit. `best` are the nodes with the highest
    scores, which are comparable within the attempt only; `tied` nodes share the highest.
    `woken_late` means that no event woke the pod, but the limit for the time that a pod is parked.
    """

    key: str
    uid: str
    resource_version: str
    number: int
    at: float
    seconds: float
    waited: float
    result: str
    woken_late: bool = False
    node: str = ""
    evaluated: int = 0
    feasible: int = 0
    best: tuple[Score, ...] = ()
    tied: int = 0
    message: str = ""
    rejections: tuple[Rejection, ...] = ()
    nominated: str = ""
    victims: tuple[str, ...] = ()


class PodNow(msgspec.Struct, frozen=True, rename="camel"):
    """A pod as the API server shows it, whichever scheduler decided about it.

    The last four fields are those of its condition PodScheduled, "" if it has none; `since` is
    written as the API server wrote it.
    """

    uid: str
    node: str
    phase: str
    scheduler: str
    nominated: str
    scheduled: str = ""
    reason: str = ""
    message: str = ""
    since: str = ""

    @classmethod
    def of(cls, pod: Pod) -> PodNow:
        spec, status = pod.spec, pod.status
        condition = next((c for c in status.conditions if c.type == "PodScheduled"), PodCondition())
        return cls(
            pod.metadata.uid,
            spec.node_name,
            status.phase,
            spec.scheduler_name,
            status.nominated_node_name,
            condition.status,
            condition.reason,
            condition.message,
            condition.last_transition_time or "",
        )


class AttemptsPage(msgspec.Struct, frozen=True):
    """The recorded attempts of a pod, oldest first, its latest moves in the queue, and the pod now,
    None if it is gone or unknown. `waiting` tells whom it waits for on Permit.

    `since` is the time of the oldest attempt that is kept of any pod, None if there is none.
    `started` is when this process began to record; on a page that was read from files, it equals
    `since`.
    """

    started: float
    since: float | None
    attempts: tuple[RecordedAttempt, ...]
    story: tuple[StoryStep, ...] = ()
    pod: PodNow | None = None
    waiting: WaitingPodDump | None = None
