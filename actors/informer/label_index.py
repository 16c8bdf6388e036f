"""The objects of a kind by the value of a label, so that a plugin finds the pods of a group without
looking at every pod. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from ..scheduling.kube.meta import HasMetadata

T = TypeVar("T", bound=HasMetadata)


class LabelIndex(Generic[T]):
    """The objects that have a label, by its value. `objects` are those of the kind, by key."""

    def __init__(self, label: str, objects: Mapping[str, T]) -> None:
        self._label = label
        self._by_value: dict[str, dict[str, T]] = {}
        self._values: dict[str, str] = {}
        for name, item in objects.items():
            self.put(name, item)

    def of(self, value: str) -> Mapping[str, T]:
        """Returns the objects with this value, by key."""
        return self._by_value.get(value, {})

    def put(self, name: str, item: T | None) -> None:
        """Takes the present state of an object, None if it is gone."""
        value = None if item is None else item.metadata.labels.get(self._label)
        before = self._values.get(name)
        if before is not None and before != value:
            named = self._by_value[before]
            del named[name], self._values[name]
            if not named:
                del self._by_value[before]
        if item is not None and value is not None:
            self._values[name] = value
            self._by_value.setdefault(value, {})[name] = item
