"""Leader election over random histories: two candidates, one lease, lost writes and slow clocks; never two leaders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.kube.coordination import Lease
from actors.leader.state import LeaderState, Terms, Wait, Write

WHO = st.sampled_from(["a", "b", "c"])


class Election(RuleBasedStateMachine):
    """Wall clocks of the candidates differ by hours; the lease's version number decides whose write goes through."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.lease: Lease | None = None
        self.version = 0
        self.states = {who: LeaderState(Terms(who, "ns", "l", 15, 10, 2)) for who in "abc"}
        self.skew = {"a": -3, "b": 0, "c": 5}

    def leads(self, who: str) -> bool:
        return self.states[who].left(self.now) > 0

    @rule(who=WHO, delay=st.floats(0, 2), outcome=st.sampled_from(["written", "answer lost", "refused"]))
    def tries(self, who: str, delay: float, outcome: str) -> None:
        if self.states[who].leading and not self.leads(who):
            self.states[who] = LeaderState(Terms(who, "ns", "l", 15, 10, 2))  # the process ends and comes back
        wall = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=self.skew[who], seconds=self.now)
        asked_at, read = self.now, self.version
        step = self.states[who].found(self.lease, asked_at, wall)
        self.now += delay
        match step:
            case Wait(holder, until):
                assert until > asked_at
                assert holder != who
                assert not self.leads(who)
            case Write(lease, create):
                assert create == (self.lease is None)
                if outcome == "refused" or read != self.version:
                    return
                self.lease, self.version = lease, self.version + 1
                if outcome == "written":
                    self.states[who].written(lease, asked_at)

    @rule(seconds=st.sampled_from([1.0, 5.0, 9.0, 16.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(who=WHO)
    def stops(self, who: str) -> None:
        if self.leads(who) and self.lease is not None:
            released = self.states[who].released(self.lease)
            if released is not None:
                self.lease, self.version = released, self.version + 1
            self.states[who] = LeaderState(Terms(who, "ns", "l", 15, 10, 2))

    @invariant()
    def at_most_one_leads(self) -> None:
        assert sum(map(self.leads, "abc")) <= 1


Election.TestCase.settings = settings(max_examples=500, stateful_step_count=30, deadline=None)
TestElection = Election.TestCase


def test_a_dead_leaders_lease_is_taken_once_it_has_stood_still_for_its_duration() -> None:
    wall = datetime(2026, 1, 1, tzinfo=UTC)
    dead, heir = (LeaderState(Terms(who, "ns", "l", 15, 10, 2)) for who in ("dead", "heir"))
    first = dead.found(None, 0, wall)
    assert isinstance(first, Write)
    assert heir.found(first.lease, 100, wall) == Wait("dead", 115)
    assert heir.found(first.lease, 114.9, wall) == Wait("dead", 115)
    taken = heir.found(first.lease, 115, wall)
    assert isinstance(taken, Write)
    assert (taken.lease.spec.holder_identity, taken.lease.spec.lease_transitions) == ("heir", 1)
    assert msgspec.json.decode(msgspec.json.encode(taken.lease), type=Lease) == taken.lease
