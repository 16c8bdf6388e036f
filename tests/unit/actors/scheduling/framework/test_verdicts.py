"""What a diagnosis has counted stays true as nodes get another status."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.framework.status import SUCCESS, Code, Status
from berth.actors.scheduling.framework.verdicts import Diagnosis, Verdicts
from berth.actors.scheduling.model.snapshot import NodeView, Snapshot
from berth.actors.scheduling.model.vectors import Bools, nth_true

NODES = 5
STATUSES = st.sampled_from(
    [
        SUCCESS,
        Status(Code.UNSCHEDULABLE, ("too small",), "Fit"),
        Status(Code.PENDING, ("not yet", "too small"), "Fit"),
        Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("elsewhere",), "Affinity"),
    ]
)
MARKS = st.lists(st.booleans(), min_size=NODES, max_size=NODES).map(
    lambda marks: np.array(marks, dtype=np.bool_)
)


def told(diagnosis: Diagnosis, live: Bools) -> object:
    return (
        diagnosis.reasons(live),
        diagnosis.rejecting_plugins(live),
        diagnosis.pending_plugins(live),
    )


def recounted(diagnosis: Diagnosis, live: Bools) -> object:
    statuses = [diagnosis.status(position) for position in np.flatnonzero(live).tolist()]
    rejected = [status for status in statuses if not status.ok]
    reasons = [reason for status in rejected for reason in status.reasons]
    return (
        {reason: reasons.count(reason) for reason in reasons},
        {status.plugin for status in rejected},
        {status.plugin for status in rejected if status.code is Code.PENDING},
    )


@given(MARKS, MARKS, st.lists(st.tuples(st.integers(0, NODES - 1), STATUSES), max_size=12))
def test_what_is_counted_is_what_a_recount_gives(
    live: Bools, rejected: Bools, puts: list[tuple[int, Status]]
) -> None:
    diagnosis = Diagnosis(NodeView(Snapshot(), np.arange(NODES)))
    diagnosis.add("Fit", Verdicts.rejecting(rejected, Code.UNSCHEDULABLE, "too small"))
    assert told(diagnosis, live) == recounted(diagnosis, live)
    for position, status in puts:
        diagnosis.put(position, status)
        assert told(diagnosis, live) == recounted(diagnosis, live)
    diagnosis.add("Extender", Verdicts.rejecting(~rejected, Code.UNSCHEDULABLE, "no"))
    assert told(diagnosis, live) == recounted(diagnosis, live)
    assert told(diagnosis, ~live) == recounted(diagnosis, ~live)


@given(st.lists(st.booleans(), min_size=1, max_size=2000).filter(any))
def test_the_nth_mark_is_where_the_nth_true_is(marks: list[bool]) -> None:
    places = [nth_true(np.array(marks), number) for number in range(sum(marks))]
    assert places == [place for place, mark in enumerate(marks) if mark]
