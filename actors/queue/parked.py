"""The parked pods, indexed by the plugins that they wait for. The cost of an event grows only with
the pods whose plugins registered for it.

Used twice: for unschedulable pods, which any plugin that rejected them may wake, and for gated
pods, which are judged only on an event that the gating plugin registered for. Mirrors
kube-scheduler's unschedulablePods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..messages.queue import ClusterChanged
from ..scheduling.framework.events import Resource
from .entry import Entry
from .heap import KeyedHeap
from .hints import HintTable, Rejector


class ParkedPods:
    def __init__(self, hints: HintTable) -> None:
        self._hints = hints
        self._oldest: KeyedHeap[Entry] = KeyedHeap()
        self._rejectors: dict[str, tuple[Rejector, ...]] = {}
        self._waiting: dict[Rejector, dict[str, Entry]] = {}
        # The same pods by the keys of plugins that know which pods a change concerns.
        self._by_key: dict[tuple[Rejector, str], dict[str, Entry]] = {}
        self._keys: dict[str, list[tuple[Rejector, str]]] = {}
        self._unknown: set[Rejector] = set()  # those in _waiting that registered for no event

    def __len__(self) -> int:
        return len(self._rejectors)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._oldest)

    def put(self, entry: Entry, plugins: Iterable[str], since: float) -> None:
        """Parks a pod, or parks it anew. Events for `plugins` may wake it. `since` is when it was
        parked.
        """
        key, scheduler = entry.key, entry.scheduler
        self.remove(entry)
        self._oldest.put(key, (since,), entry)
        self._rejectors[key] = tuple((scheduler, plugin) for plugin in sorted(plugins))
        self._index(entry)

    def index_anew(self) -> None:
        """Indexes every pod by the plugins and events that the hint table has now."""
        for index in (self._waiting, self._by_key, self._keys, self._unknown):
            index.clear()
        entries = {entry.key: entry for entry in self}
        for key in self._rejectors:
            self._index(entries[key])

    def _index(self, entry: Entry) -> None:
        key, rejectors = entry.key, self._rejectors[entry.key]
        for rejector in rejectors:
            self._waiting.setdefault(rejector, {})[key] = entry
            if not self._hints.knows(rejector):
                self._unknown.add(rejector)
        self._keys[key] = [
            (rejector, name)
            for rejector in rejectors
            for name in self._hints.keys_of(rejector, entry.info.pod)
        ]
        for place in self._keys[key]:
            self._by_key.setdefault(place, {})[key] = entry

    def remove(self, entry: Entry) -> None:
        """Removes a pod if it is here."""
        key = entry.key
        if self._oldest.remove(key) is None:
            return
        for place in self._keys.pop(key):
            pods = self._by_key[place]
            del pods[key]
            if not pods:
                del self._by_key[place]
        for rejector in self._rejectors.pop(key):
            waiting = self._waiting[rejector]
            del waiting[key]
            if not waiting:
                del self._waiting[rejector]
                self._unknown.discard(rejector)

    def concerned(self, change: ClusterChanged) -> list[Entry]:
        """Returns the pods that a change may wake; per plugin, the longest waiting come first."""
        event = change.event
        if not self._rejectors:
            return []
        if event.resource is Resource.WILDCARD:
            return list(self)
        groups = [self._waiting[rejector] for rejector in sorted(self._unknown)]
        groups += [
            self._waiting_and_concerned(rejector, change)
            for rejector in self._hints.concerned(event)
            if rejector in self._waiting
        ]
        if len(groups) == 1:
            return list(groups[0].values())
        return list({key: entry for group in groups for key, entry in group.items()}.values())

    def _waiting_and_concerned(
        self, rejector: Rejector, change: ClusterChanged
    ) -> dict[str, Entry]:
        """Returns the pods that wait for a plugin and that a change concerns."""
        keys = self._hints.keys_of_change(rejector, change)
        if keys is None:
            return self._waiting[rejector]
        pods: dict[str, Entry] = {}
        for name in sorted(keys):
            pods |= self._by_key.get((rejector, name), {})
        return pods

    def longer_than(self, seconds: float, now: float) -> Iterator[Entry]:
        """Yields the pods that have been parked for more than this many seconds, the oldest first.

        The caller has to remove each pod, or park it anew, before it asks for the next.
        """
        while (top := self._oldest.peek()) is not None and now - top[0][0] > seconds:
            yield top[1]

    def of(self, rejector: Rejector) -> Iterable[Entry]:
        """Returns the pods that wait for a plugin."""
        return self._waiting.get(rejector, {}).values()

    def waiting(self) -> Mapping[Rejector, int]:
        """Returns how many pods wait for each plugin."""
        return {rejector: len(pods) for rejector, pods in self._waiting.items()}

    def validate(self) -> None:
        """Raises AssertionError if the index and the pods do not agree."""
        self._oldest.validate()
        assert {entry.key for entry in self} == self._rejectors.keys()
        for key, rejectors in self._rejectors.items():
            assert all(key in self._waiting[rejector] for rejector in rejectors), (
                f"{key} would miss events"
            )
        assert sum(map(len, self._waiting.values())) == sum(map(len, self._rejectors.values())), (
            "the index is stale"
        )
        assert sum(map(len, self._by_key.values())) == sum(map(len, self._keys.values()))
        assert self._unknown == {
            rejector for rejector in self._waiting if not self._hints.knows(rejector)
        }
