"""Tasks of which only the first to end matters."""

from __future__ import annotations

import anyio
import pytest

from berth.actors.runtime.exceptions import ungrouped
from berth.actors.runtime.race import race

pytestmark = pytest.mark.anyio


async def test_the_first_to_return_cancels_the_others() -> None:
    cancelled = []

    async def wait_for_ever(name: str) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(name)
            raise

    await race(lambda: wait_for_ever("before"), anyio.lowlevel.checkpoint, anyio.sleep_forever)
    await race(anyio.sleep_forever, lambda: wait_for_ever("last"), anyio.lowlevel.checkpoint)
    assert cancelled == ["before", "last"]


async def test_an_exception_of_one_cancels_the_others() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), ungrouped():
        await race(anyio.sleep_forever, fail)
