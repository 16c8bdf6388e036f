"""Answers that are remembered for a while, at most a given number of them.

The one that was used longest ago is forgotten first. If several ask for the same thing at once, one
question is sent for all of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from ..runtime.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class QuestionFailedError(Exception):
    """There is no answer. Whoever asked the same thing meanwhile gets the same error."""


class Remembered(Generic[K, V]):
    """`seconds` returns for how long a value counts; 0 or less does not remember it."""

    def __init__(self, clock: Clock, most: int, seconds: Callable[[V], float]) -> None:
        self._clock = clock
        self._most = most
        self._seconds = seconds
        self._known: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asked: dict[K, asyncio.Future[V | QuestionFailedError]] = {}

    async def get(self, key: K, question: Callable[[], Awaitable[V]]) -> V:
        """The value that is remembered, or the answer to the question. Raises
        QuestionFailedError if that does; errors are not remembered.
        """
        found = self._known.get(key)
        if found is not None and self._clock.now() < found[0]:
            self._known.move_to_end(key)
            return found[1]
        asked = self._asked.get(key)
        if asked is not None:
            outcome = await asyncio.shield(asked)
            if isinstance(outcome, QuestionFailedError):
                raise outcome
            return outcome
        self._asked[key] = answer = asyncio.get_running_loop().create_future()
        outcome = QuestionFailedError("the question was abandoned")
        try:
            outcome = value = await question()
            self._remember(key, value)
        except QuestionFailedError as failure:
            outcome = failure
            raise
        else:
            return value
        finally:
            del self._asked[key]
            answer.set_result(outcome)

    def _remember(self, key: K, value: V) -> None:
        seconds = self._seconds(value)
        self._known.pop(key, None)
        if seconds > 0:
            self._known[key] = self._clock.now() + seconds, value
            if len(self._known) > self._most:
                self._known.popitem(last=False)
