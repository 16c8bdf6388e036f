"""What the API server cannot decide by itself: what time it is, and what is left to chance."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from berth.actors.scheduling.kube.times import rfc3339

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no words appear by chance


class Chance(Protocol):
    """The part of random.Random that the API server uses."""

    def getrandbits(self, k: int, /) -> int: ...

    def choices(self, population: str, *, k: int) -> list[str]: ...


class TimeAndChance:
    """The source of times, uids and generated names. `wall` returns the time of day."""

    def __init__(self, wall: Callable[[], datetime], chance: Chance) -> None:
        self.wall = wall
        self._chance = chance
        self._second, self._shown = -1.0, ""

    def now(self) -> str:
        """Returns the time as objects carry it, to the second."""
        now = self.wall()
        second = now.timestamp() // 1
        if second != self._second:
            self._second, self._shown = second, rfc3339(now)
        return self._shown

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def name_suffix(self) -> str:
        """Returns the five characters that end a generated name."""
        return "".join(self._chance.choices(ALPHABET, k=5))
