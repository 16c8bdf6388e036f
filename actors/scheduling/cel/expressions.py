"""Expressions over named values, such as those of admission policies. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from .compiled import Compiled, evaluated
from .errors import CelError
from .run import Run
from .types import DYN, Type


class Expression(Compiled):
    """A compiled expression over variables of these types.

    Its result must have one of the types in `results`; if there are none, it may have any.
    """

    def __init__(
        self,
        expression: str,
        variables: Mapping[str, Type],
        results: Collection[Type] = (),
        *,
        builds: bool = False,
    ) -> None:
        self._results = results
        super().__init__(expression, variables, builds=builds)

    @property
    def type(self) -> Type:
        """The type of the result."""
        return DYN if self.root is None else self.root.type

    def _problem(self, result: Type) -> str:
        if not self._results or result in self._results:
            return ""
        names = [expected.declared for expected in self._results]
        if len(names) == 1:
            return f"must evaluate to {names[0]} but got {result.declared}"
        return f"must evaluate to one of [{' '.join(names)}]"

    def value(self, values: Mapping[str, Any], spend: Callable[[int], None] | None = None) -> Any:
        """Returns the value of the expression. Raises CelError.

        `values` are the values of the variables, in the types of JSON. Calls `spend` with the units
        of work that the evaluation took.
        """
        return self._evaluated(values, spend)[0]

    def measured(self, values: Mapping[str, Any]) -> tuple[Any, int]:
        """Returns the value of the expression and its cost in cel-go's units. Raises CelError."""
        value, run = self._evaluated(values, None)
        return value, run.cost

    def _evaluated(
        self, values: Mapping[str, Any], spend: Callable[[int], None] | None
    ) -> tuple[Any, Run]:
        if self._program is None:
            raise CelError(self.error)
        step, slots, size, patterns = self._program
        run = Run(slots, work=size, patterns=patterns)
        run.values = values
        return evaluated(step, run, spend), run
