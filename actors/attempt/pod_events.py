"""The events about pods that the scheduler writes: Scheduled, FailedScheduling, Preempted. Pure.

Reasons, actions and notes are those of kube-scheduler.
"""

from __future__ import annotations

from ..messages.recorder import EventType, RecordEvent
from ..scheduling.kube.core import Pod, reference_to

_NORMAL, _WARNING = EventType.NORMAL, EventType.WARNING  # to look a member up in its class is slow


def scheduled_event(pod: Pod, node: str) -> RecordEvent:
    """Returns the event of a pod that is bound to the node."""
    metadata = pod.metadata
    note = f"Successfully assigned {metadata.namespace}/{metadata.name} to {node}"
    sender = pod.spec.scheduler_name
    return RecordEvent(reference_to(pod), _NORMAL, "Scheduled", "Binding", note, sender)


def failed_scheduling_event(pod: Pod, message: str) -> RecordEvent:
    """Returns the event of a pod that is not placed; the message says why."""
    sender = pod.spec.scheduler_name
    return RecordEvent(
        reference_to(pod), _WARNING, "FailedScheduling", "Scheduling", message, sender
    )


def activated_in_vain_event(pod: Pod, by: str, times: int) -> RecordEvent:
    """Returns the event of a pod that plugins keep activating without progress."""
    note = (
        f"Activated {times} times in a row by {by}, and no attempt placed it: "
        "from now on it backs off like other pods"
    )
    sender = pod.spec.scheduler_name
    return RecordEvent(reference_to(pod), _WARNING, "ActivatedInVain", "Scheduling", note, sender)


def preempted_event(victim: Pod, preemptor: Pod, node: str, *, in_memory: bool) -> RecordEvent:
    """Returns the event of a victim; `in_memory` if it was not bound yet."""
    note = f"Preempted by pod {preemptor.metadata.uid} on node {node}"
    if in_memory:
        note += " (in kube-scheduler memory)."
    sender = preemptor.spec.scheduler_name
    return RecordEvent(
        reference_to(victim),
        _NORMAL,
        "Preempted",
        "Preempting",
        note,
        sender,
        reference_to(preemptor),
    )
