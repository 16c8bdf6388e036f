"""Declarations of functions: overloads with their types, their code and the cost of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from .errors import LimitError
from .regex import NO_PATTERNS, Pattern
from .types import Type, parse_type, split_types
from .values import size_of

# The largest cost of an evaluation, in cel-go's units.
LIMIT = 1_000_000
# The most work of an evaluation. A unit takes half a microsecond, so an evaluation ends within
# 100 ms. cel-go's cost does not measure this: a pattern that costs 15 may take 50 ms to compile.
MOST_WORK = 100_000
# The most bytes that an evaluation allocates in all, and characters of one text.
MOST_BYTES = 48 << 20
MOST_TEXT = 1 << 16
_ELEMENT = 64  # bytes of an element of a list, or of a short text
_CHARACTER = 4

Cost = Callable[..., int]


class Budget:
    """The cost, work and memory that an evaluation has used. Going over a limit raises LimitError.

    `cost` is in the units of cel-go, `work` in units of the time that Python takes, and `allocated`
    in bytes. `patterns` are the regular expressions whose compilation is already counted.
    """

    __slots__ = ("allocated", "cost", "patterns", "work")

    def __init__(self, patterns: Mapping[str, Pattern] = NO_PATTERNS) -> None:
        self.cost = self.work = self.allocated = 0
        self.patterns = patterns

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > LIMIT:
            raise LimitError

    def strain(self, work: int) -> None:
        """Counts work. Call it before work that takes longer than a function call."""
        self.work += work
        if self.work > MOST_WORK:
            raise LimitError

    def makes_elements(self, count: int) -> None:
        """Counts the memory of a list or map of this size. Call it before the list or map
        is built.
        """
        self.strain(count >> 4)
        self._makes(count * _ELEMENT)

    def makes_text(self, size: int) -> None:
        """Counts the memory of a text of this size. Call it before the text is built."""
        if size > MOST_TEXT:
            raise LimitError
        self.strain(size >> 6)
        self._makes(size * _CHARACTER)

    def _makes(self, size: int) -> None:
        self.allocated += size
        if self.allocated > MOST_BYTES:
            raise LimitError


class Overload(NamedTuple):
    """An overload. `run` gets the arguments, the target first; if `budgeted`, the budget before
    them.

    `cost` is fixed or a function of the arguments; with `strains` it also counts as work. Operators
    that the evaluator implements have no `run`.
    """

    id: str
    function: str
    member: bool
    params: tuple[Type, ...]
    result: Type
    run: Callable[..., Any] | None
    cost: int | Cost
    budgeted: bool
    strains: bool


def overload(
    id_: str,
    signature: str,
    run: Callable[..., Any] | None = None,
    cost: int | Cost = 1,
    *,
    budgeted: bool = False,
    strains: bool = True,
) -> Overload:
    """Returns the overload with a signature such as `string::charAt(int) -> string`."""
    call, _, result = signature.partition(" -> ")
    target, _, call = call.rpartition("::")
    name, _, params = call.partition("(")
    names = [target] if target else []
    names += split_types(params.rstrip()[:-1])
    types = tuple(map(parse_type, names))
    return Overload(
        id_, name, bool(target), types, parse_type(result), run, cost, budgeted, strains
    )


# Declares an overload whose `run` gets the budget before its arguments.
budgeted = partial(overload, budgeted=True)


def cost_of_reading(size: int) -> int:
    """Returns the cost of reading a text of this size once: a tenth of the size, rounded up."""
    return -(-size // 10)


def cost_of_first(*values: Any) -> int:
    """Returns the cost of reading the first argument, as text, once."""
    return cost_of_reading(size_of(values[0]))


def cost_of_first_twice(*values: Any) -> int:
    return cost_of_reading(2 * size_of(values[0]))


def cost_of_match(text: Any, pattern: Any, *_: Any) -> int:
    """Returns the cost of matching a text with a regular expression."""
    return cost_of_reading(1 + size_of(text)) * -(-size_of(pattern) // 4)
