"""The loops of comprehensions over lists and maps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .declarations import LIMIT, MOST_WORK
from .errors import CelError, LimitError, no_such_overload
from .functions.lists import insert, insert_all
from .run import Run, Step
from .steps import attempt
from .values import GO_NAMES, keys, value_of_key


class Fold:
    """A comprehension over a list or a map. Each turn takes `work` units of work."""

    def __init__(self, over: Step, accumulator: int, first: int, second: int, work: int) -> None:
        self.work = work
        self.accumulator, self.first, self.second = accumulator, first, second
        self._over = over
        self.init: Step = over
        self.condition: Step | None = None
        self.step: Step = over
        self.result: Step = over

    def run(self, run: Run) -> Any:
        over = self._over(run)
        slots, accumulator, first, second = run.slots, self.accumulator, self.first, self.second
        condition, step, work = self.condition, self.step, self.work
        items = self._items(over)
        slots[accumulator] = attempt(self.init, run)
        for item in items:
            run.work += work
            if run.work > MOST_WORK:
                raise LimitError
            if second < 0:
                slots[first] = item
            else:
                slots[first], slots[second] = item
            if condition is not None and attempt(condition, run) is False:
                break
            try:
                slots[accumulator] = step(run)
            except LimitError:
                raise
            except CelError as error:
                slots[accumulator] = error.with_traceback(None)
            if run.cost > LIMIT:
                raise LimitError
        return self.result(run)

    def _items(self, over: Any) -> Iterable[Any]:
        kind = type(over)
        if kind is list:
            return over if self.second < 0 else enumerate(over)
        if isinstance(over, dict):
            if self.second < 0:
                return keys(over)
            return ((value_of_key(key), value) for key, value in over.items())
        name = GO_NAMES[kind]
        if self.second < 0:
            raise CelError(f"got '{name}', expected iterable type")
        raise CelError(f"unsupported comprehension range type: {name}")


# ------------------------------------------------------------------------------------ accumulators


def new_list(_: Run) -> Any:
    return []


def new_map(_: Run) -> Any:
    return {}


def append_step(slot: int, element: Step, is_constant: bool) -> Step:
    cost = 2 if is_constant else 12

    def appended(run: Run) -> Any:
        items = run.slots[slot]
        if type(items) is not list:
            raise items
        value = element(run)
        run.cost += cost
        items.append(value)
        return items

    return appended


def insert_step(slot: int, parts: list[Step]) -> Step:
    def inserted(run: Run) -> Any:
        entries = run.slots[slot]
        if type(entries) is not dict:
            raise entries
        values = [part(run) for part in parts]
        run.cost += 2
        if len(values) == 2:
            insert(entries, *values)
        elif isinstance(values[0], dict):
            run.charge(len(values[0]))
            insert_all(entries, values[0])
        else:
            raise no_such_overload()
        return entries

    return inserted
