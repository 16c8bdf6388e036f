"""The leader-election actor: the gated part runs while the lease is held, and all ends in order."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from berth.actors.leader.actor import LeaderActor, LeaseLostError
from berth.actors.leader.state import Terms
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.recorder import RecorderMessage, RecordEvent
from tests.kit.inbox import Inbox

TERMS = Terms("me", "ns", "l", 15, 10, 2)


class Story:
    """Events in their order. A test decides when the election is won, and when it is lost."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.won, self.lost = anyio.Event(), anyio.Event()
        self.recorder: Inbox[RecorderMessage] = Inbox("recorder")
        mailboxes = Mailboxes(recorder=self.recorder)
        self.actor = LeaderActor(mailboxes, TERMS, self.elect, "default-scheduler", self.gated)

    async def elect(self, leads: Callable[[], None]) -> None:
        try:
            await self.won.wait()
            leads()
            await self.lost.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.events.append("lost" if self.lost.is_set() else "released")

    async def gated(self) -> None:
        self.events.append("gated part runs")
        try:
            await anyio.sleep_forever()
        finally:
            self.events += self.recorded()
            with anyio.CancelScope(shield=True):
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            self.events.append("gated part has stopped")

    def recorded(self) -> list[str]:
        return [order.note for order in self.recorder.take() if isinstance(order, RecordEvent)]

    async def until(self, last: str) -> None:
        with anyio.fail_after(5):
            while last not in self.events:
                await anyio.lowlevel.checkpoint()


async def test_on_a_stop_the_lease_is_released_after_the_gated_part_has_stopped() -> None:
    story = Story()
    async with anyio.create_task_group() as group:
        await group.start(story.actor.run)
        assert story.events == []
        story.won.set()
        await story.until("gated part runs")
        group.cancel_scope.cancel()
    assert story.events == [
        "gated part runs",
        "me became leader",
        "me stopped leading",  # in time for the part of the gated ones that writes it
        "gated part has stopped",
        "released",
    ]


async def test_a_lost_lease_stops_the_gated_part_and_is_an_error() -> None:
    story = Story()

    async def lose() -> None:
        story.won.set()
        await story.until("gated part runs")
        story.lost.set()

    with capture_logs() as logged:
        async with anyio.create_task_group() as group:
            group.start_soon(lose)
            with pytest.raises(LeaseLostError, match="ns/l was lost"):
                await story.actor.run()
    assert [(line["event"], line["lock"]) for line in logged] == [
        ("Attempting to acquire leader lease...", "ns/l"),
        ("Successfully acquired lease", "ns/l"),
        ("Leaderelection lost", "ns/l"),
    ]
    assert story.events == [
        "gated part runs",
        "lost",
        "me became leader",
        "me stopped leading",
        "gated part has stopped",
    ]


async def test_a_candidate_that_never_led_just_ends() -> None:
    story = Story()
    async with anyio.create_task_group() as group:
        await group.start(story.actor.run)
        group.cancel_scope.cancel()
    assert story.events == ["released"]
    assert story.recorded() == []


async def test_a_crash_of_the_gated_part_is_raised_itself() -> None:
    story = Story()

    async def crash() -> None:
        raise ZeroDivisionError("gated")

    story.won.set()
    actor = LeaderActor(Mailboxes(), TERMS, story.elect, "default-scheduler", crash)
    with pytest.raises(ZeroDivisionError, match="gated"):
        await actor.run()
    assert story.events == ["released"]
