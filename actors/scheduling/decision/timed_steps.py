"""Times the steps of a plugin's call that waits or pauses. While one runs, nothing else does.

The time between the steps does not count, nor does their number: a long search with pauses holds
nobody up.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

R = TypeVar("R")


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


class LongestStep:
    """The seconds of the longest step so far."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def note(self, seconds: float) -> None:
        self.seconds = max(self.seconds, seconds)
