"""What follows from a failed attempt: the table of docs/architecture.md, row by row."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from berth.actors.failure import (
    NOBODY,
    Consequences,
    Failure,
    Stage,
    consequences,
    requeue,
    tell_user,
)
from berth.actors.messages import AttemptFailed, EventType, QueuedPod, SetUnschedulable
from berth.actors.scheduling.framework.status import (
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from berth.actors.scheduling.model.pod_info import PodInfo

from tests.kit.hints import pod

PLUGIN = frozenset(("P",))
NO_ROOM = unschedulable("no room")


def parked(message: str, **others: object) -> Consequences:
    return Consequences("Unschedulable", message, **{"unschedulable": PLUGIN, **others})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        # PreEnqueue: the pod stays gated, and keeps what it is promised.
        (Failure(Stage.GATE, error("broken").by("P"), nominated_node=None),
         Consequences("SchedulerError", "broken", nominated_node=None)),
        # No node fits: PostFilter says what becomes of the nomination.
        (Failure(Stage.DECISION, NO_ROOM, PLUGIN, nominated_node="n", hold=3),
         parked("no room", nominated_node="n", hold=3)),
        (Failure(Stage.DECISION, NO_ROOM, PLUGIN, nominated_node=None), parked("no room", nominated_node=None)),
        (Failure(Stage.DECISION, NO_ROOM, PLUGIN), parked("no room")),
        (Failure(Stage.DECISION, NO_ROOM, PLUGIN | {"Q"}, frozenset("Q")), parked("no room", pending=frozenset("Q"))),
        # There are no nodes, or a plugin or an extender fails.
        (Failure(Stage.DECISION, NO_ROOM), Consequences("Unschedulable", "no room")),
        (Failure(Stage.DECISION, error("broken").by("P")), Consequences("SchedulerError", "broken")),
        # Reserve, Permit, waiting on Permit.
        *(
            (Failure(Stage.BEFORE_DONE, status.by("P")), parked("0/1 nodes are available: 1 full."))
            for status in (unschedulable("full"), unresolvable("full"))
        ),
        (Failure(Stage.BEFORE_DONE, Status(Code.PENDING, ("soon",), "P")),
         Consequences("Unschedulable", "0/1 nodes are available: 1 soon.", NOBODY, PLUGIN)),
        (Failure(Stage.BEFORE_DONE, unschedulable().by("P")), parked("0/1 nodes are available:")),
        (Failure(Stage.BEFORE_DONE, unschedulable("full", "full").by("P")), parked("0/1 nodes are available: 2 full.")),
        (Failure(Stage.BEFORE_DONE, error("broken").by("P")), Consequences("SchedulerError", "broken")),
        (Failure(Stage.BEFORE_DONE, Status(Code.SKIP, ("odd",), "P")), Consequences("SchedulerError", "odd")),
        (Failure(Stage.BEFORE_DONE, unschedulable("removed")),
         Consequences("Unschedulable", "0/1 nodes are available: 1 removed.")),
        # PreBind and Bind: an error for the queue, whatever the user reads.
        *(
            (Failure(Stage.AFTER_DONE, Status(code, ("late",), "P")), Consequences(reason, "late"))
            for code, reason in (
                (Code.UNSCHEDULABLE, "Unschedulable"),
                (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "Unschedulable"),
                (Code.PENDING, "Unschedulable"),
                (Code.ERROR, "SchedulerError"),
                (Code.WAIT, "SchedulerError"),
            )
        ),
    ],
)  # fmt: skip
def test_what_follows(failure: Failure, expected: Consequences) -> None:
    assert consequences(failure) == expected


def test_the_queue_and_the_user_hear_the_same() -> None:
    queued = QueuedPod(PodInfo(pod("p", schedulerName="s")), 2, 1.0)
    after = parked("no room", nominated_node="n", hold=3)
    assert requeue(queued, after) == AttemptFailed(queued, PLUGIN, NOBODY, "n", 3)
    condition, event = tell_user(queued.info.pod, after)
    assert condition == SetUnschedulable(queued.info.pod, "Unschedulable", "no room", "n")
    told = (event.regarding.name, event.type, event.reason, event.note, event.reporting_controller)
    assert told == ("p", EventType.WARNING, "FailedScheduling", "no room", "s")


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("kind", [error, unschedulable])
def test_what_no_connection_takes_is_not_told(stage: Stage, kind: Callable[[str], Status]) -> None:
    for said in ("/mnt/\udcff", "\ud800", "x" * 5_000_000):
        after = consequences(Failure(stage, kind(said).by("P")))
        condition, event = tell_user(pod("p"), after)
        assert len(msgspec.json.encode((condition.message, event.note, after.message))) < 100_000
    assert consequences(Failure(stage, error("größer").by("P"))).message == "größer"
