"""Which failures of a request are tried again, how often, and after which time."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import anyio
import pytest

from berth.actors.client.rest import ApiError, ConnectionFailedError, DeposedError
from berth.actors.client.retries import with_retries
from tests.kit.clock import VirtualClock

CONFLICT = ApiError(409, "Conflict", "the object has been modified")


def refused_connection() -> ConnectionFailedError:
    failure = ConnectionFailedError("connection refused")
    failure.__cause__ = ConnectionRefusedError()
    return failure


class Requests:
    """Requests that fail until their failures are used up. Notes when each was sent."""

    def __init__(self, *failures: Exception) -> None:
        self.clock = VirtualClock()
        self.sent: list[float] = []
        self._failures = [*failures]

    async def _request(self) -> str:
        self.sent.append(self.clock.now())
        if self._failures:
            raise self._failures.pop(0)
        return "answer"

    async def outcome(self) -> str | Exception:
        outcomes: list[str | Exception] = []

        async def send() -> None:
            try:
                outcomes.append(await with_retries(self._request, self.clock, Random(1)))
            except (ApiError, ConnectionFailedError) as failure:
                outcomes.append(failure)

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await self.clock.advance(1.0)
        return outcomes[0]


@pytest.mark.parametrize(
    "failure",
    [
        CONFLICT,
        ApiError(500, "InternalError", "it broke"),
        ApiError(503, "ServiceUnavailable", "later"),
        ApiError(502, "", "HTTP 502: a proxy's page"),
        ApiError(409, "", "HTTP 409"),
        refused_connection(),
    ],
    ids=str,
)
async def test_a_transient_failure_is_tried_again(failure: Exception) -> None:
    requests = Requests(failure)
    assert await requests.outcome() == "answer"
    assert len(requests.sent) == 2


@pytest.mark.parametrize(
    "failure",
    [
        ApiError(403, "Forbidden", "no"),
        ApiError(404, "NotFound", "gone"),
        ApiError(409, "AlreadyExists", "it exists"),
        ApiError(422, "Invalid", "wrong"),
        ApiError(429, "TooManyRequests", "the client waits as long as the server says"),
        ApiError(504, "Timeout", "it may have been written"),
        ApiError(504, "", "HTTP 504: a proxy's page"),
        ConnectionFailedError("no answer"),
        DeposedError("the lease ran out"),
    ],
    ids=str,
)
async def test_any_other_failure_is_final(failure: Exception) -> None:
    requests = Requests(failure)
    assert await requests.outcome() is failure
    assert requests.sent == [0.0]


async def test_the_fourth_failure_is_final_and_each_delay_is_five_times_the_last() -> None:
    requests = Requests(*[CONFLICT] * 3, final := ApiError(503, "ServiceUnavailable", "later"))
    assert await requests.outcome() is final
    delays = [after - before for before, after in pairwise(requests.sent)]
    for delay, least in zip(delays, (0.01, 0.05, 0.25), strict=True):
        assert least <= delay <= 1.1 * least
