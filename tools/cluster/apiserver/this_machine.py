"""The clock and the random numbers of this machine, for an API server that people use."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from ...kubernetes.api.time_and_chance import TimeAndChance


def this_machine() -> TimeAndChance:
    return TimeAndChance(lambda: datetime.now(UTC), Random())
