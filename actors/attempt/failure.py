"""The consequences of a failed attempt, wherever it failed. Pure.

The queue, the scheduling cycle and the binding cycle all ask here, so that a pod's nomination, its
place in the queue, its condition and its event can never contradict each other.
docs/architecture.md shows the same rules as a table. Mirrors kube-scheduler's
handleSchedulingFailure.
"""

from __future__ import annotations

import enum

from ..messages.queue import Failure
from ..messages.recorder import RecordEvent, SetUnschedulable
from ..scheduling.decision.outcome import Unfit
from ..scheduling.framework.status import Code, Status, encodable
from ..scheduling.kube.core import Pod
from .pod_events import failed_scheduling_event

MOST_CHARACTERS = 32_768  # of a message, as of any condition of the API that has a limit
CUT = " ..."
BLOCKED_BY = "Scheduling is blocked by the plugin"  # PreEnqueue of a plugin, in the condition


class Stage(enum.Enum):
    """The extension points at which an attempt can fail. GATE means that the pod may not have an
    attempt.
    """

    GATE = "PreEnqueue"
    DECISION = "PreFilter to Score, PostFilter included"
    BEFORE_DONE = "Reserve, Permit, waiting on Permit"
    AFTER_DONE = "PreBind, Bind"


def fits_nowhere(unfit: Unfit, hold: int = 0, problem: str = "") -> Failure:
    """Returns the consequences of an attempt for which no node fits. Only PostFilter can keep a
    nomination, or make one.

    `hold` is the number of the preemption that follows from a nomination. If the preemption has
    ended already, `problem` says why it failed: then nothing is nominated.
    """
    outcome, message = unfit.post_filtered, unfit.message
    node = "" if outcome is None or outcome.denominate else None
    if unfit.nomination is not None:
        node = unfit.nomination.node
    if problem:
        found = "" if outcome is None else outcome.status.message
        node, message = None, f"{message.removesuffix(found).rstrip()} preemption: {problem}"
    rejecting = unfit.rejected_by - unfit.pending
    return Failure("Unschedulable", _encodable_text(message), rejecting, unfit.pending, node, hold)


def failed_at_stage(stage: Stage, status: Status) -> Failure:
    """Returns the consequences of an attempt that a plugin or an extender failed or rejected at
    this stage.
    """
    reason = "Unschedulable" if status.rejected else "SchedulerError"
    message = _encodable_text(status.message)
    match stage:
        case Stage.GATE if status.rejected:
            message = _encodable_text(f"{BLOCKED_BY} {status.plugin}: {message}")
            return Failure("SchedulingGated", message, nominated_node=None)
        case Stage.GATE:
            return Failure(reason, message, nominated_node=None)
        case Stage.BEFORE_DONE if status.rejected:
            message = _encodable_text(status.on_chosen_node().message)
            plugins = frozenset((status.plugin,)) - {""}
            if status.code is Code.PENDING:
                return Failure(reason, message, pending=plugins, had_node=True)
            return Failure(reason, message, plugins, had_node=True)
        case _:
            # After Done nobody knows which events the pod missed: even a rejection is tried again
            # after a backoff.
            return Failure(reason, message)


def _encodable_text(text: str) -> str:
    """Returns the text of a plugin in a form that the API server accepts. A very long one is
    refused, or arrives too slowly.
    """
    text = encodable(text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - len(CUT)]}{CUT}"


def condition_and_event(pod: Pod, failure: Failure) -> tuple[SetUnschedulable, RecordEvent]:
    """Returns the orders for the recorder. The nomination is written with the condition."""
    condition = SetUnschedulable(pod, failure.reason, failure.message, failure.nominated_node)
    return condition, failed_scheduling_event(pod, failure.message)
