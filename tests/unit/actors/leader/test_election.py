"""The election in virtual time: who leads, how long a leader may write, and the end of a lease."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import anyio
import pytest

from berth.actors.client.tenure import Tenure
from berth.actors.leader.election import MIN_PAUSE_SECONDS, Election
from berth.actors.leader.state import Terms
from berth.actors.scheduling.kube.coordination import Lease, LeaseSpec
from tests.kit.clock import VirtualClock
from tests.kit.leases import Leases
from tests.kit.logs import capture_logs

DURATION, DEADLINE, RETRY = 15.0, 10.0, 2.0


class BootClock:
    """A clock that goes on while the process is stopped, which it was for `stopped_for` seconds."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.stopped_for = 0.0
        self.wall, self.sleep = clock.wall, clock.sleep

    def now(self) -> float:
        return self._clock.now() + self.stopped_for


class Candidate:
    """A running candidate, whose scheduling loop has been blocked for `still` seconds."""

    def __init__(
        self, who: str, leases: Leases, clock: VirtualClock, profile: str = "default-scheduler"
    ) -> None:
        self.clock = BootClock(clock)
        self.tenure = Tenure(self.clock.now)
        self.led = self.ended = False
        self.still = 0.0
        terms = Terms(who, "ns", "l", DURATION, DEADLINE, RETRY, (profile,))
        self._election = Election(
            terms,
            leases.of(who),
            self.clock,
            Random(who),
            self.tenure,
            lambda: self.still,
            self._count_slow,
        )
        self.scope = anyio.CancelScope()
        self.slow_renewals = 0

    def _count_slow(self) -> None:
        self.slow_renewals += 1

    async def run(self) -> None:
        with self.scope:
            await self._election.acquire()
            assert self.tenure.permits()
            self.led = True
            await self._election.keep_until_lost()
        self.ended = True
        assert not self.tenure.permits()


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        for candidate in candidates:
            group.start_soon(candidate.run)
            await VirtualClock.settle()
        yield
        group.cancel_scope.cancel()


async def test_without_renewal_a_leader_writes_until_its_deadline_and_another_leads_later() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    first, second = Candidate("first", leases, clock), Candidate("second", leases, clock)
    async with running(first, second):
        await clock.advance(60)
        assert (first.led, second.led, leases.holder) == (True, False, "first")
        assert first.tenure.permits()
        leases.down.add("first")  # renewed at this moment
        await clock.advance(RETRY + DEADLINE - 0.1)
        assert first.tenure.permits()
        await clock.advance(0.2)
        assert not first.tenure.permits()
        assert first.ended
        await clock.advance(DURATION - DEADLINE - RETRY - 0.2)
        assert leases.holder == "first"
        await clock.advance(2 * RETRY)
        assert leases.holder == "second"
        assert second.tenure.permits()


@pytest.mark.parametrize("seconds", [DURATION - 5, DURATION + 5])
async def test_a_standby_takes_the_lease_when_it_expires_and_not_at_its_next_try(
    seconds: float,
) -> None:
    """The expiry lies between two tries, and a lease lasts at least as long as the standby's."""
    clock = VirtualClock()
    leases = Leases(clock)
    spec = LeaseSpec(holder_identity="gone", lease_duration_seconds=int(seconds))
    leases.lease = Lease(spec=spec)
    standby = Candidate("second", leases, clock)
    async with running(standby):
        await clock.advance(max(seconds, DURATION) - 0.01)
        assert (standby.led, leases.holder) == (False, "gone")
        await clock.advance(0.01 + MIN_PAUSE_SECONDS)
        assert (standby.led, leases.holder) == (True, "second")


async def test_a_standby_logs_once_who_holds_the_lease() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    first, second = Candidate("first", leases, clock), Candidate("second", leases, clock)
    with capture_logs() as logs:
        async with running(first, second):
            await clock.advance(60)
    waits = [line for line in logs if line["event"] == "waiting for the lease"]
    assert [(w["holder"], w["lock"], w["log_level"]) for w in waits] == [("first", "ns/l", "info")]


async def test_a_standby_of_another_profile_is_told_to_have_a_lease_of_its_own() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    first, second = Candidate("first", leases, clock), Candidate("second", leases, clock, "batch")
    with capture_logs() as logs:
        async with running(first, second):
            await clock.advance(60)
    (wait,) = (line for line in logs if line["event"] == "waiting for the lease")
    assert wait == {
        "event": "waiting for the lease",
        "log_level": "warning",
        "holder": "first",
        "lock": "ns/l",
        "advice": (
            "unless the holder has the profile batch too, its pods wait until this scheduler has "
            "a lease of its own: set leaderElection.resourceName"
        ),
    }


async def test_a_renewal_that_hangs_does_not_lengthen_the_tenure() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    candidate = Candidate("one", leases, clock)
    async with running(candidate):
        await clock.advance(RETRY)
        leases.seconds = 60.0
        await clock.advance(RETRY + DEADLINE - 0.1)
        assert candidate.tenure.permits()
        await clock.advance(0.1)
        assert not candidate.tenure.permits()
        await clock.settle()
        assert candidate.ended


async def test_with_a_slow_api_server_there_is_a_leader() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    leases.seconds = 0.75 * RETRY  # longer than a retry period for reading and writing together
    candidate = Candidate("one", leases, clock)
    async with running(candidate):
        await clock.advance(300)
        assert candidate.led
        assert candidate.tenure.permits()
        assert not candidate.ended
        leases.seconds = 0.0  # for the release, which is given up after seconds of real time


@pytest.mark.parametrize(
    ("still", "keeps"), [(1.5 * DEADLINE - 0.1, True), (DURATION + 0.1, False)]
)
async def test_the_lease_is_released_when_the_scheduler_is_blocked_for_longer_than_it_lasts(
    still: float, keeps: bool
) -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    first, second = Candidate("first", leases, clock), Candidate("second", leases, clock)
    async with running(first, second):
        await clock.advance(30)
        first.still = still
        await clock.advance(2 * RETRY)
        assert first.ended is not keeps
        assert first.tenure.permits() is keeps
        # It is given back, as nothing more can be written: nobody has to wait until it runs out.
        assert leases.holder == ("first" if keeps else "second")
        assert second.led is not keeps


async def test_a_blocked_candidate_takes_no_lease() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    candidate = Candidate("one", leases, clock)
    candidate.still = DURATION + 1
    async with running(candidate):
        await clock.advance(60)
        assert leases.lease is None
        candidate.still = 0.0
        await clock.advance(2 * RETRY)
        assert candidate.led


async def test_a_leader_that_is_cancelled_releases_the_lease_and_may_not_write_meanwhile() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    candidate = Candidate("one", leases, clock)
    async with running(candidate):
        await clock.advance(30)
        leases.seconds = 1.0
        candidate.scope.cancel()
        await clock.settle()
        assert leases.holder == "one"
        assert not candidate.tenure.permits()
        await clock.advance(2)
        assert leases.holder == ""
        assert candidate.ended


@pytest.mark.parametrize("reads", [False, True])
async def test_a_process_that_was_stopped_for_long_neither_writes_nor_renews(reads: bool) -> None:
    """It wakes with overdue timers, and with an answer that was on its way when it was stopped: to
    the renewal, or to reading the lease after that was refused.
    """
    clock = VirtualClock()
    leases = Leases(clock)
    candidate = Candidate("one", leases, clock)
    async with running(candidate):
        await clock.advance(RETRY)
        if reads:
            leases.touch()
        leases.seconds = 1.0
        await clock.advance(RETRY + 1.5 if reads else RETRY + 0.5)
        candidate.clock.stopped_for = DURATION
        leases.seconds = 0.0
        leases.methods.clear()
        assert not candidate.tenure.permits()
        await clock.advance(5)
        assert leases.methods == []
        assert candidate.ended


@pytest.mark.parametrize(("outage", "survives"), [(11.5, True), (12.0, False)])
async def test_a_leader_lives_through_an_outage_of_a_pause_and_the_deadline(
    outage: float, survives: bool
) -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    candidate = Candidate("one", leases, clock)
    async with running(candidate):
        await clock.advance(5 * RETRY)
        leases.down.add("one")  # renewed at this moment
        await clock.advance(9.9)
        leases.seconds = outage - 10.0  # the last attempt in time is answered this late
        leases.down.clear()
        await clock.advance(2.2)
        assert candidate.ended is not survives
        leases.seconds = 0.0


async def test_a_request_that_hangs_is_followed_by_others_before_the_deadline() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    candidate = Candidate("one", leases, clock)
    async with running(candidate):
        await clock.advance(5 * RETRY)
        leases.seconds = 60.0
        await clock.advance(RETRY + DEADLINE / 2 - 0.1)
        leases.seconds = 0.0
        await clock.advance(0.2)  # the renewal is given up, and the lease is read instead
        assert candidate.slow_renewals == 1
        await clock.advance(2 * DURATION)
        assert not candidate.ended


async def test_a_leader_reads_the_lease_only_if_its_renewal_fails() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    candidate = Candidate("one", leases, clock)
    async with running(candidate):
        leases.methods.clear()
        await clock.advance(3 * RETRY)
        assert leases.methods == ["PUT"] * 3
        assert candidate.slow_renewals == 0
        leases.touch()  # somebody adds a label
        leases.methods.clear()
        await clock.advance(2 * RETRY)
        assert leases.methods == ["PUT", "GET", "PUT", "PUT"]
        assert candidate.slow_renewals == 1


async def test_a_lease_that_was_deleted_is_made_anew_and_that_is_no_slow_renewal() -> None:
    clock = VirtualClock()
    leases = Leases(clock)
    candidate = Candidate("one", leases, clock)
    async with running(candidate):
        leases.lease = None
        leases.methods.clear()
        await clock.advance(RETRY)
        assert leases.methods == ["PUT", "GET", "POST"]
        assert candidate.slow_renewals == 0
