"""The leader-election actor: what is gated runs while we lead, and everything ends in its order."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest
from berth.actors.leader.actor import LeaderActor, LeaseLostError
from berth.actors.leader.state import Terms
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages import RecorderMessage, RecordEvent

from tests.kit.inbox import Inbox

TERMS = Terms("me", "ns", "l", 15, 10, 2)


class Story:
    """What happened in which order; the election is won and lost when a test says so."""

    def __init__(self) -> None:
        self.told: list[str] = []
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
            self.told.append("lost" if self.lost.is_set() else "given back")

    async def gated(self) -> None:
        self.told.append("gated part runs")
        try:
            await anyio.sleep_forever()
        finally:
            self.told += self.recorded()
            with anyio.CancelScope(shield=True):
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            self.told.append("gated part has stopped")

    def recorded(self) -> list[str]:
        return [order.note for order in self.recorder.take() if isinstance(order, RecordEvent)]

    async def until(self, last: str) -> None:
        with anyio.fail_after(5):
            while last not in self.told:
                await anyio.lowlevel.checkpoint()


async def test_on_a_stop_the_lease_is_given_back_when_nothing_runs_any_more() -> None:
    story = Story()
    async with anyio.create_task_group() as group:
        await group.start(story.actor.run)
        assert story.told == []
        story.won.set()
        await story.until("gated part runs")
        group.cancel_scope.cancel()
    assert story.told == [
        "gated part runs",
        "me became leader",
        "me stopped leading",  # in time for the part of the gated ones that writes it
        "gated part has stopped",
        "given back",
    ]


async def test_a_lost_lease_stops_the_gated_part_and_is_an_error() -> None:
    story = Story()

    async def lose() -> None:
        story.won.set()
        await story.until("gated part runs")
        story.lost.set()

    async with anyio.create_task_group() as group:
        group.start_soon(lose)
        with pytest.raises(LeaseLostError, match="ns/l was lost"):
            await story.actor.run()
    assert story.told == [
        "gated part runs",
        "lost",
        "me became leader",
        "me stopped leading",
        "gated part has stopped",
    ]


async def test_who_never_led_just_ends() -> None:
    story = Story()
    async with anyio.create_task_group() as group:
        await group.start(story.actor.run)
        group.cancel_scope.cancel()
    assert story.told == ["given back"]
    assert story.recorded() == []


async def test_a_crash_of_the_gated_part_is_raised_as_it_is() -> None:
    story = Story()

    async def crash() -> None:
        raise ZeroDivisionError("gated")

    story.won.set()
    actor = LeaderActor(Mailboxes(), TERMS, story.elect, "default-scheduler", crash)
    with pytest.raises(ZeroDivisionError, match="gated"):
        await actor.run()
    assert story.told == ["given back"]
