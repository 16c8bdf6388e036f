"""KeptAllocations: the NodeAllocations that are kept from pod to pod, as far as memory allows.

A namespace whose pods request much that is different must not push out what the pods of others use
again: of the namespace that keeps most, what was used longest ago is dropped first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from .node_allocations import NodeAllocations

MOST_SHAPES = 64
MOST_BYTES = 256 << 20
# What is kept grows while it is used, so it is measured again after so many pods.
PODS_BETWEEN = 64


class KeptAllocations:
    """NodeAllocations by shape, each kept by the namespace of the pod that needed it first."""

    def __init__(self) -> None:
        self._by_shape: OrderedDict[bytes, NodeAllocations] = OrderedDict()
        self._pods = 0

    def get(self, shape: bytes) -> NodeAllocations | None:
        """Returns the allocations for a shape, if they are kept, and notes their use."""
        self._pods += 1
        allocations = self._by_shape.get(shape)
        if allocations is not None:
            self._by_shape.move_to_end(shape)
        if self._pods % PODS_BETWEEN == 0 and self._by_shape:
            self._drop()
        return allocations

    def add(self, shape: bytes, allocations: NodeAllocations) -> None:
        self._by_shape[shape] = allocations
        self._by_shape.move_to_end(shape)
        self._drop()

    def clear(self) -> None:
        self._by_shape.clear()

    def _drop(self) -> None:
        """Drops what is too much, but not what was used last."""
        kept = self._by_shape
        *others, last = kept
        number: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for shape in others:
            number[kept[shape].namespace] += 1
            size[kept[shape].namespace] += kept[shape].size
        room = MOST_BYTES - kept[last].size
        while others:
            if size.total() > room:
                most = size
            elif len(kept) > MOST_SHAPES:
                most = number
            else:
                return
            namespace = max(most, key=most.__getitem__)
            shape = next(shape for shape in others if kept[shape].namespace == namespace)
            others.remove(shape)
            number[namespace] -= 1
            size[namespace] -= kept.pop(shape).size
