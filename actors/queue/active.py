"""The active pods: a heap in QueueSort's order, and one for each namespace that has to wait.

A namespace is paused while many of its bindings are being written. A namespace that has used its
share of the scheduler's time is behind: its pods come after those of others with the same priority.
So its pods do not hold back those of others. When a pod of such a namespace would be the next one,
it moves to the heap of its namespace and stays there: each pod moves at most once. While no other
namespace has pods, the heap as a whole becomes that of the namespace. kube-scheduler has nothing
like it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from .entry import Entry
from .heap import KeyedHeap, Slot


class ActivePods:
    """The active pods, by key. `behind` are the namespaces that have used their share."""

    def __init__(self) -> None:
        self._pods: KeyedHeap[Entry] = KeyedHeap()
        # The only namespace that has pods in `_pods`, None if that is not known.
        self._only: str | None = None
        self.behind: set[str] = set()
        self._paused: set[str] = set()
        # By namespace that is behind or paused, or was and has pods left.
        self._own: dict[str, KeyedHeap[Entry]] = {}

    def __len__(self) -> int:
        return len(self._pods) + sum(map(len, self._own.values()))

    def __iter__(self) -> Iterator[Entry]:
        """Yields the pods, in no particular order."""
        yield from self._pods
        for heap in self._own.values():
            yield from heap

    def put(self, key: str, slot: Slot, entry: Entry) -> None:
        """Adds a pod, or moves the pod of this key to the slot."""
        namespace = entry.namespace
        if self._own and namespace in self._own:
            self._pods.remove(key)
            self._own[namespace].put(key, slot, entry)
            return
        if not self._pods:
            self._only = namespace
        elif self._only != namespace:
            self._only = None
        self._pods.put(key, slot, entry)

    def peek(self) -> Entry | None:
        """Returns the next pod whose namespace is not paused; None if there is none."""
        top = self._pods.peek()
        if not self._own:
            return None if top is None else top[1]
        if top is not None and self._only is not None:
            own = self._own.get(self._only)
            if own is not None and not own:
                self._own[self._only], self._pods = self._pods, own
                top = None
        while top is not None and top[1].namespace in self._own:
            slot, entry = top
            self.put(entry.key, slot, entry)
            top = self._pods.peek()
        tops = [] if top is None else [top]
        for name, heap in self._own.items():
            if name not in self._paused and (own_top := heap.peek()) is not None:
                tops.append(own_top)
        if len(tops) < 2:
            return tops[0][1] if tops else None
        _, first = min(tops, key=_slot)
        if first.namespace not in self.behind:
            return first
        others = [
            (slot, entry)
            for slot, entry in tops
            if entry.namespace not in self.behind and entry.info.priority >= first.info.priority
        ]
        return min(others, key=_slot)[1] if others else first

    def remove(self, entry: Entry) -> None:
        own = self._own.get(entry.namespace)
        if own is None or own.remove(entry.key) is None:
            self._pods.remove(entry.key)
        elif not own:
            self._drop_empty(entry.namespace)

    def pause(self, namespace: str) -> None:
        self._paused.add(namespace)
        self._own.setdefault(namespace, KeyedHeap())

    def resume(self, namespace: str) -> None:
        self._paused.discard(namespace)
        self._drop_empty(namespace)

    def put_behind(self, namespace: str) -> None:
        if namespace not in self.behind:
            self.behind.add(namespace)
            self._own.setdefault(namespace, KeyedHeap())

    def put_back(self, namespace: str) -> None:
        """Ends the wait of a namespace behind the others, when its share is no longer used up."""
        self.behind.discard(namespace)
        self._drop_empty(namespace)

    def is_paused(self, namespace: str) -> bool:
        return namespace in self._paused

    def _drop_empty(self, namespace: str) -> None:
        waits = namespace in self._paused or namespace in self.behind
        if not waits and not self._own.get(namespace, True):
            del self._own[namespace]

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        self._pods.validate()
        only = self._only
        assert only is None or all(entry.namespace == only for entry in self._pods), only
        waiting = self._paused | self.behind
        assert waiting <= self._own.keys(), "a namespace that has to wait has no heap"
        for namespace, heap in self._own.items():
            heap.validate()
            assert heap or namespace in waiting, f"{namespace} has a heap without a need"
            assert all(entry.namespace == namespace for entry in heap), namespace


def _slot(top: tuple[Slot, Entry]) -> Slot:
    return top[0]
