"""A stop of the recorder: what waits is written, unless the API server gives no answers."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import ConnectionFailedError, DeposedError
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.recorder import EventType, RecordEvent
from berth.actors.recorder.actor import WRITERS, RecorderActor
from berth.actors.recorder.event import Event
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState
from berth.actors.scheduling.kube.meta import ObjectReference
from tests.kit.clock import VirtualClock
from tests.kit.fake_calls import FakeCalls
from tests.kit.tasks import started

EVENTS = 100


class Server(FakeCalls):
    """A server that answers from `ready` on, except for the first `unanswered` requests."""

    def __init__(
        self, unanswered: int, failure: type[ConnectionFailedError] = ConnectionFailedError
    ) -> None:
        self.ready = anyio.Event()
        self.calls = 0
        self.written: set[str] = set()
        self._unanswered = unanswered
        self._failure = failure

    async def asked(self, method: str, path: str, body: Any) -> object:
        if not self.ready.is_set():
            await self.ready.wait()
        self.calls += 1
        if self.calls <= self._unanswered:
            raise self._failure("the connection was closed")
        assert isinstance(body, Event)
        self.written.add(body.regarding.name)
        return None


def about(name: str) -> RecordEvent:
    pod = ObjectReference("v1", "Pod", "ns", name, name, "7")
    return RecordEvent(pod, EventType.NORMAL, "Scheduled", "Binding", "", "default-scheduler")


async def stopped(server: Server) -> RecorderState:
    """Stops a recorder with EVENTS events before the server answers; returns its outbox."""
    mailboxes, clock = Mailboxes(), VirtualClock()
    state = RecorderState(SeriesTracker("here"))
    recorder = RecorderActor(mailboxes, state, server, clock, Random(1))
    async with started(recorder.run):
        async with anyio.create_task_group() as gated:
            await gated.start(recorder.write)
            for number in range(EVENTS):
                mailboxes.recorder.tell(about(f"p{number}"))
            await clock.settle()
            gated.cancel_scope.cancel()
            server.ready.set()
        mailboxes.recorder.tell(about("late"))  # The mailbox is open until all actors have ended.
    state.validate()
    return state


async def test_a_lost_write_does_not_keep_the_others_from_being_written() -> None:
    server = Server(unanswered=WRITERS - 1)
    state = await stopped(server)
    assert len(server.written) == EVENTS
    assert len(state) == 1, "the late one"


async def test_it_gives_up_after_as_many_lost_writes_as_there_are_writers() -> None:
    server = Server(unanswered=10 * EVENTS)
    state = await stopped(server)
    assert server.calls == WRITERS
    assert len(state) > EVENTS - WRITERS


async def test_it_ends_at_once_without_the_lease() -> None:
    server = Server(unanswered=10 * EVENTS, failure=DeposedError)
    server.ready.set()
    mailboxes, clock = Mailboxes(), VirtualClock()
    state = RecorderState(SeriesTracker("here"))
    recorder = RecorderActor(mailboxes, state, server, clock, Random(1))
    async with started(recorder.run):
        for number in range(EVENTS):
            mailboxes.recorder.tell(about(f"p{number}"))
        await clock.settle()
        async with started(recorder.write):
            await clock.settle()
    assert server.calls <= 2 * WRITERS
    assert len(state) == EVENTS
    state.validate()
