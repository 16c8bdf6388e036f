"""A wait for the first of several tasks, which ends the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any


async def until_first(*work: Coroutine[Any, Any, None]) -> None:
    """Runs all of them until the first one ends, and cancels the others.

    Raises what the first one raises, except for ConnectionResetError: a client that has left needs
    no answer.
    """
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        with suppress(ConnectionResetError):
            task.result()
