"""Verdicts: a filter's answer for many nodes at once, and the diagnosis of all filters together.

A filter tells for each position of a view a code and a key; the key stands for the reasons and is
only turned into words when somebody reads them. Each node keeps the first plugin that rejected it,
as Kubernetes reports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from berth.actors.scheduling.framework.status import SUCCESS, Code, Status
from berth.actors.scheduling.model.columns import Bools, Ints
from berth.actors.scheduling.model.snapshot import NodeView
from berth.actors.scheduling.model.vectors import any_true, highest, lowest
from numpy.typing import NDArray

PASSES, _PENDING = int(Code.SUCCESS), int(Code.PENDING)
Explain = Callable[[int], tuple[str, ...]]


class Verdicts:
    """Per position of a view: codes int8[n] (Code.SUCCESS passes) and keys int64[n]; `explain(key)`
    gives reasons.
    """

    __slots__ = ("codes", "explain", "keys")

    def __init__(self, codes: NDArray[np.int8], keys: Ints, explain: Explain) -> None:
        self.codes = codes
        self.keys = keys
        self.explain = explain

    @classmethod
    def rejecting(cls, rejected: Bools, code: Code, *reasons: str) -> Verdicts:
        """The same code and reasons wherever `rejected` holds."""
        codes = np.where(rejected, np.int8(code), np.int8(0))
        return cls(codes, np.zeros(len(rejected), dtype=np.int64), lambda _: reasons)


class _Tally:
    """How many of the `live` positions a filter rejected with which key, and how many of them only
    have to wait.
    """

    def __init__(self, diagnosis: Diagnosis, live: Bools) -> None:
        self.live = live
        self.keys: dict[int, dict[int, int]] = {}
        self.pending: dict[int, int] = {}
        for by in range(len(diagnosis.plugins)):
            told = diagnosis.keys[live & (diagnosis.by == by)]
            if not len(told):
                continue
            if highest(told) == lowest(told):
                self.keys[by] = {int(told[0]): len(told)}  # as most often: they need not be sorted
            else:
                keys, counted = np.unique(told, return_counts=True)
                self.keys[by] = dict(zip(keys.tolist(), counted.tolist(), strict=True))
        waits = live & (diagnosis.codes == _PENDING)
        if any_true(waits):
            counted = np.bincount(diagnosis.by[waits])
            self.pending = {by: number for by, number in enumerate(counted.tolist()) if number}

    def count(self, diagnosis: Diagnosis, position: int, number: int) -> None:
        """What is said of a position comes to count (+1), or counts no longer (-1)."""
        by = int(diagnosis.by[position])
        if by < 0 or not self.live[position]:
            return
        _count(self.keys.setdefault(by, {}), int(diagnosis.keys[position]), number)
        if not self.keys[by]:
            del self.keys[by]
        if diagnosis.codes[position] == _PENDING:
            _count(self.pending, by, number)


def _count(counts: dict[int, int], key: int, number: int) -> None:
    counts[key] = counts.get(key, 0) + number
    if not counts[key]:
        del counts[key]


class Diagnosis:
    """Why each node of a view passed or not, after all filters ran, and what PreFilter had to say.

    `codes` int8[n]; `by` int16[n], the position in `plugins` of the filter that rejected, -1 if
    none did.
    """

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.codes: NDArray[np.int8] = np.zeros(view.size, dtype=np.int8)
        self.by: NDArray[np.int16] = np.full(view.size, -1, dtype=np.int16)
        self.keys: Ints = np.zeros(view.size, dtype=np.int64)
        self.plugins: list[str] = []
        self._explain: list[Explain] = []
        self._told: dict[str, int] = {}
        self._words: dict[tuple[str, ...], int] = {}
        self._tally: _Tally | None = None

    def copy(self) -> Diagnosis:
        copy = Diagnosis(self.view)
        copy.codes, copy.by, copy.keys = self.codes.copy(), self.by.copy(), self.keys.copy()
        copy.plugins, copy._explain = self.plugins.copy(), self._explain.copy()
        copy._told = self._told.copy()
        copy._words = self._words  # Only ever added to, so that both can read it.
        return copy

    def add(self, plugin: str, verdicts: Verdicts) -> None:
        """Take a filter's verdicts for the nodes that no earlier filter rejected."""
        newly = (self.codes == PASSES) & (verdicts.codes != PASSES)
        if not any_true(newly):
            return
        self._tally = None
        self.codes[newly] = verdicts.codes[newly]
        self.by[newly] = len(self.plugins)
        self.keys[newly] = verdicts.keys[newly]
        self.plugins.append(plugin)
        self._explain.append(verdicts.explain)

    def put(self, position: int, status: Status) -> None:
        """Let the node at a position of the view have this status, whatever was said of it."""
        if self._tally is not None:
            self._tally.count(self, position, -1)
        self.codes[position] = status.code
        if status.ok:
            self.by[position] = -1
            return
        by = self._told.setdefault(status.plugin, len(self.plugins))
        if by == len(self.plugins):
            self.plugins.append(status.plugin)
            self._explain.append(lambda key: list(self._words)[key])
        self.by[position] = by
        self.keys[position] = self._words.setdefault(status.reasons, len(self._words))
        if self._tally is not None:
            self._tally.count(self, position, 1)

    def feasible(self) -> Bools:
        return np.asarray(self.codes == PASSES)

    def status(self, position: int) -> Status:
        """The status of the node at a position of the view."""
        by = int(self.by[position])
        if by < 0:
            return SUCCESS
        reasons = self._explain[by](int(self.keys[position]))
        return Status(Code(int(self.codes[position])), reasons, self.plugins[by])

    def reasons(self, live: Bools) -> Counter[str]:
        """How many of the `live` positions were rejected for each reason; explains each distinct
        key once.
        """
        counts: Counter[str] = Counter()
        for by, numbers in self._tallied(live).keys.items():
            for key, number in numbers.items():
                for reason in self._explain[by](key):
                    counts[reason] += number
        return counts

    def pending_plugins(self, live: Bools) -> frozenset[str]:
        """Those of the plugins that rejected a `live` position which only wait for something to
        happen.
        """
        return frozenset(self.plugins[by] for by in self._tallied(live).pending)

    def rejecting_plugins(self, live: Bools) -> frozenset[str]:
        """The plugins that rejected at least one of the `live` positions."""
        return frozenset(self.plugins[by] for by in self._tallied(live).keys)

    def _tallied(self, live: Bools) -> _Tally:
        """Counted once, and from then on kept up to date."""
        if self._tally is None or self._tally.live is not live:
            self._tally = _Tally(self, live)
        return self._tally
