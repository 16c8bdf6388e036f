"""When the recorder writes the count of a series: at the second fact, every half hour, and at its
end.
"""

from __future__ import annotations

from random import Random
from typing import Any

from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.recorder import EventType, RecordEvent
from berth.actors.recorder.actor import RecorderActor
from berth.actors.recorder.event import Event
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState
from berth.actors.scheduling.kube.meta import ObjectReference
from tests.kit.clock import VirtualClock
from tests.kit.fake_calls import FakeCalls
from tests.kit.tasks import started

FAILED = RecordEvent(
    ObjectReference("v1", "Pod", "ns", "web", "u", "7"),
    EventType.WARNING,
    "FailedScheduling",
    "Scheduling",
    "no room",
    "default-scheduler",
)


class Server(FakeCalls):
    """Accepts every request. Notes when an event was made or its series written, and with which
    count.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.written: list[tuple[float, str, int]] = []

    async def asked(self, method: str, path: str, body: Any) -> object:
        count = 1 if isinstance(body, Event) else body["series"].count
        assert isinstance(body, Event) or body.keys() == {"series"}
        self.written.append((self._clock.now(), method, count))
        return None if isinstance(body, Event) else {}


async def test_a_series_is_written_when_it_begins_each_half_hour_and_when_it_ends() -> None:
    clock = VirtualClock()
    server = Server(clock)
    mailboxes = Mailboxes()
    mailbox = mailboxes.recorder
    actor = RecorderActor(mailboxes, RecorderState(SeriesTracker("here")), server, clock, Random(1))
    async with started(actor.run, actor.write):
        for _ in range(40):  # One a minute: the last comes after 39 minutes.
            mailbox.tell(FAILED)
            await clock.advance(60.0)
        await clock.advance(3600.0)
        assert server.written == [
            (0.0, "POST", 1),
            (60.0, "PATCH", 2),
            (1800.0, "PATCH", 30),
            (2880.0, "PATCH", 40),  # The first look after it was quiet for six minutes.
        ]
        mailbox.tell(FAILED)
        await clock.settle()
        assert server.written[4:] == [(6000.0, "POST", 1)]
    mailboxes.close()
