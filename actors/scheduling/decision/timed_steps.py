"""Times the steps of a plugin's call that waits or pauses. While one runs, nothing else does.

The time between the steps does not count. A long search with pauses holds up the pods in the queue
alone: it may take MOST_SEARCH_SECONDS, and ask or pause MOST_QUESTIONS times.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

R = TypeVar("R")
MOST_SEARCH_SECONDS = 30.0
MOST_QUESTIONS = 10_000


def timed(
    steps: Generator[Any, Any, R] | Coroutine[Any, Any, R],
    now: Callable[[], float],
    note: Callable[[float], object],
) -> Generator[Any, Any, R]:
    """Runs a generator or a coroutine, as `yield from` does. `note` is given the seconds of each
    step, the last one too, also if that raises.
    """
    step: Callable[[Any], Any] = steps.send
    argument: Any = None
    while True:
        started = now()
        try:
            question = step(argument)
        except StopIteration as done:
            answer: R = done.value
            return answer
        finally:
            note(now() - started)
        try:
            step, argument = steps.send, (yield question)
        except BaseException as thrown:  # noqa: BLE001 - a cancellation, which the steps may handle
            step, argument = steps.throw, thrown


timed_wait = coroutine(timed)


class StepTimes:
    """The steps of a call so far: the seconds of the longest and of all."""

    def __init__(self) -> None:
        self._longest = self._together = 0.0

    def note(self, seconds: float) -> None:
        self._together += seconds
        self._longest = max(self._longest, seconds)

    @property
    def take_too_long(self) -> bool:
        return self._together > MOST_SEARCH_SECONDS

    @property
    def seconds(self) -> float:
        """The seconds that count for the plugin: those for which it held everybody up at once, and
        for a search that took too long all of them.
        """
        return self._together if self.take_too_long else self._longest

    def __str__(self) -> str:
        return f"{self._together:.1f} s of computing"
