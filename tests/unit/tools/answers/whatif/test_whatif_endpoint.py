"""Questions that arrive slowly, and questions that ask for too much."""

from __future__ import annotations

import anyio
import pytest

from berth.tools.answers.whatif.question import RefusedError
from berth.tools.answers.whatif.whatif_endpoint import MOST_ARRIVING, Arrivals


async def test_the_first_of_too_many_slow_questions_gives_way() -> None:
    arrivals, refused, gate = Arrivals(), [], anyio.Event()
    arrived: list[bytes] = []

    async def body() -> bytes:
        await gate.wait()
        return b"{}"

    async def ask(number: int) -> None:
        try:
            arrived.append(await arrivals.whole(body))
        except RefusedError:
            refused.append(number)

    async with anyio.create_task_group() as clients:
        for number in range(MOST_ARRIVING + 2):
            clients.start_soon(ask, number)
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert refused == [0, 1]
        gate.set()
    assert arrived == [b"{}"] * MOST_ARRIVING


async def test_a_body_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.tools.answers.whatif.whatif_endpoint.BODY_SECONDS", 0.0)

    async def body() -> bytes:
        await anyio.sleep_forever()
        return b""

    with pytest.raises(RefusedError, match="within 0 seconds"):
        await Arrivals().whole(body)
