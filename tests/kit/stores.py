"""Stores of an embedded API server, whose uids and names repeat in each run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

from berth.tools.kubernetes.api.store import HISTORY, Store, StoreEvent
from berth.tools.kubernetes.api.time_and_chance import TimeAndChance
from berth.tools.kubernetes.api.types.resources import Kind
from berth.tools.testing.virtual_time import BEGAN, VirtualLoop
from tests.kit.paced_loop import PacedLoop


def fresh_store(
    history: int = HISTORY,
    journal: Callable[[Kind, StoreEvent], None] | None = None,
    seed: int = 1,
) -> Store:
    """Returns an empty store in the time of the loop that runs."""
    return Store(TimeAndChance(wall, Random(seed)), history, journal)


def wall() -> datetime:
    """Returns the time of day of a loop in virtual or quick time, or else of the machine."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, VirtualLoop | PacedLoop):
        return BEGAN + timedelta(seconds=loop.time())
    return datetime.now(UTC)
