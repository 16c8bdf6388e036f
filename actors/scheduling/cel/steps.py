"""The steps of variables, access and operators. Each returns a value, or raises CelError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import access
from .equality import contains, equal
from .errors import CelError, LimitError, no_such_overload
from .run import Run, Step
from .values import MISSING, Optional, key_of, size_of, type_name


def attempt(step: Step, run: Run) -> Any:
    """Returns the value of a step, or the error that it ends with."""
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


def has_field(field: str) -> Step:
    def found(run: Run) -> Any:
        run.cost += 1
        return field in FIELDS

    return found


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


def bound(slot: int, init: Step) -> Step:
    """Reads a bound variable, whose value is found when it is read first."""

    def read(run: Run) -> Any:
        run.cost += 1
        value = run.slots[slot]
        if value is MISSING:
            value = run.slots[slot] = attempt(init, run)
        if isinstance(value, CelError):
            raise value.with_traceback(None)
        return value

    return read


def selected(value: Step, key: str, cost: int) -> Step:
    def selected(run: Run) -> Any:
        found = value(run)
        run.cost += cost
        if type(found) is dict:
            part = found.get(key, MISSING)
            if part is not MISSING:
                return part
        return access.index(found, key)

    return selected


def without_none(values: list[Any], optional: frozenset[int]) -> list[Any]:
    """Unwraps the optional elements of a list and drops those without value."""
    found = []
    for i, value in enumerate(values):
        if i not in optional:
            found.append(value)
            continue
        if type(value) is not Optional:
            raise CelError(
                f"cannot initialize optional list element from non-optional value of type "
                f"{type_name(value)}"
            )
        if value.present:
            found.append(value.value)
    return found


# --------------------------------------------------------------------------------------- operators


def _and(left: Step, right: Step) -> Step:
    return _logical(left, right, stop=False)


def _or(left: Step, right: Step) -> Step:
    return _logical(left, right, stop=True)


def _logical(left: Step, right: Step, *, stop: bool) -> Step:
    """Returns `stop` if either side has that value, whatever happens to the other side."""

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


def _not_strictly_false(value: Step) -> Step:
    def tested(run: Run) -> Any:
        found = attempt(value, run)
        run.cost += 1
        return found is not False

    return tested


def _equals(left: Step, right: Step) -> Step:
    def equals(run: Run) -> Any:
        a, b = left(run), right(run)
        run.charge(-(-min(size_of(a), size_of(b)) // 10))
        return equal(run, a, b)

    return equals


def equals_constant(left: Step, value: Any) -> Step:
    size, is_text = size_of(value), type(value) is str

    def equals(run: Run) -> Any:
        found = left(run)
        if is_text and type(found) is str:
            run.cost += -(-min(len(found), size) // 10)
            return found == value
        run.charge(-(-min(size_of(found), size) // 10))
        return equal(run, found, value)

    return equals


def _differs(left: Step, right: Step) -> Step:
    def differs(run: Run) -> Any:
        a, b = left(run), right(run)
        run.charge(-(-min(size_of(a), size_of(b)) // 10))
        return not equal(run, a, b)

    return differs


def _is_in(value: Step, container: Step) -> Step:
    def is_in(run: Run) -> Any:
        wanted, found = value(run), container(run)
        if type(found) is list:
            run.charge(len(found))
            run.strain(len(found))
            return contains(run, found, wanted)
        if isinstance(found, dict):
            run.cost += 1
            return _is_key(found, wanted)
        raise no_such_overload()

    return is_in


def _is_key(found: dict[Any, Any], wanted: Any) -> bool:
    try:
        return key_of(wanted) in found
    except CelError:
        return False


def in_constant(value: Step, found: Any) -> Step:
    def is_in(run: Run) -> Any:
        wanted = value(run)
        run.cost += 1
        if type(found) is not list:
            return _is_key(found, wanted)
        run.strain(len(found))
        return contains(run, found, wanted)

    return is_in


def _or_optional(left: Step, right: Step) -> Step:
    def chosen(run: Run) -> Any:
        value = left(run)
        if type(value) is not Optional or value.present:
            return value
        return right(run)

    return chosen


def _or_value(left: Step, right: Step) -> Step:
    def chosen(run: Run) -> Any:
        value = left(run)
        if type(value) is not Optional:
            return value
        return value.value if value.present else right(run)

    return chosen


OPERATORS: dict[str, Callable[..., Step]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": conditional,
    "@not_strictly_false": _not_strictly_false,
    "_==_": _equals,
    "_!=_": _differs,
    "@in": _is_in,
    "or": _or_optional,
    "orValue": _or_value,
}
