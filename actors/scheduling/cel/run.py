"""The state of an evaluation: its budget, the device or the variables, and the local variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .declarations import Budget
from .regex import NO_PATTERNS, Pattern


class Run(Budget):
    """The state of an evaluation. `values` are those of the variables, for an expression that is no
    selector.
    """

    __slots__ = ("attributes", "capacity", "driver", "multiple", "slots", "values")

    values: Mapping[str, Any]

    def __init__(
        self,
        slots: int,
        driver: str = "",
        attributes: Any = None,
        capacity: Any = None,
        *,
        multiple: bool = False,
        work: int = 0,
        patterns: Mapping[str, Pattern] = NO_PATTERNS,
    ) -> None:
        self.cost = self.allocated = 0
        self.work = work
        self.patterns = patterns
        self.driver = driver
        self.multiple = multiple
        self.attributes = attributes
        self.capacity = capacity
        self.slots: list[Any] = [None] * slots

    def device(self) -> dict[str, Any]:
        """Returns the device as a value of CEL."""
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.multiple,
            "attributes": self.attributes,
            "capacity": self.capacity,
        }


Step = Callable[[Run], Any]
