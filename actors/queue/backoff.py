"""The backoff queue: pods that wait after a failed attempt, ordered by the end of their wait.

Time is cut into windows of a second. Pods whose backoff ends in the same window are in QueueSort's
order. So the best pod still comes first when the active queue is empty and the scheduler takes a
pod from here. Pods whose attempt ended with an error are kept apart and are never taken early,
because their penalty protects the API server; so are pods that plugins activate again and again,
and large pods that wait for their turn. With `pops` off, no pod is taken early, and there are no
windows. Mirrors kube-scheduler's backoffQueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import floor, inf

from .entry import Entry
from .heap import KeyedHeap, Slot

WINDOW_SECONDS = 1.0
MOST_TURNS = 256  # large pods that may have their turn after one flush; most have to wait again


class Backoff:
    """The pods in backoff. `initial` is the penalty in seconds after the first failure. The penalty
    doubles with each failure, up to `longest`.
    """

    def __init__(
        self,
        initial: float,
        longest: float,
        sort_slot: Callable[[Entry], Slot],
        *,
        pops: bool = True,
    ) -> None:
        self._initial = initial
        self._longest = longest
        self._sort_slot = sort_slot
        self._pops = pops
        self._rejected: KeyedHeap[Entry] = KeyedHeap()
        self._erred: KeyedHeap[Entry] = KeyedHeap()
        self._deferred: KeyedHeap[Entry] = KeyedHeap()

    def use(self, initial: float, longest: float) -> None:
        """Uses other penalties from now on. Sorts the pods anew."""
        self._initial, self._longest = initial, longest
        for entry in list(self):
            self.put(entry)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._erred) + len(self._deferred)

    def __iter__(self) -> Iterator[Entry]:
        yield from self._rejected
        yield from self._erred
        yield from self._deferred

    def until(self, entry: Entry) -> float:
        """Returns the start of the window in which the backoff ends; without windows, its end.

        Consecutive errors are counted separately from rejections.
        """
        turn = self._window(entry.deferred_until) if entry.deferred_until else -inf
        failures = entry.errors or entry.rejections
        if not failures:
            return turn
        penalty = min(self._initial * 2.0 ** min(failures - 1, 62), self._longest)
        return max(turn, self._window(entry.timestamp + penalty))

    def holds(self, entry: Entry, now: float) -> bool:
        """True until the end of the window in which the pod's backoff ends."""
        waits = entry.errors or entry.rejections or entry.deferred_until
        return bool(waits) and self.until(entry) >= self._window(now)

    def left(self, entry: Entry, now: float) -> float:
        """Returns the seconds that the pod has to wait, or would have to if it were woken now."""
        return max(0.0, self.until(entry) + (WINDOW_SECONDS if self._pops else 0.0) - now)

    def put(self, entry: Entry) -> None:
        """Adds a pod. A pod that is here already is sorted again."""
        if entry.deferred_until:
            self._deferred.put(entry.key, (self.until(entry), float(entry.arrival)), entry)
        elif entry.rejectors and self._pops and not entry.restless:
            self._rejected.put(entry.key, (self.until(entry), *self._sort_slot(entry)), entry)
        else:
            self._erred.put(entry.key, (self.until(entry), float(entry.arrival)), entry)

    def remove(self, entry: Entry) -> None:
        for heap in (self._rejected, self._erred, self._deferred):
            if heap.remove(entry.key) is not None:
                return

    def first(self) -> Entry | None:
        """Returns the pod to take when no pod is active; None if there is none.

        It is neither a pod that backs off after an error, nor a large pod that waits for its turn.
        """
        top = self._rejected.peek()
        return None if top is None else top[1]

    def over(self, now: float) -> Iterator[Entry]:
        """Yields the pods whose backoff is over, in order. The caller removes each before it asks
        for the next.
        """
        for heap, most in (
            (self._rejected, inf),
            (self._erred, inf),
            (self._deferred, MOST_TURNS),
        ):
            number = 0
            while (top := heap.peek()) is not None and not self.holds(top[1], now):
                if number == most:
                    break
                number += 1
                yield top[1]

    def _window(self, time: float) -> float:
        """Returns the start of the window that contains a time; without windows, the time."""
        return floor(time / WINDOW_SECONDS) * WINDOW_SECONDS if self._pops else time

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        self._rejected.validate()
        self._erred.validate()
        self._deferred.validate()
