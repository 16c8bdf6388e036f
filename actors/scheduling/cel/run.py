"""One evaluation of a selector: its budget, the device and the local variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .declarations import Budget


class Run(Budget):
    __slots__ = ("attributes", "capacity", "driver", "multiple", "slots")

    def __init__(
        self,
        slots: int,
        driver: str = "",
        attributes: Any = None,
        capacity: Any = None,
        *,
        multiple: bool = False,
    ) -> None:
        self.cost = 0
        self.effort = 0
        self.driver = driver
        self.multiple = multiple
        self.attributes = attributes
        self.capacity = capacity
        self.slots: list[Any] = [None] * slots

    def device(self) -> dict[str, Any]:
        """The device as one value."""
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.multiple,
            "attributes": self.attributes,
            "capacity": self.capacity,
        }


Step = Callable[[Run], Any]
