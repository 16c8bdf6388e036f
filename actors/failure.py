"""What follows from a failed attempt, wherever it failed. Pure.

The scheduling cycle and the binding cycle both ask here, so that a pod's nomination, its place in
the queue, its condition and its event can never contradict each other. docs/architecture.md shows
the same rules as a table. Mirrors kube-scheduler's handleSchedulingFailure.
"""

from __future__ import annotations

import enum

import msgspec
from berth.actors.messages import AttemptFailed, EventType, QueuedPod, RecordEvent, SetUnschedulable
from berth.actors.scheduling.decision.algorithm import Unfit
from berth.actors.scheduling.framework.status import Code, Status
from berth.actors.scheduling.kube.core import Pod, reference_to

NOBODY: frozenset[str] = frozenset()
MOST_CHARACTERS = 32_768  # of a message, as of any condition of the API that has a limit
CUT = " ..."


class Stage(enum.Enum):
    """Where the attempt failed, or that PreEnqueue does not let the pod have one."""

    GATE = "PreEnqueue"
    DECISION = "PreFilter to Score, PostFilter included"
    BEFORE_DONE = "Reserve, Permit, waiting on Permit"
    AFTER_DONE = "PreBind, Bind"


class Failure(msgspec.Struct, frozen=True):
    """`status` tells the user why. The other fields are for a decision that found no node.

    `rejected_by` are all plugins that rejected the pod, `pending` those of them that wait for
    something to happen. `nominated_node` is what PostFilter makes of the nomination: a node, "" for
    none, None if it does not say. `hold` is the number of the preemption that makes room for the
    pod, 0 if there is none.
    """

    stage: Stage
    status: Status
    rejected_by: frozenset[str] = NOBODY
    pending: frozenset[str] = NOBODY
    nominated_node: str | None = ""
    hold: int = 0


class Consequences(msgspec.Struct, frozen=True):
    """Without `unschedulable` and `pending` plugins the pod backs off after an error, else it is
    parked for them.

    `reason` and `message` are the condition's, the message is the event's note too. For the others
    see AttemptFailed.
    """

    reason: str
    message: str
    unschedulable: frozenset[str] = NOBODY
    pending: frozenset[str] = NOBODY
    nominated_node: str | None = ""
    hold: int = 0

    @property
    def error(self) -> bool:
        return self.reason == "SchedulerError"


def no_node(unfit: Unfit, hold: int) -> Failure:
    """A decision that found no node; `hold` is the number of the preemption that follows from a
    nomination.
    """
    made = unfit.post_filtered
    node = "" if made is None or made.denominate else None
    if unfit.nomination is not None:
        node = unfit.nomination.node
    status = Status(Code.UNSCHEDULABLE, (unfit.message,))
    return Failure(Stage.DECISION, status, unfit.rejected_by, unfit.pending, node, hold)


def consequences(failure: Failure) -> Consequences:
    """What becomes of the pod. Of a failed attempt only PostFilter can keep or make a
    nomination.
    """
    status, message = failure.status, _writable(failure.status.message)
    reason = "Unschedulable" if status.rejected else "SchedulerError"
    match failure.stage:
        case Stage.GATE:
            return Consequences(reason, message, nominated_node=None)
        case Stage.DECISION if status.rejected:
            waiting = failure.pending
            rejecting = failure.rejected_by - waiting
            return Consequences(
                reason, message, rejecting, waiting, failure.nominated_node, failure.hold
            )
        case Stage.BEFORE_DONE if status.rejected:
            plugins = frozenset((status.plugin,)) - {""}
            waits = status.code is Code.PENDING
            told = _writable(status.on_chosen_node().message)
            return Consequences(
                reason, told, NOBODY if waits else plugins, plugins if waits else NOBODY
            )
        case _:
            # After Done nobody knows which events the pod missed: even a rejection is tried again
            # after a backoff.
            return Consequences(reason, message)


def _writable(text: str) -> str:
    """What a plugin says, as the API server takes it: half a surrogate pair, such as Python makes
    of a file name that is no UTF-8, cannot be encoded; and what is very long is not taken at once
    by a connection, or not at all.
    """
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - len(CUT)]}{CUT}"


def requeue(queued: QueuedPod, after: Consequences) -> AttemptFailed:
    """What the queue is told."""
    return AttemptFailed(
        queued, after.unschedulable, after.pending, after.nominated_node, after.hold
    )


def tell_user(pod: Pod, after: Consequences) -> tuple[SetUnschedulable, RecordEvent]:
    """What the recorder writes: the condition, with the nomination, and the event."""
    condition = SetUnschedulable(pod, after.reason, after.message, after.nominated_node)
    return condition, failed_scheduling(pod, after.message)


def failed_scheduling(pod: Pod, message: str) -> RecordEvent:
    """The event that tells a pod's user why it is not placed."""
    sender = pod.spec.scheduler_name
    return RecordEvent(
        reference_to(pod), EventType.WARNING, "FailedScheduling", "Scheduling", message, sender
    )
