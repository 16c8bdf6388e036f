"""What a victim's user reads of who took its place."""

from __future__ import annotations

import pytest

from berth.actors.attempt.pod_events import preempted_event
from berth.actors.messages.recorder import EventType
from berth.actors.scheduling.kube.core import Pod, PodSpec, reference_to
from berth.actors.scheduling.kube.meta import ObjectMeta, ObjectReference

VICTIM = Pod(metadata=ObjectMeta(namespace="ns", name="small", uid="u", resource_version="7"))
PREEMPTOR = Pod(
    metadata=ObjectMeta(namespace="other", name="large", uid="v", resource_version="9"),
    spec=PodSpec(scheduler_name="batch-scheduler"),
)


@pytest.mark.parametrize(
    ("in_memory", "note"),
    [
        (False, "Preempted by pod v on node n"),
        (True, "Preempted by pod v on node n (in kube-scheduler memory)."),
    ],
)
def test_the_event_names_both_pods(in_memory: bool, note: str) -> None:
    event = preempted_event(VICTIM, PREEMPTOR, "n", in_memory=in_memory)
    assert event.regarding == ObjectReference("v1", "Pod", "ns", "small", "u", "7")
    assert (
        event.related
        == reference_to(PREEMPTOR)
        == ObjectReference("v1", "Pod", "other", "large", "v", "9")
    )
    assert (event.type, event.reason, event.action) == (EventType.NORMAL, "Preempted", "Preempting")
    assert (event.note, event.reporting_controller) == (note, "batch-scheduler")
