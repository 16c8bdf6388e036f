"""SelectedNodes: which nodes each of many selectors selects, as a row of bits for each selector.

A selector is asked about all nodes at once, and again only after a change of a label that it reads.
The work is in steps (see ../steps.py), because there may be ten thousand selectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.plugin import Bools, Ints, NodeView

from ...model.columns import NodeColumns
from ...model.label_column import LabelColumn
from ...model.snapshot import Snapshot

# Steps to ask a selector, to look up a label, and for each thousand nodes that a requirement reads.
SELECTOR_STEPS, LABEL_STEPS, NODES_STEPS = 20, 1, 4
_FIRST = 16  # slots


class Selection:
    """A selector in SelectedNodes. `match` takes a view and returns the selected nodes; `labels`
    are all labels that it reads; `steps` are its fixed cost, besides that of nodes.
    """

    __slots__ = ("labels", "match", "slot", "steps")

    def __init__(
        self, match: Callable[[NodeView], Bools], labels: Sequence[str], steps: int, slot: int
    ) -> None:
        self.match = match
        self.labels = tuple(labels)
        self.steps = steps
        self.slot = slot


class SelectedNodes:
    """The nodes that selectors select. Invariant: after `follow`, the bits of a selection are those
    of its nodes.
    """

    def __init__(self) -> None:
        self.version = 0
        self._bits: NDArray[np.uint8] = np.zeros((_FIRST, 0), dtype=np.uint8)
        self._free = list(range(_FIRST))
        self._selections: dict[Selection, None] = {}
        self._stale: dict[Selection, None] = {}
        self._readers: dict[str, dict[Selection, None]] = {}
        self._labels: dict[str, tuple[LabelColumn, int]] = {}  # the columns and versions in use
        self._source: tuple[NodeColumns, int] | None = None

    def add(
        self, match: Callable[[NodeView], Bools], labels: Sequence[str], steps: int
    ) -> Selection:
        """Adds a selector, which the next `follow` evaluates."""
        if not self._free:
            slots = len(self._bits)
            self._bits = np.concatenate((self._bits, np.zeros_like(self._bits)))
            self._free = list(range(slots, 2 * slots))
        selection = Selection(match, labels, steps, self._free.pop())
        self._selections[selection] = None
        for label in selection.labels:
            self._readers.setdefault(label, {})[selection] = None
        self._stale[selection] = None
        self._source = None
        return selection

    def drop(self, selection: Selection) -> None:
        self._free.append(selection.slot)
        del self._selections[selection]
        self._stale.pop(selection, None)
        for label in selection.labels:
            readers = self._readers[label]
            del readers[selection]
            if not readers:
                del self._readers[label]
                self._labels.pop(label, None)

    def follow(self, snapshot: Snapshot) -> Iterator[int]:
        """Evaluates the selectors that are new, or that read a changed label. Yields the steps
        after each part. Finished parts stay valid if nobody asks for the next one.
        """
        columns = snapshot.columns
        source = (columns, columns.node_changes.version)
        if self._source == source:
            return
        yield self._note_changes(columns)
        nodes = NodeView(snapshot, slice(0, len(columns.pods)))
        while self._stale:
            selection = next(iter(self._stale))
            self._bits[selection.slot] = np.packbits(selection.match(nodes))
            del self._stale[selection]
            self.version += 1
            of_nodes = NODES_STEPS * len(selection.labels) * nodes.size // 1000
            yield SELECTOR_STEPS + selection.steps + of_nodes
        self._source = source

    def _note_changes(self, columns: NodeColumns) -> int:
        """Marks the selectors that read changed labels, or all after a change of the number of
        rows. Returns the steps.
        """
        width = (len(columns.pods) + 7) // 8
        if self._bits.shape[1] != width:
            self._bits = np.zeros((len(self._bits), width), dtype=np.uint8)
            self._stale.update(self._selections)  # also those that read no label
        for label, readers in self._readers.items():
            column = columns.label(label)
            seen = (column, column.version)
            if self._labels.get(label) != seen:
                self._labels[label] = seen
                self._stale.update(readers)
        return LABEL_STEPS * len(self._readers)

    def any_of(self, slots: Ints, size: int) -> Bools:
        """Returns bool[size]: the rows of nodes that one of these selections selects."""
        bits = np.bitwise_or.reduce(self._bits[slots], axis=0)
        return np.unpackbits(bits, count=size).view(np.bool_)

    def at(self, slots: Ints, row: int) -> Ints:
        """Returns the places in `slots` of the selections that include the node of a row."""
        bits: Ints = (self._bits[slots, row >> 3] & (128 >> (row & 7))).nonzero()[0]
        return bits
