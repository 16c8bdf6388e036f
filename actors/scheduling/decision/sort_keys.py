"""The keys of QueueSort: tuples of numbers, as the queue compares them at once, or any other values
that can be compared, under guard.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ..framework.interface import Plugin
from .answers import expected
from .failures import CRASHES, QUEUE_SORT, failure_status
from .overruns import calls_plugins

NOTICED = 0.01  # seconds of a comparison, from which on it counts
# Numbers of other classes may compare as they like.
_PLAIN = frozenset((int, float, bool, np.int64, np.float64))


class GuardedKey:
    """A plugin's value as a sort key. A value that cannot be compared with another one counts as
    equal to it, so that the pods are in the order of their arrival. The plugin is switched off if
    that takes too long.
    """

    __slots__ = ("_plugin", "_value")

    def __init__(self, value: Any, plugin: Plugin) -> None:
        self._value = value
        self._plugin = plugin

    def __lt__(self, other: object) -> bool:
        return isinstance(other, GuardedKey) and self._is_less(self._value, other._value)

    def __gt__(self, other: object) -> bool:
        return isinstance(other, GuardedKey) and self._is_less(other._value, self._value)

    def __eq__(self, other: object) -> bool:
        return not (self < other or self > other)

    # An ordering alone: values that compare as equal need not be the same, nor have a hash.
    __hash__ = None  # type: ignore[assignment]  # Python's way to say that there is none

    @calls_plugins
    def _is_less(self, left: Any, right: Any) -> bool:
        breaker = self._plugin.breaker
        began = 0.0 if breaker is None else breaker.now()
        if breaker is not None and not breaker.admits(began):
            return False
        try:
            is_less = bool(left < right)
        except CRASHES as exception:
            failure_status(self._plugin, QUEUE_SORT, exception)
            is_less = False
        if breaker is not None and (now := breaker.now()) - began > NOTICED:
            # The queue compares a pod with many others: together they count as one attempt.
            breaker.took(QUEUE_SORT, QUEUE_SORT.name, now - began, "", now, None)
        return is_less


@calls_plugins
def as_sort_key(answer: Any, plugin: Plugin) -> tuple[Any, ...]:
    """Returns the key in a form that the queue can always compare. Raises WrongAnswerError."""
    if type(answer) is tuple and _PLAIN.issuperset(map(type, answer)):
        # One call checks nearly all. Infinities may add up to NaN, which is not equal to itself.
        total = sum(answer)
        if total == total or not any(value != value for value in answer):
            return answer
    if isinstance(answer, tuple) and any(
        isinstance(value, Real) and value != value for value in answer
    ):
        raise expected("a key without NaN", answer)
    try:
        orders = isinstance(answer < answer, bool)
    except TypeError:
        orders = False
    if not orders:
        raise expected("a value that can be compared with <", answer)
    return (GuardedKey(answer, plugin),)
