"""Calls of functions: chooses the overload by the types of the values, charges its cost and runs
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .declarations import Overload
from .errors import CelError
from .run import Run, Step
from .tree import Call
from .types import Type
from .values import TYPE_NAMES, Built, Domains, Optional, TypeValue, type_name

Guard = Callable[[Any], bool]
_CLASSES = {name: kind for kind, name in TYPE_NAMES.items() if kind not in (Domains, Built)}
# Operators whose overload is not known before evaluation cost the same for all types.
_READABLE = frozenset(("string", "bytes", "dyn", "any"))
SHORT = 64  # characters: reading a text up to this length is not counted as work
_FLAT = frozenset(("_+_", "_<_", "_<=_", "_>_", "_>=_"))


def constant(value: Any) -> Step:
    return lambda _: value


def call(node: Call, operands: list[Step]) -> Step:
    """Returns the step of a call for which the checker has resolved the overloads."""
    overloads = tuple(node.overloads)
    if len(overloads) != 1:
        return _any_of(node.function, overloads, operands)
    overload = overloads[0]
    sure = all(
        operand.type == parameter
        for operand, parameter in zip(node.operands, overload.params, strict=True)
    )
    guards = () if sure else tuple(map(_guard, overload.params))
    quick = type(overload.cost) is int and not overload.budgeted and not _may_read_text(overload)
    if len(operands) == 2 and quick:
        return _binary(overload, guards, *operands)
    if len(operands) == 1 and quick:
        return _unary(overload, guards, operands[0])
    return _n_ary(overload, guards, operands)


def _may_read_text(overload: Overload) -> bool:
    """True if an argument may be a text, and the call reads more of it than type and size."""
    return overload.run not in (len, Optional) and any(
        parameter.kind in _READABLE for parameter in overload.params
    )


def _no_matching_overload(function: str, values: tuple[Any, ...] | list[Any]) -> CelError:
    kinds = ", ".join(map(type_name, values))
    if function.startswith(("_", "!", "-")):
        return CelError("no such overload")
    return CelError(f"no such overload: {function}({kinds})")


def _unary(overload: Overload, guards: tuple[Guard, ...], operand: Step) -> Step:
    run_it, cost, function = overload.run, overload.cost, overload.function
    assert run_it is not None
    assert type(cost) is int

    def called(run: Run) -> Any:
        value = operand(run)
        if guards and not guards[0](value):
            raise _no_matching_overload(function, (value,))
        run.cost += cost
        return run_it(value)

    return called


def _binary(overload: Overload, guards: tuple[Guard, ...], first: Step, second: Step) -> Step:
    run_it, cost, function = overload.run, overload.cost, overload.function
    assert run_it is not None
    assert type(cost) is int

    def called(run: Run) -> Any:
        a, b = first(run), second(run)
        if guards and not (guards[0](a) and guards[1](b)):
            raise _no_matching_overload(function, (a, b))
        run.cost += cost
        return run_it(a, b)

    return called


def _n_ary(overload: Overload, guards: tuple[Guard, ...], operands: list[Step]) -> Step:
    function = overload.function

    def called(run: Run) -> Any:
        values = [operand(run) for operand in operands]
        if guards and not _guards_accept(guards, values):
            raise _no_matching_overload(function, values)
        return _invoke(run, overload, values)

    return called


def _any_of(function: str, overloads: tuple[Overload, ...], operands: list[Step]) -> Step:
    guarded = [(overload, tuple(map(_guard, overload.params))) for overload in overloads]
    flat = function in _FLAT

    def called(run: Run) -> Any:
        values = [operand(run) for operand in operands]
        for overload, guards in guarded:
            if _guards_accept(guards, values):
                return _invoke(run, overload, values, flat=flat)
        raise _no_matching_overload(function, values)

    return called


def _guards_accept(guards: tuple[Guard, ...], values: list[Any]) -> bool:
    return all(guard(value) for guard, value in zip(guards, values, strict=True))


def _invoke(run: Run, overload: Overload, values: list[Any], *, flat: bool = False) -> Any:
    cost = overload.cost
    if isinstance(cost, int):
        run.charge(cost)
    else:
        charged = cost(*values)
        run.charge(1 if flat else charged)
        if overload.strains:
            run.strain(4 + (charged >> 1))
    for value in values:
        kind = type(value)
        if (kind is str or kind is bytes) and len(value) > SHORT:
            run.strain(len(value))
    assert overload.run is not None
    return overload.run(run, *values) if overload.budgeted else overload.run(*values)


# ------------------------------------------------------------------------------------------ guards


def _accepts_anything(_: Any) -> bool:
    return True


def _guard(expected: Type) -> Guard:
    """Returns a test for a type. Of a list or map, it tests the first element only."""
    match expected.kind:
        case "dyn" | "any" | "param":
            return _accepts_anything
        case "list":
            element = _guard(expected.of[0])
            return lambda value: type(value) is list and (not value or element(value[0]))
        case "map":
            return lambda value: isinstance(value, dict)
        case "type":
            return lambda value: type(value) is TypeValue
        case _ if expected.name == "optional_type":
            return lambda value: type(value) is Optional
        case _:
            kind = _CLASSES[expected.name]
            return lambda value: type(value) is kind
