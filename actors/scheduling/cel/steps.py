"""The steps of evaluations: variables, access and operators. Each returns a value or raises
CelError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from . import access
from .equality import contains, equal
from .errors import CelError, LimitError, no_such_overload
from .run import Run, Step
from .values import MISSING, Optional, key_of, size_of, type_name


def attempt(step: Step, run: Run) -> Any:
    """Returns the value of a step, or the error that the step raised."""
    try:
        return step(run)
    except LimitError:
        raise
    except CelError as error:
        return error.with_traceback(None)


# --------------------------------------------------------------------------------------- variables


def device(run: Run) -> Any:
    run.cost += 1
    return run.device()


def _driver(run: Run) -> Any:
    run.cost += 2
    return run.driver


def _multiple(run: Run) -> Any:
    run.cost += 2
    return run.multiple


def _attributes(run: Run) -> Any:
    run.cost += 2
    return run.attributes


def _capacity(run: Run) -> Any:
    run.cost += 2
    return run.capacity


FIELDS: dict[str, Step] = {
    "driver": _driver,
    "allowMultipleAllocations": _multiple,
    "attributes": _attributes,
    "capacity": _capacity,
}


def variable(name: str) -> Step:
    def read(run: Run) -> Any:
        run.cost += 1
        return run.values[name]

    return read


def has_field(field: str) -> Step:
    def has(run: Run) -> Any:
        run.cost += 1
        return field in FIELDS

    return has


def local(slot: int) -> Step:
    def read(run: Run) -> Any:
        run.cost += 1
        return run.slots[slot]

    return read


def accumulator(slot: int) -> Step:
    def read(run: Run) -> Any:
        run.cost += 1
        value = run.slots[slot]
        if isinstance(value, CelError):
            raise value.with_traceback(None)
        return value

    return read


def binding_step(slot: int, init: Step) -> Step:
    """Returns a step that reads a bound variable, which is evaluated at its first read."""

    def read(run: Run) -> Any:
        run.cost += 1
        value = run.slots[slot]
        if value is MISSING:
            value = run.slots[slot] = attempt(init, run)
        if isinstance(value, CelError):
            raise value.with_traceback(None)
        return value

    return read


def selection(operand: Step, key: str, cost: int) -> Step:
    def selection(run: Run) -> Any:
        value = operand(run)
        run.cost += cost
        if type(value) is dict:
            part = value.get(key, MISSING)
            if part is not MISSING:
                return part
        return access.index(value, key)

    return selection


def without_none(values: list[Any], optional: frozenset[int]) -> list[Any]:
    """Returns the elements of a list, optional ones unwrapped, without the empty optionals."""
    result = []
    for i, value in enumerate(values):
        if i not in optional:
            result.append(value)
            continue
        if type(value) is not Optional:
            raise CelError(
                f"cannot initialize optional list element from non-optional value of type "
                f"{type_name(value)}"
            )
        if value.present:
            result.append(value.value)
    return result


def optional_entry(key: Any, value: Any) -> Any:
    """Returns what an optional entry holds, MISSING for none. Raises CelError."""
    if type(value) is not Optional:
        raise CelError(f"cannot initialize optional entry '{key}' from non-optional value")
    return value.value


# --------------------------------------------------------------------------------------- operators


def _logical(left: Step, right: Step, *, stop: bool) -> Step:
    """Returns the step of && or ||: its value is `stop` if that of either side is, even if the
    other side fails.
    """

    def logical(run: Run) -> Any:
        value = error = None
        try:
            value = left(run)
        except LimitError:
            raise
        except CelError as problem:
            error = problem.with_traceback(None)
        if value is stop:
            return stop
        other = right(run)
        if other is stop:
            return stop
        if error is not None:
            raise error
        if value is not (not stop) or other is not (not stop):
            raise no_such_overload()
        return not stop

    return logical


def conditional(condition: Step, truthy: Step, falsy: Step) -> Step:
    def chosen(run: Run) -> Any:
        value = condition(run)
        if value is True:
            return truthy(run)
        if value is False:
            return falsy(run)
        raise no_such_overload()

    return chosen


def _not_strictly_false(operand: Step) -> Step:
    def tested(run: Run) -> Any:
        value = attempt(operand, run)
        run.cost += 1
        return value is not False

    return tested


def _equals_step(left: Step, right: Step) -> Step:
    def equals(run: Run) -> Any:
        a, b = left(run), right(run)
        run.charge(-(-min(size_of(a), size_of(b)) // 10))
        return equal(run, a, b)

    return equals


def equals_constant(left: Step, value: Any) -> Step:
    size, is_text = size_of(value), type(value) is str

    def equals(run: Run) -> Any:
        actual = left(run)
        if is_text and type(actual) is str:
            run.cost += -(-min(len(actual), size) // 10)
            return actual == value
        run.charge(-(-min(size_of(actual), size) // 10))
        return equal(run, actual, value)

    return equals


def _differs_step(left: Step, right: Step) -> Step:
    def differs(run: Run) -> Any:
        a, b = left(run), right(run)
        run.charge(-(-min(size_of(a), size_of(b)) // 10))
        return not equal(run, a, b)

    return differs


def _is_in_step(element: Step, collection: Step) -> Step:
    def is_in(run: Run) -> Any:
        value, container = element(run), collection(run)
        if type(container) is list:
            run.charge(len(container))
            run.strain(len(container))
            return contains(run, container, value)
        if isinstance(container, dict):
            run.cost += 1
            return _is_key(container, value)
        raise no_such_overload()

    return is_in


def _is_key(entries: dict[Any, Any], value: Any) -> bool:
    try:
        return key_of(value) in entries
    except CelError:
        return False


def in_constant(element: Step, container: Any) -> Step:
    def is_in(run: Run) -> Any:
        value = element(run)
        run.cost += 1
        if type(container) is not list:
            return _is_key(container, value)
        run.strain(len(container))
        return contains(run, container, value)

    return is_in


def _or_optional_step(left: Step, right: Step) -> Step:
    def chosen(run: Run) -> Any:
        value = left(run)
        if type(value) is not Optional or value.present:
            return value
        return right(run)

    return chosen


def _or_value_step(left: Step, right: Step) -> Step:
    def chosen(run: Run) -> Any:
        value = left(run)
        if type(value) is not Optional:
            return value
        return value.value if value.present else right(run)

    return chosen


OPERATORS: dict[str, Callable[..., Step]] = {
    "_&&_": partial(_logical, stop=False),
    "_||_": partial(_logical, stop=True),
    "_?_:_": conditional,
    "@not_strictly_false": _not_strictly_false,
    "_==_": _equals_step,
    "_!=_": _differs_step,
    "@in": _is_in_step,
    "or": _or_optional_step,
    "orValue": _or_value_step,
}
