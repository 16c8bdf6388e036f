"""The leader actor: the gated part runs while the lease is held, and all ends in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import TypeVar

import anyio
import anyio.lowlevel
import pytest

from berth.actors.client.access import Calls, Source
from berth.actors.client.tenure import Tenure
from berth.actors.leader.actor import LeaderActor, LeaseLostError
from berth.actors.leader.state import Terms
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.recorder import RecorderMessage, RecordEvent
from berth.actors.scheduling.kube.meta import HasMetadata, ObjectReference
from tests.kit.clock import VirtualClock
from tests.kit.inbox import Inbox
from tests.kit.instruments import Reader, unread
from tests.kit.leases import Leases
from tests.kit.logs import capture_logs
from tests.kit.tasks import started

Kept = TypeVar("Kept", bound=HasMetadata)
TERMS = Terms("me", "ns", "l", 15, 10, 2)


class LeaseAccess:
    """Access to one lease, and to nothing else."""

    server = "memory"

    def __init__(self, leases: Leases, tenure: Tenure) -> None:
        self.calls: Calls = leases.of("me")
        self.plugins = self.events = self.calls
        self.tenure = tenure

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        await work(self.calls)

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        raise AssertionError


class Story:
    """A candidate in virtual time, and what happens to it, in order."""

    def __init__(self, *, crashes: bool = False, terms: Terms = TERMS) -> None:
        self.events: list[str] = []
        self.clock = VirtualClock()
        self.leases = Leases(self.clock)
        self.tenure = Tenure(self.clock.now)
        self.recorder: Inbox[RecorderMessage] = Inbox("recorder")
        self.still = 0.0
        self._crashes = crashes
        instruments = unread(self.clock)
        self.status = partial(Reader(instruments.registry).numbers, "leader_election_master_status")
        self.actor = LeaderActor(
            terms,
            LeaseAccess(self.leases, self.tenure),
            Mailboxes(recorder=self.recorder),
            instruments,
            "default-scheduler",
            lambda: self.still,
            self.gated,
            self.clock,
            Random(1),
        )

    async def gated(self) -> None:
        self.events.append("gated part runs")
        assert self.tenure.permits()
        assert self.leads()
        if self._crashes:
            raise ZeroDivisionError("gated")
        try:
            await anyio.sleep_forever()
        finally:
            self.events += self.recorded()
            with anyio.CancelScope(shield=True):
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            self.events.append(f"gated part has stopped, holder {self.leases.holder!r}")

    def leads(self) -> bool:
        """Returns the value of the metric."""
        return self.status() == {("kube-scheduler",): 1}

    def recorded(self) -> list[str]:
        events = [order for order in self.recorder.take() if isinstance(order, RecordEvent)]
        for event in events:
            version = event.regarding.resource_version
            assert version
            assert event.regarding == ObjectReference(
                "coordination.k8s.io/v1", "Lease", "ns", "l", "lease-uid", version
            )
            assert (event.reason, event.action) == ("LeaderElection", "")
        return [event.note for event in events]


@asynccontextmanager
async def running(story: Story) -> AsyncIterator[None]:
    """Stops the candidate at the end of the block."""
    async with started(story.actor.run):
        yield
    assert not story.tenure.permits()
    assert not story.leads()


async def test_on_a_stop_the_lease_is_released_after_the_gated_part_has_stopped() -> None:
    story = Story()
    async with running(story):
        assert story.events == []
        await story.clock.advance(30)
        assert story.events == ["gated part runs"]
        assert story.leases.holder == "me"
    assert story.events == [
        "gated part runs",
        "me became leader",
        "me stopped leading",  # in time for the part of the gated ones that writes it
        "gated part has stopped, holder 'me'",
    ]
    assert story.leases.holder == ""


async def test_a_lost_lease_stops_the_gated_part_and_is_an_error() -> None:
    story = Story()
    with capture_logs() as logged:
        async with anyio.create_task_group() as group:

            async def lose() -> None:
                with pytest.raises(LeaseLostError, match="ns/l was lost"):
                    await story.actor.run()

            group.start_soon(lose)
            await story.clock.advance(5)
            story.still = 20.0  # longer than the lease lasts
            await story.clock.advance(5)
    assert [(line["event"], line["lock"]) for line in logged if "lock" in line] == [
        ("Attempting to acquire leader lease...", "ns/l"),
        ("Successfully acquired lease", "ns/l"),
        ("Leaderelection lost", "ns/l"),
    ]
    assert story.events == [
        "gated part runs",
        "me became leader",
        "me stopped leading",
        "gated part has stopped, holder ''",
    ]
    assert not story.tenure.permits()
    assert not story.leads()


async def test_a_candidate_that_never_led_just_ends() -> None:
    story = Story()
    story.leases.down.add("me")
    async with running(story):
        await story.clock.advance(30)
    assert story.events == []
    assert story.recorded() == []


async def test_a_crash_of_the_gated_part_is_raised_itself() -> None:
    story = Story(crashes=True)
    with pytest.raises(ZeroDivisionError, match="gated"):
        await story.actor.run()
    assert story.leases.holder == ""


async def test_a_crash_of_the_election_stops_the_gated_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()

    async def crash(*_: object) -> None:
        raise ZeroDivisionError("election")

    async def lead() -> None:
        with pytest.raises(ZeroDivisionError, match="election"):
            await story.actor.run()

    async with anyio.create_task_group() as group:
        group.start_soon(lead)
        await story.clock.advance(1)
        assert story.events == ["gated part runs"]
        monkeypatch.setattr(story.leases, "call", crash)
        await story.clock.advance(5)
    assert story.events[-1] == "gated part has stopped, holder 'me'"
    assert not story.tenure.permits()


async def test_an_older_kind_of_lock_is_told_once() -> None:
    story = Story(terms=Terms("me", "ns", "l", 15, 10, 2, (), "configmaps"))
    story.leases.down.add("me")
    with capture_logs() as logged:
        async with started(story.actor.run):
            await story.clock.advance(5)
    advice = "change resourceLock to configmapsleases once every candidate has configmaps"
    assert [line["advice"] for line in logged if "deprecated" in line["event"]] == [advice]
