"""The heap with keys."""

from __future__ import annotations

from berth.actors.queue.heap import KeyedHeap


def test_moved_and_removed_values_do_not_make_the_heap_grow() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    for number in range(1000):
        heap.put("moving", (float(-number),), "v")
        heap.put("short-lived", (float(number),), "v")
        heap.remove("short-lived")
        heap.validate()
    assert heap.peek() == ((-999.0,), "v")
    assert len(heap) == 1
    assert (heap.remove("moving"), heap.remove("moving"), len(heap)) == ("v", None, 0)
    heap.validate()
