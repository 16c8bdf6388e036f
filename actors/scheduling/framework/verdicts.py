"""Verdicts: a filter's answer for many nodes at once, and the diagnosis of all filters together.

A filter gives a code and a key for each position of a view. The key stands for the reasons, and is
put into words only when somebody reads them. Each node keeps the first plugin that rejected it, as
Kubernetes reports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..model.snapshot import NodeView
from ..model.vectors import Bools, Ints, any_true, highest, lowest
from .status import SUCCESS, Code, Status

PASSES, _PENDING = int(Code.SUCCESS), int(Code.PENDING)
Explain = Callable[[int], tuple[str, ...]]


class Verdicts:
    """The verdicts for the positions of a view: codes int8[n] (Code.SUCCESS passes) and keys
    int64[n]; `explain(key)` gives the reasons.
    """

    __slots__ = ("codes", "explain", "keys")

    def __init__(self, codes: NDArray[np.int8], keys: Ints, explain: Explain) -> None:
        self.codes = codes
        self.keys = keys
        self.explain = explain

    @classmethod
    def rejecting(cls, rejected: Bools, code: Code, *reasons: str) -> Verdicts:
        """Returns the same code and reasons for every position where `rejected` is True."""
        codes = np.where(rejected, np.int8(code), np.int8(0))
        return cls(codes, np.zeros(len(rejected), dtype=np.int64), lambda _: reasons)


class _Tally:
    """The number of `live` positions that each filter rejected by each key, and with PENDING.
    `words` are the reasons of the filters and keys that were explained.
    """

    def __init__(self, diagnosis: Diagnosis, live: Bools) -> None:
        self.live = live
        self.keys: dict[int, dict[int, int]] = {}
        self.pending: dict[int, int] = {}
        self.words: dict[tuple[int, int], tuple[str, ...]] = {}
        for by in range(len(diagnosis.plugins)):
            rejected = diagnosis.keys[live & (diagnosis.by == by)]
            if not len(rejected):
                continue
            if highest(rejected) == lowest(rejected):
                self.keys[by] = {int(rejected[0]): len(rejected)}  # the usual case: no need to sort
            else:
                keys, counted = np.unique(rejected, return_counts=True)
                self.keys[by] = dict(zip(keys.tolist(), counted.tolist(), strict=True))
        waits = live & (diagnosis.codes == _PENDING)
        if any_true(waits):
            counted = np.bincount(diagnosis.by[waits])
            self.pending = {by: number for by, number in enumerate(counted.tolist()) if number}

    def count(self, diagnosis: Diagnosis, position: int, number: int) -> None:
        """Adds (+1) or removes (-1) the rejection of a position."""
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
    """The reasons why each node of a view passed or not, after all filters ran.

    `codes` int8[n]; `by` int16[n], the position in `plugins` of the filter that rejected the node,
    -1 if none did. `mark` is another object after each change, so that a reader can tell that
    nothing has changed.
    """

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.codes: NDArray[np.int8] = np.zeros(view.size, dtype=np.int8)
        self.by: NDArray[np.int16] = np.full(view.size, -1, dtype=np.int16)
        self.keys: Ints = np.zeros(view.size, dtype=np.int64)
        self.plugins: list[str] = []
        self._explain: list[Explain] = []
        self._place_of: dict[str, int] = {}
        self._words: dict[tuple[str, ...], int] = {}
        self._tally: _Tally | None = None
        self.mark: object = object()

    def copy(self) -> Diagnosis:
        copy = Diagnosis(self.view)
        copy.codes, copy.by, copy.keys = self.codes.copy(), self.by.copy(), self.keys.copy()
        copy.plugins, copy._explain = self.plugins.copy(), self._explain.copy()
        copy._place_of = self._place_of.copy()
        copy._words = self._words  # only ever added to, so both can use it
        return copy

    def add(self, plugin: str, verdicts: Verdicts) -> None:
        """Adds a filter's verdicts for the nodes that no earlier filter rejected."""
        newly = (self.codes == PASSES) & (verdicts.codes != PASSES)
        if not any_true(newly):
            return
        self._tally = None
        self.mark = object()
        self.codes[newly] = verdicts.codes[newly]
        self.by[newly] = len(self.plugins)
        self.keys[newly] = verdicts.keys[newly]
        self.plugins.append(plugin)
        self._explain.append(verdicts.explain)

    def put(self, position: int, status: Status) -> None:
        """Replaces the status of the node at a position of the view."""
        self.mark = object()
        if self._tally is not None:
            self._tally.count(self, position, -1)
        self.codes[position] = status.code
        if status.ok:
            self.by[position] = -1
            return
        by = self._place_of.setdefault(status.plugin, len(self.plugins))
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
        """Returns the status of the node at a position of the view."""
        by = int(self.by[position])
        if by < 0:
            return SUCCESS
        reasons = self._explain[by](int(self.keys[position]))
        return Status(Code(int(self.codes[position])), reasons, self.plugins[by])

    def distinct(self, live: Bools) -> tuple[list[str], list[int], list[Status]]:
        """Returns three lists: the names of the `live` nodes, for each of them the position of its
        status in the third list, and the distinct statuses.
        """
        positions = np.flatnonzero(live)
        rows = positions if isinstance(self.view.rows, slice) else self.view.rows[positions]
        names = list(map(self.view.columns.names.__getitem__, rows.tolist()))
        _, keys = np.unique(self.keys[positions], return_inverse=True)
        combined = keys * (len(self.plugins) + 1) + self.by[positions] + 1
        combined = combined * (1 << 8) + self.codes[positions]
        _, firsts, inverse = np.unique(combined, return_index=True, return_inverse=True)
        statuses = [self.status(int(position)) for position in positions[firsts]]
        return names, inverse.tolist(), statuses

    def reasons(self, live: Bools) -> Counter[str]:
        """Returns how many of the `live` positions were rejected for each reason; explains each
        distinct key once.
        """
        counts: Counter[str] = Counter()
        tally = self._tally_of_live(live)
        for by, numbers in tally.keys.items():
            for key, number in numbers.items():
                words = tally.words[by, key] = self._explain[by](key)
                for reason in words:
                    counts[reason] += number
        return counts

    def words(self, live: Bools) -> dict[tuple[int, int], tuple[str, ...]]:
        """Returns a copy of the reasons by filter (its position in `plugins`) and key. It has at
        least those of the `live` positions.
        """
        tally = self._tally
        if tally is None or not tally.words:
            self.reasons(live)
            tally = self._tally_of_live(live)
        return tally.words.copy()

    def pending_plugins(self, live: Bools) -> frozenset[str]:
        """Returns the plugins that rejected a `live` position with PENDING."""
        return frozenset(self.plugins[by] for by in self._tally_of_live(live).pending)

    def rejecting_plugins(self, live: Bools) -> frozenset[str]:
        """Returns the plugins that rejected at least one of the `live` positions."""
        return frozenset(self.plugins[by] for by in self._tally_of_live(live).keys)

    def _tally_of_live(self, live: Bools) -> _Tally:
        """Returns the tally of the `live` positions, which is counted at the first call and then
        updated.
        """
        if self._tally is None or self._tally.live is not live:
            self._tally = _Tally(self, live)
        return self._tally
