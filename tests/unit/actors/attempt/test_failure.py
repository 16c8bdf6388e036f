"""The consequences of a failed attempt: the table of docs/architecture.md, row by row."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from berth.actors.attempt.failure import (
    Stage,
    condition_and_event,
    failed_at_stage,
    fits_nowhere,
)
from berth.actors.messages.queue import Failure, QueuedPod
from berth.actors.messages.recorder import EventType, SetUnschedulable
from berth.actors.scheduling.decision.outcome import Unfit
from berth.plugin import (
    SUCCESS,
    Code,
    Nomination,
    PodInfo,
    PostFiltered,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from tests.kit.structs import pod

PLUGIN = frozenset(("P",))


def parked(
    message: str, nominated_node: str | None = "", hold: int = 0, *, had_node: bool = False
) -> Failure:
    return Failure("Unschedulable", message, PLUGIN, frozenset(), nominated_node, hold, had_node)


@pytest.mark.parametrize(
    ("stage", "status", "expected"),
    [
        # PreEnqueue: the pod stays gated, and keeps its nomination.
        (Stage.GATE, error("broken").by("P"),
         Failure("SchedulerError", "broken", nominated_node=None)),
        # There are no nodes, or a plugin or an extender fails.
        (Stage.DECISION, unschedulable("no nodes"), Failure("Unschedulable", "no nodes")),
        (Stage.DECISION, error("broken").by("P"), Failure("SchedulerError", "broken")),
        # Reserve, Permit, waiting on Permit.
        *(
            (Stage.BEFORE_DONE, status.by("P"),
             parked("0/1 nodes are available: 1 full.", had_node=True))
            for status in (unschedulable("full"), unresolvable("full"))
        ),
        (Stage.BEFORE_DONE, Status(Code.PENDING, ("soon",), "P"),
         Failure(
             "Unschedulable", "0/1 nodes are available: 1 soon.", pending=PLUGIN, had_node=True
         )),
        (Stage.BEFORE_DONE, unschedulable().by("P"),
         parked("0/1 nodes are available:", had_node=True)),
        (Stage.BEFORE_DONE, unschedulable("full", "full").by("P"),
         parked("0/1 nodes are available: 2 full.", had_node=True)),
        (Stage.BEFORE_DONE, error("broken").by("P"), Failure("SchedulerError", "broken")),
        (Stage.BEFORE_DONE, Status(Code.SKIP, ("odd",), "P"), Failure("SchedulerError", "odd")),
        (Stage.BEFORE_DONE, unschedulable("removed"),
         Failure("Unschedulable", "0/1 nodes are available: 1 removed.", had_node=True)),
        # PreBind and Bind: an error for the queue, whatever the user reads.
        *(
            (Stage.AFTER_DONE, Status(code, ("late",), "P"), Failure(reason, "late"))
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
def test_a_status_is_turned_into_a_failure(stage: Stage, status: Status, expected: Failure) -> None:
    assert failed_at_stage(stage, status) == expected


@pytest.mark.parametrize(
    ("post_filtered", "hold", "expected"),
    [
        (PostFiltered(SUCCESS, Nomination("n")), 3, parked("no room", nominated_node="n", hold=3)),
        (PostFiltered(unschedulable()), 0, parked("no room", nominated_node=None)),
        (PostFiltered(unschedulable(), denominate=True), 0, parked("no room", nominated_node="")),
        (None, 0, parked("no room", nominated_node="")),
    ],
    ids=["room is made", "not said", "no room is made", "no plugin"],
)
def test_post_filter_decides_what_becomes_of_the_nomination(
    post_filtered: PostFiltered | None, hold: int, expected: Failure
) -> None:
    assert fits_nowhere(Unfit("no room", PLUGIN, post_filtered=post_filtered), hold) == expected


def test_a_preemption_that_failed_nominates_nothing_and_is_told() -> None:
    unfit = Unfit("no room", PLUGIN, post_filtered=PostFiltered(SUCCESS, Nomination("n")))
    failure = fits_nowhere(unfit, problem="refused")
    assert failure == parked("no room preemption: refused", nominated_node=None)


def test_a_preemption_that_failed_does_not_promise_room() -> None:
    found = Status(Code.SUCCESS, ("preemption: found a place",))
    answer = PostFiltered(found, Nomination("n"))
    unfit = Unfit("no room preemption: found a place", PLUGIN, post_filtered=answer)
    assert fits_nowhere(unfit).message == "no room preemption: found a place"
    assert fits_nowhere(unfit, problem="refused").message == "no room preemption: refused"


def test_a_plugin_that_waits_counts_as_pending_alone() -> None:
    failure = fits_nowhere(Unfit("no room", PLUGIN | {"Q"}, frozenset("Q")), 0)
    assert (failure.unschedulable, failure.pending) == (PLUGIN, frozenset("Q"))


def test_the_condition_and_the_event_say_the_same() -> None:
    queued = QueuedPod(PodInfo(pod("p", schedulerName="s")), 2, 1.0)
    after = parked("no room", nominated_node="n", hold=3, had_node=True)
    condition, event = condition_and_event(queued.info.pod, after)
    assert condition == SetUnschedulable(queued.info.pod, "Unschedulable", "no room", "n")
    told = (event.regarding.name, event.type, event.reason, event.note, event.reporting_controller)
    assert told == ("p", EventType.WARNING, "FailedScheduling", "no room", "s")


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("kind", [error, unschedulable])
def test_a_text_that_no_connection_takes_is_made_writable(
    stage: Stage, kind: Callable[[str], Status]
) -> None:
    for text in ("/mnt/\udcff", "\ud800", "x" * 5_000_000):
        failure = failed_at_stage(stage, kind(text).by("P"))
        condition, event = condition_and_event(pod("p"), failure)
        assert len(msgspec.json.encode((condition.message, event.note, failure.message))) < 100_000
    assert failed_at_stage(stage, error("größer").by("P")).message == "größer"
