"""A write to a pod's status that the API server refuses for a moment is not lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from berth.actors.client.rest import ApiError, UnreadableAnswerError
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.recorder import SetUnschedulable
from berth.actors.recorder.actor import RecorderActor
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState
from berth.actors.scheduling.kube.core import Pod
from tests.kit import structs
from tests.kit.clock import VirtualClock
from tests.kit.fake_calls import FakeCalls
from tests.kit.logs import capture_logs
from tests.kit.tasks import started

CONFLICT = ApiError(409, "Conflict", "the object has been modified")
BROKEN = ApiError(500, "InternalError", "it broke")
BUSY = ApiError(503, "ServiceUnavailable", "later")
GONE = ApiError(404, "NotFound", "gone")


def pod(version: int, node: str = "", uid: str = "u") -> Pod:
    return structs.pod(node=node, uid=uid, resourceVersion=str(version))


class Server(FakeCalls):
    """Fails the first requests, and keeps the patches that it accepts. `stored` is the pod."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = [*failures]
        self.stored = pod(1)
        self.requests: list[str] = []
        self.written: list[Any] = []

    async def asked(self, method: str, path: str, body: Any) -> object:
        self.requests.append(method)
        if self.failures:
            raise self.failures.pop(0)
        if method != "PATCH":
            return self.stored
        assert path == "/api/v1/namespaces/ns/pods/p/status"
        self.written.append(body)
        return {}


async def write(server: Server) -> list[str]:
    """Has a condition and a nomination written. Returns the errors in the log."""
    mailboxes, clock = Mailboxes(), VirtualClock()
    state = RecorderState(SeriesTracker("here"))
    recorder = RecorderActor(mailboxes, state, server, clock, Random(1))
    with capture_logs() as lines:
        async with started(recorder.run, recorder.write):
            mailboxes.recorder.tell(SetUnschedulable(pod(1), "Unschedulable", "no room", "n"))
            await clock.advance(1.0)
    assert not len(state)
    return [line["error"] for line in lines]


@pytest.mark.parametrize("failures", [(BROKEN,), (BUSY, BROKEN, BUSY)], ids=len)
async def test_it_is_written_once_the_server_accepts_it(failures: tuple[ApiError, ...]) -> None:
    server = Server(*failures)
    assert await write(server) == []
    (patch,) = server.written
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "1"}
    assert patch["status"]["nominatedNodeName"] == "n"
    assert patch["status"]["conditions"][0]["message"] == "no room"


async def test_after_a_conflict_the_pod_is_read_again() -> None:
    server = Server(CONFLICT, BROKEN)
    server.stored = pod(2)
    assert await write(server) == []
    assert server.requests == ["PATCH", "GET", "GET", "PATCH"]
    assert server.written[0]["metadata"]["resourceVersion"] == "2"


@pytest.mark.parametrize("stored", [pod(2, node="n"), pod(2, uid="another")], ids=["bound", "new"])
async def test_a_pod_that_was_bound_or_replaced_is_left_alone(stored: Pod) -> None:
    server = Server(CONFLICT)
    server.stored = stored
    assert await write(server) == []
    assert server.requests == ["PATCH", "GET"]


@pytest.mark.parametrize(
    ("failures", "errors"),
    [
        ((BROKEN, BUSY, BROKEN, BUSY), ["later"]),
        ((ApiError(403, "Forbidden", "no"),), ["no"]),
        ((CONFLICT, UnreadableAnswerError("no JSON")), ["no JSON"]),
        ((GONE,), []),
        ((CONFLICT, GONE), []),
    ],
)
async def test_some_failures_are_final(failures: tuple[Exception, ...], errors: list[str]) -> None:
    server = Server(*failures)
    assert await write(server) == errors
    assert len(server.requests) == len(failures)
    assert not server.written
