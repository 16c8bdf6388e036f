"""PUT /debug/flags/v changes the verbosity of the log while berth runs, as kube-scheduler's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berth.actors.scheduling.framework.logger import get_logger, use_output
from berth.actors.server.request import Answer, Request
from berth.actors.server.zpages import verbosity_flag
from berth.actors.telemetry.logs import configure_logs, set_verbosity


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    configure_logs()
    yield
    use_output(None)


async def put(value: bytes, method: str = "PUT") -> Answer:
    async def body() -> bytes:
        return value

    return await verbosity_flag(Request("/debug/flags/v", method, body=body))


async def test_the_verbosity_of_loggers_in_use_changes() -> None:
    log = get_logger("berth.actors.queue.actor").bind()
    assert not log.shows(4)
    answer = await put(b"4")
    assert (answer.status, answer.body) == (200, b"successfully set klog.logging.verbosity to 4")
    assert log.shows(4)
    assert get_logger("berth.another").bind().shows(4)
    set_verbosity(0)
    assert not log.shows(1)


@pytest.mark.parametrize(
    ("value", "method", "status", "words"),
    [
        (b"4", "GET", 406, b"unsupported http method"),
        (b"many", "PUT", 400, b'strconv.ParseUint: parsing "many": invalid syntax'),
        (b"-1", "PUT", 400, b'strconv.ParseUint: parsing "-1": invalid syntax'),
    ],
)
async def test_anything_else_is_refused(
    value: bytes, method: str, status: int, words: bytes
) -> None:
    answer = await put(value, method)
    assert (answer.status, answer.body) == (status, words)
