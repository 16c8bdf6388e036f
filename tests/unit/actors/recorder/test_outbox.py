"""Thousands of pods that fail again and again, and an API server that takes a second for a write.
Time is virtual.
"""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import pytest

from berth.actors.client.rest import ApiError
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.recorder import EventType, RecordEvent, SetUnschedulable
from berth.actors.recorder.actor import RecorderActor
from berth.actors.recorder.event import Event
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState
from berth.actors.scheduling.kube.core import Pod, reference_to
from tests.kit.clock import VirtualClock
from tests.kit.fake_calls import FakeCalls
from tests.kit.structs import pod

PODS, A_SECOND, SECONDS = 5_000, 100, 120
MOST_EVENTS, MOST_FACTS = 500, 2_000
NODES_NOMINATED = 100  # one of this number of attempts ends with a nomination


class SlowServer(FakeCalls):
    """Takes a second for each request. Notes when each pod's condition was written, and which
    events were.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.conditions: list[tuple[float, str, str]] = []
        self.nominations: dict[tuple[str, str], float] = {}
        self.events: list[str] = []

    async def asked(self, method: str, path: str, body: Any) -> object:
        if "/events/" in path:
            raise ApiError(404, "NotFound", "it has expired")
        await self._clock.sleep(1.0)
        if method == "POST" and isinstance(body, Event):
            self.events.append(body.regarding.name)
            return None
        if method != "PATCH":
            raise ApiError(405, "MethodNotAllowed", f"{method} {path}")
        name, status = path.split("/")[-2], body["status"]
        self.conditions.append((self._clock.now(), name, status["conditions"][0]["message"]))
        if status.get("nominatedNodeName"):
            self.nominations[name, status["nominatedNodeName"]] = self._clock.now()
        return {}


def failed(of: Pod, message: str) -> RecordEvent:
    about = reference_to(of)
    return RecordEvent(
        about, EventType.WARNING, "FailedScheduling", "Scheduling", message, "default-scheduler"
    )


@pytest.mark.full("long")
async def test_in_a_flood_new_attempts_and_nominations_go_first_and_nothing_starves() -> None:
    clock = VirtualClock()
    server = SlowServer(clock)
    state = RecorderState(SeriesTracker("here", MOST_FACTS), MOST_EVENTS)
    mailboxes = Mailboxes()
    mailbox = mailboxes.recorder
    pods = [pod(f"p{i}") for i in range(PODS)]
    last: dict[str, str] = {}
    nominated: dict[tuple[str, str], float] = {}
    waiting = 0
    async with anyio.create_task_group() as group:
        actor = RecorderActor(mailboxes, state, server, clock, Random(1))
        await group.start(actor.run)
        await group.start(actor.write)
        for second in range(SECONDS):
            if second == 10:  # These fail once, and are not tried again.
                mailbox.tell(SetUnschedulable(pod("parked"), "Unschedulable", "no room"))
                mailbox.tell(failed(pod("parked"), "no room"))
            for i in range(A_SECOND):
                attempt = second * A_SECOND + i
                tried, node = pods[attempt % PODS], None
                last[tried.metadata.name] = message = str(second)
                if attempt % NODES_NOMINATED == 0:
                    node = f"n{second}"
                    nominated[tried.metadata.name, node] = clock.now()
                mailbox.tell(SetUnschedulable(tried, "Unschedulable", message, node))
                mailbox.tell(failed(tried, message))
            await clock.advance(1.0)
            waiting = max(waiting, len(state))
            state.validate()
        assert waiting <= PODS + 1 + MOST_EVENTS

        # In the flood: the latest of a pod, most of them just ordered, every nomination, and what
        # was parked long ago.
        ages = [at - float(message) for at, name, message in server.conditions if name != "parked"]
        assert sum(age <= 3.0 for age in ages) >= len(ages) * 3 // 4
        assert all(
            server.nominations[key] - at <= 3.0 for key, at in nominated.items() if at < SECONDS - 3
        )
        assert "parked" in {name for _, name, _ in server.conditions}
        assert len(server.events) >= SECONDS, "events have their turn too"
        assert server.events[0] == "p0"

        # After the flood all is written, as it was ordered last.
        while len(state):
            await clock.advance(10.0)
        await clock.advance(2.0)
        assert {name: message for _, name, message in server.conditions if name != "parked"} == last
        assert server.nominations.keys() == nominated.keys()
        group.cancel_scope.cancel()
    mailboxes.close()
