"""CycleState: the values that plugins pass from one extension point to the next, for one pod and
one attempt.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Generic, TypeVar

from .measuring import UNMEASURED, Record
from .status import UserMessageError

T = TypeVar("T")
_NONE: frozenset[str] = frozenset()


class StateNotFoundError(UserMessageError):
    """A plugin reads a value that it did not write in this attempt: it is enabled at this extension
    point, but not at the extension point that writes the value.
    """


class StateKey(Generic[T]):
    """A typed name in a CycleState. Keys are compared by identity, so two plugins cannot share one
    by accident. `not_found` is the message of a read without a value; by default one that
    kube-scheduler's plugins use.
    """

    __slots__ = ("name", "not_found")

    def __init__(self, name: str, not_found: str = "") -> None:
        self.name = name
        self.not_found = not_found or f'reading "{name}" from cycleState: not found'

    def __repr__(self) -> str:
        return f"StateKey({self.name})"


# The keys (namespace/name) of pods to activate when this pod is placed, and again when it is bound.
# A plugin that schedules a group of pods together puts them here.
PODS_TO_ACTIVATE: StateKey[set[str]] = StateKey("PodsToActivate")


class CycleState:
    """The values of one scheduling attempt, and the plugins that are left out in it.

    `left_out` are the plugins whose Filter is left out: they returned SKIP, or are in
    `passes_filter` because they pass all nodes. The PreBind of `parallel_pre_bind` may run in
    parallel. `record` takes the measurements of the attempt.
    """

    __slots__ = (
        "_data",
        "left_out",
        "parallel_pre_bind",
        "passes_filter",
        "record",
        "skip_pre_bind",
        "skip_score",
    )

    def __init__(self) -> None:
        self.record: Record = UNMEASURED
        self._data: dict[StateKey[Any], Any] = {}
        self.left_out: set[str] = set()
        self.passes_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: Set[str] = _NONE
        self.parallel_pre_bind: Set[str] = _NONE

    def copy(self) -> CycleState:
        """Returns an unmeasured CycleState with the same values; no PreBind is skipped."""
        copy = CycleState.__new__(CycleState)
        copy.record = UNMEASURED
        copy._data = self._data.copy()  # noqa: SLF001 - of the same class
        copy.left_out = self.left_out.copy()
        copy.passes_filter = self.passes_filter.copy()
        copy.skip_score = self.skip_score.copy()
        copy.skip_pre_bind = copy.parallel_pre_bind = _NONE
        return copy

    @property
    def skip_filter(self) -> set[str]:
        """The plugins that returned SKIP in PreFilter."""
        return self.left_out - self.passes_filter

    def write(self, key: StateKey[T], value: T) -> None:
        """Keeps a value for the rest of the attempt. Raises TypeError for PODS_TO_ACTIVATE that are
        no set, which is read when no attempt can fail any more.
        """
        if key is PODS_TO_ACTIVATE and not isinstance(value, set):
            raise TypeError(f"{key.name}: expected a set of namespace/name, got {value!r:.80}")
        self._data[key] = value

    def __contains__(self, key: StateKey[T]) -> bool:
        return key in self._data

    def read(self, key: StateKey[T]) -> T:
        """Returns the value. Raises StateNotFoundError if none was written in this attempt."""
        try:
            value: T = self._data[key]
        except KeyError:
            raise StateNotFoundError(key.not_found) from None
        return value

    def take_pods_to_activate(self) -> tuple[str, ...]:
        """Removes the keys under PODS_TO_ACTIVATE and returns them, sorted."""
        keys = self.get(PODS_TO_ACTIVATE)
        if not keys:
            return ()
        names = tuple(sorted(key for key in keys if isinstance(key, str)))
        keys.clear()
        return names

    def get(self, key: StateKey[T]) -> T | None:
        return self._data.get(key)
