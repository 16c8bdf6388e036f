"""A cache of answers, with a maximum age and a maximum number.

The answer that was used longest ago is forgotten first. If several tasks need the same answer at
the same time, one question is sent for all of them.
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
    """The question has no answer. All tasks that wait for that answer get the same error."""


class RememberedAnswers(Generic[K, V]):
    """A bounded cache of answers. `seconds` returns how long a value is valid; 0 or less for not at
    all.
    """

    def __init__(self, clock: Clock, most: int, seconds: Callable[[V], float]) -> None:
        self._clock = clock
        self._most = most
        self._seconds = seconds
        self._values: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._questions: dict[K, asyncio.Future[V | QuestionFailedError]] = {}

    async def get(self, key: K, question: Callable[[], Awaitable[V]]) -> V:
        """Returns the remembered value, or asks the question and returns its answer. Raises the
        question's QuestionFailedError; errors are not remembered.
        """
        entry = self._values.get(key)
        if entry is not None and self._clock.now() < entry[0]:
            self._values.move_to_end(key)
            return entry[1]
        pending = self._questions.get(key)
        if pending is not None:
            outcome = await asyncio.shield(pending)
            if isinstance(outcome, QuestionFailedError):
                raise outcome
            return outcome
        self._questions[key] = answer = asyncio.get_running_loop().create_future()
        outcome = QuestionFailedError("the question was abandoned")
        try:
            outcome = value = await question()
            self._store_answer(key, value)
        except QuestionFailedError as failure:
            outcome = failure
            raise
        else:
            return value
        finally:
            del self._questions[key]
            answer.set_result(outcome)

    def _store_answer(self, key: K, value: V) -> None:
        seconds = self._seconds(value)
        self._values.pop(key, None)
        if seconds > 0:
            self._values[key] = self._clock.now() + seconds, value
            if len(self._values) > self._most:
                self._values.popitem(last=False)
