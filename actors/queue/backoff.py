"""The backoff queue: pods that wait out their penalty, the first whose penalty ends first.

Time is cut into windows of a second: the pods whose backoff ends in the same window are in
QueueSort's order, so that an empty active queue, which takes its next pod from here, still takes
the best one. Pods that failed with an error (their penalty protects the API server, not the
scheduler's time) are kept apart and never taken early. Mirrors kube-scheduler's backoffQueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import floor, inf

from berth.actors.queue.entry import Entry
from berth.actors.queue.heap import KeyedHeap, Slot

WINDOW_SECONDS = 1.0


class Backoff:
    def __init__(self, initial: float, longest: float, sort_slot: Callable[[Entry], Slot]) -> None:
        self._initial = initial
        self._longest = longest
        self._sort_slot = sort_slot
        self._rejected: KeyedHeap[Entry] = KeyedHeap()
        self._erred: KeyedHeap[Entry] = KeyedHeap()

    def __len__(self) -> int:
        return len(self._rejected) + len(self._erred)

    def __iter__(self) -> Iterator[Entry]:
        yield from self._rejected
        yield from self._erred

    def until(self, entry: Entry) -> float:
        """The window in which the pod's backoff ends; errors in a row count apart from
        rejections.
        """
        failures = entry.errors or entry.rejections
        if not failures:
            return -inf
        penalty = min(self._initial * 2.0 ** min(failures - 1, 62), self._longest)
        return window(entry.timestamp + penalty)

    def holds(self, entry: Entry, now: float) -> bool:
        """True while the pod must wait: until the window in which its backoff ends is over."""
        return bool(entry.errors or entry.rejections) and self.until(entry) >= window(now)

    def left(self, entry: Entry, now: float) -> float:
        """How many seconds the pod must wait, or would have to if it were woken now."""
        return max(0.0, self.until(entry) + WINDOW_SECONDS - now)

    def put(self, entry: Entry) -> None:
        """Put a pod in, or where it belongs if it is here already."""
        if entry.rejectors:
            self._rejected.put(entry.key, (self.until(entry), *self._sort_slot(entry)), entry)
        else:
            self._erred.put(entry.key, (self.until(entry), float(entry.arrival)), entry)

    def remove(self, entry: Entry) -> None:
        if self._rejected.remove(entry.key) is None:
            self._erred.remove(entry.key)

    def first(self) -> Entry | None:
        """The pod to take when there is no active one; never one that failed with an error."""
        top = self._rejected.peek()
        return None if top is None else top[1]

    def over(self, now: float) -> Iterator[Entry]:
        """The pods whose backoff is over, in order; each must be removed before the next is asked
        for.
        """
        for heap in (self._rejected, self._erred):
            while (top := heap.peek()) is not None and not self.holds(top[1], now):
                yield top[1]


def window(time: float) -> float:
    """The start of the window that a time is in."""
    return floor(time / WINDOW_SECONDS) * WINDOW_SECONDS
