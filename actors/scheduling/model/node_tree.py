"""The node tree: node names by zone, listed by taking one from each zone in turn.

Mirrors kube-scheduler's nodeTree. Nodes are filtered in the order of its list. If only some nodes
are filtered, the order therefore decides which nodes are considered. Zones keep the order in which
they appeared.
"""

from __future__ import annotations

from itertools import chain, zip_longest

from ..kube.core import Node
from ..kube.zone_keys import zone_of


class NodeTree:
    """Names by zone. add, remove and update cost at most O(size of a zone), `names` O(nodes)."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}

    def add(self, node: Node) -> None:
        self._zones.setdefault(zone_of(node), {})[node.metadata.name] = None

    def remove(self, node: Node) -> None:
        zone = zone_of(node)
        names = self._zones.get(zone, {})
        names.pop(node.metadata.name, None)
        if not names:
            self._zones.pop(zone, None)

    def update(self, old: Node, new: Node) -> bool:
        """Moves a node if its zone changed; returns True if it did."""
        if zone_of(old) == zone_of(new):
            return False
        self.remove(old)
        self.add(new)
        return True

    def names(self) -> list[str]:
        """Returns all names: the first of each zone, then the second of each zone, and so on."""
        turns = chain.from_iterable(zip_longest(*self._zones.values()))
        return [name for name in turns if name is not None]

    def __len__(self) -> int:
        return sum(map(len, self._zones.values()))
