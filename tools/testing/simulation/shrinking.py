"""The smallest scenario that still breaks a property: fewer faults, fewer steps, less time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from .scenario import Scenario

T = TypeVar("T")
Breaks = Callable[[Scenario], bool]


def shrunk(scenario: Scenario, breaks: Breaks) -> Scenario:
    """Returns a scenario that `breaks` too, from which no single fault or step can be left out.

    `breaks` plays a scenario; it must be true of the given one.
    """

    def with_faults(faults: Sequence[object]) -> Scenario:
        return msgspec.structs.replace(scenario, faults=tuple(faults))

    def with_steps(steps: Sequence[object]) -> Scenario:
        return msgspec.structs.replace(scenario, steps=tuple(steps))

    before = None
    while before != scenario:  # with fewer steps, a fault may be needed no more
        before = scenario
        scenario = with_faults(_fewest(scenario.faults, lambda left: breaks(with_faults(left))))
        scenario = with_steps(_fewest(scenario.steps, lambda left: breaks(with_steps(left))))
    last = max((step.at for step in scenario.steps), default=0.0)
    for seconds in (last, last + 1, last + 10, last + 60):
        shorter = msgspec.structs.replace(scenario, seconds=min(seconds, scenario.seconds))
        if breaks(shorter):
            return shorter
    return scenario


def _fewest(items: Sequence[T], breaks: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Returns a part of the items, in their order, that breaks too: delta debugging (ddmin), which
    leaves out ever smaller parts until no single item can be left out.
    """
    parts = 2
    while len(items) >= 1:
        size = max(len(items) // parts, 1)
        for begin in range(0, len(items), size):
            left = [*items[:begin], *items[begin + size :]]
            if breaks(left):
                items, parts = left, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return items
            parts = min(parts * 2, len(items))
    return items
