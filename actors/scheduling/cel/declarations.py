"""How a function is declared: its overloads, what they do, and what a call of them costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .errors import LimitError
from .types import Type, parse_type, split_types
from .values import size_of

# The cost that an evaluation may have, in cel-go's units.
LIMIT = 1_000_000
# What an evaluation may do beyond its cost, in elements that are compared: cel-go charges nothing
# for the depth of lists that it compares, or for copies that it avoids.
MOST_EFFORT = 1_000_000
MOST_ELEMENTS = 1_000_000
MOST_TEXT = 10_000_000

Cost = Callable[..., int]


class Budget:
    """Counts what an evaluation costs, and ends it with LimitError at the limits."""

    __slots__ = ("cost", "effort")

    def __init__(self) -> None:
        self.cost = 0
        self.effort = 0

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > LIMIT:
            raise LimitError

    def strain(self, effort: int) -> None:
        self.effort += effort
        if self.effort > MOST_EFFORT:
            raise LimitError

    def makes_elements(self, count: int) -> None:
        """Has to be called before a list or map of this size is made without cost."""
        if count > MOST_ELEMENTS:
            raise LimitError
        self.strain(count >> 6)

    def makes_text(self, size: int) -> None:
        """Has to be called before a text of this size is made without cost."""
        if size > MOST_TEXT:
            raise LimitError
        self.strain(size >> 10)


class Overload(NamedTuple):
    """`run` gets the arguments, the target first; with `budgeted`, the budget before them.

    `cost` is fixed or a function of the arguments. Operators that the evaluator knows have no
    `run`.
    """

    id: str
    function: str
    member: bool
    params: tuple[Type, ...]
    result: Type
    run: Callable[..., Any] | None
    cost: int | Cost
    budgeted: bool


def overload(
    id_: str,
    signature: str,
    run: Callable[..., Any] | None = None,
    cost: int | Cost = 1,
    *,
    budgeted: bool = False,
) -> Overload:
    """Reads a signature such as `string::charAt(int) -> string` or `size(bytes) -> int`."""
    call, _, result = signature.partition(" -> ")
    target, _, call = call.rpartition("::")
    name, _, params = call.partition("(")
    wanted = [target] if target else []
    wanted += split_types(params.rstrip()[:-1])
    types = tuple(map(parse_type, wanted))
    return Overload(id_, name, bool(target), types, parse_type(result), run, cost, budgeted)


def tenth(size: int) -> int:
    """The cost of reading a text once, rounded up."""
    return -(-size // 10)


def reads(*values: Any) -> int:
    """The cost of reading the first argument as text once."""
    return tenth(size_of(values[0]))


def reads_twice(*values: Any) -> int:
    return tenth(2 * size_of(values[0]))


def matches(text: Any, pattern: Any, *_: Any) -> int:
    """The cost of looking for a regular expression."""
    return tenth(1 + size_of(text)) * -(-size_of(pattern) // 4)
