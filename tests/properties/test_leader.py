"""Leader election in random histories: two candidates, one lease, lost writes and slow clocks;
never two leaders.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.actors.leader.state import LeaderState, Terms, Wait, Write
from berth.actors.scheduling.kube.coordination import Lease
from tests.kit.examples import examples

WHO = st.sampled_from(["a", "b", "c"])


TERMS = {who: Terms(who, "ns", "l", 15, 10, 2) for who in "abc"}
SKEW = {"a": -3, "b": 0, "c": 5}


class Election(RuleBasedStateMachine):
    """The candidates' wall clocks differ by hours. The lease's version decides whose write
    succeeds. Anything may happen between the sending, the handling and the answer of a request.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.lease: Lease | None = None
        self.version = 0
        self.states = {who: LeaderState(terms) for who, terms in TERMS.items()}
        self.read: dict[str, tuple[Lease | None, int]] = {}
        self.sent: dict[str, tuple[Lease, int, float]] = {}

    def leads(self, who: str) -> bool:
        return self.states[who].left(self.now) > 0

    @rule(who=WHO)
    def is_read_by(self, who: str) -> None:
        if self.states[who].leading and not self.leads(who):
            self.states[who] = LeaderState(TERMS[who])  # the process ends and is started again
        self.read[who] = (self.lease, self.version)

    @rule(who=WHO)
    def decides(self, who: str) -> None:
        if who not in self.read or (self.states[who].leading and not self.leads(who)):
            return
        lease, version = self.read.pop(who)
        wall = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=SKEW[who], seconds=self.now)
        match self.states[who].next_step(lease, self.now, wall):
            case Wait(holder, until):
                assert until > self.now
                assert holder != who
                assert not self.leads(who)
            case Write(written, create):
                assert create == (lease is None)
                self.sent[who] = (written, version, self.now)

    @rule(who=WHO, answered=st.booleans())
    def is_written_by(self, who: str, answered: bool) -> None:
        if who not in self.sent:
            return
        lease, version, sent_at = self.sent.pop(who)
        if version == self.version:
            self.lease, self.version = lease, self.version + 1
            if answered:
                self.states[who].written(lease, sent_at)

    @rule(seconds=st.sampled_from([1.0, 5.0, 9.0, 16.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(who=WHO)
    def stops(self, who: str) -> None:
        if self.leads(who) and self.lease is not None:
            released = self.states[who].released(self.lease, datetime(2026, 1, 1, tzinfo=UTC))
            if released is not None:
                self.lease, self.version = released, self.version + 1
            self.states[who] = LeaderState(TERMS[who])

    @invariant()
    def at_most_one_leads(self) -> None:
        assert sum(map(self.leads, "abc")) <= 1


TestElection = Election.TestCase
TestElection.settings = examples(2)


def test_a_dead_leaders_lease_is_taken_after_its_duration_without_renewal() -> None:
    wall = datetime(2026, 1, 1, tzinfo=UTC)
    dead, heir = (LeaderState(Terms(who, "ns", "l", 15, 10, 2)) for who in ("dead", "heir"))
    first = dead.next_step(None, 0, wall)
    assert isinstance(first, Write)
    assert heir.next_step(first.lease, 100, wall) == Wait("dead", 115)
    assert heir.next_step(first.lease, 114.9, wall) == Wait("dead", 115)
    taken = heir.next_step(first.lease, 115, wall)
    assert isinstance(taken, Write)
    assert (taken.lease.spec.holder_identity, taken.lease.spec.lease_transitions) == ("heir", 1)
    assert msgspec.json.decode(msgspec.json.encode(taken.lease), type=Lease) == taken.lease


@pytest.mark.parametrize(
    ("duration", "deadline", "retry", "tenure"),
    [
        (15, 10, 2, 12),  # the pause comes before the deadline
        (15, 14, 2, 14),  # others may take the lease after the pause and the deadline
        (15, 13, 2, 13),
        (2.5, 2.2, 0.5, 2),  # the lease holds whole seconds
    ],
)
def test_a_leader_leads_for_a_pause_and_the_deadline_unless_others_may_lead_by_then(
    duration: float, deadline: float, retry: float, tenure: float
) -> None:
    state = LeaderState(Terms("a", "ns", "l", duration, deadline, retry))
    step = state.next_step(None, 0, datetime(2026, 1, 1, tzinfo=UTC))
    assert isinstance(step, Write)
    assert step.lease.spec.lease_duration_seconds == int(duration)
    state.written(step.lease, 100)
    assert state.left(100) == tenure


def test_the_lease_as_it_is_written_and_released() -> None:
    wall = datetime(2026, 1, 1, tzinfo=UTC)
    state = LeaderState(TERMS["a"])
    step = state.next_step(None, 0, wall)
    assert isinstance(step, Write)
    assert msgspec.to_builtins(step.lease)["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    released = state.released(step.lease, wall + timedelta(seconds=1))
    assert released is not None
    assert msgspec.to_builtins(released)["spec"] == {
        "leaseDurationSeconds": 1,
        "acquireTime": "2026-01-01T00:00:01.000000Z",
        "renewTime": "2026-01-01T00:00:01.000000Z",
        "leaseTransitions": 0,
    }
