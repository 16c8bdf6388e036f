"""CycleState: what a plugin remembers from one extension point to the next, for one pod and one
attempt.
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

T = TypeVar("T")


class StateNotFoundError(KeyError):
    """A plugin reads what it did not write in this attempt: it is enabled here, and not at the
    point that writes it.
    """

    def __str__(self) -> str:
        return f'reading "{self.args[0]}" from cycleState: not found'


class StateKey(Generic[T]):
    """A typed name in a CycleState; compared by identity, so that two plugins never meet by
    accident.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"StateKey({self.name})"


# The keys (namespace/name) of pods that are worth a try once this pod is placed, and again once it
# is bound: a plugin that holds a group of pods together puts them here.
PODS_TO_ACTIVATE: StateKey[set[str]] = StateKey("PodsToActivate")


class CycleState:
    """The memory of one scheduling attempt, with the plugins that asked to be skipped in it."""

    __slots__ = ("_data", "skip_filter", "skip_pre_bind", "skip_score")

    def __init__(self) -> None:
        self._data: dict[StateKey[object], object] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()

    def copy(self) -> CycleState:
        """A memory that starts with all that this one holds."""
        copy = CycleState()
        copy._data = self._data.copy()
        copy.skip_filter = self.skip_filter.copy()
        copy.skip_score = self.skip_score.copy()
        return copy

    def write(self, key: StateKey[T], value: T) -> None:
        self._data[cast("StateKey[object]", key)] = value

    def read(self, key: StateKey[T]) -> T:
        """Raises StateNotFoundError if nothing was written under `key` in this attempt."""
        try:
            return cast("T", self._data[cast("StateKey[object]", key)])
        except KeyError:
            raise StateNotFoundError(key.name) from None

    def take_pods_to_activate(self) -> tuple[str, ...]:
        """The keys under PODS_TO_ACTIVATE, sorted; they are gone from there afterwards."""
        found = self.get(PODS_TO_ACTIVATE)
        if not found:
            return ()
        keys = tuple(sorted(key for key in found if isinstance(key, str)))
        found.clear()
        return keys

    def get(self, key: StateKey[T]) -> T | None:
        return cast("T | None", self._data.get(cast("StateKey[object]", key)))
