"""The pods in flight, and the events since they were handed out, so that no event is lost between a
decision and the parking of its pod.

There is one list of events for all pods; each pod remembers where it began. Events that no pod in
flight needs are dropped. A pod whose attempt is Done needs no more events, but stays here until it
is bound, deleted, or has failed. Mirrors the in-flight pods and events of kube-scheduler's
activeQueue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..messages.queue import ClusterChanged
from ..scheduling.kube.core import Pod
from .entry import Entry

POD_POPPED = "PodPopped"


class InFlight:
    """The pods in flight by uid, as a pod may be created again during its attempt."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._latest: dict[str, Pod] = {}  # by uid: the pod, if it changed in flight
        # By uid: the number of events before the pod was handed out.
        self._since: dict[str, int] = {}
        self._events: list[ClusterChanged] = []
        self._dropped = 0  # how many events were dropped because no pod needs them

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, uid: str) -> Entry | None:
        """Returns the pod of this uid; None if it is not in flight."""
        return self._entries.get(uid)

    def take_off(self, entry: Entry) -> None:
        """Adds a pod that is handed out. Later events are kept for it."""
        uid = entry.info.uid
        self._entries[uid] = entry
        self._since[uid] = self._dropped + len(self._events)

    def remember(self, change: ClusterChanged) -> None:
        """Keeps an event if a pod in flight needs events."""
        if self._since:
            self._events.append(change)

    def updated(self, pod: Pod) -> None:
        """Stores a newer version of a pod."""
        self._latest[pod.metadata.uid] = pod

    def done(self, uid: str) -> None:
        """Stops keeping events for this pod."""
        if self._since.pop(uid, None) is None:
            return
        # `_since` is in the order in which pods were handed out. So the first pod that is left
        # needs the oldest events.
        needed = next(iter(self._since.values()), self._dropped + len(self._events))
        if needed > self._dropped:
            del self._events[: needed - self._dropped]
            self._dropped = needed

    def land(self, uid: str) -> tuple[Entry, Pod | None, Sequence[ClusterChanged] | None] | None:
        """Removes a pod. Returns it with its newer version, if there is one, and the events since
        it was handed out; None if it is not in flight.

        The events are None if the pod was Done, because they were not kept.
        """
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        since = self._since.get(uid)
        missed = None
        if since is not None:
            missed = self._events[since - self._dropped :]
            self.done(uid)
        return entry, self._latest.pop(uid, None), missed

    def events(self) -> Mapping[str, int]:
        """Returns the number of kept events by label, and the number of pods as PodPopped."""
        kept = Counter(str(change.event) for change in self._events)
        return {**kept, POD_POPPED: len(self._since)}

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        assert self._since.keys() <= self._entries.keys()
        assert self._latest.keys() <= self._entries.keys()
        assert self._since or not self._events, "events are kept that no pod needs"
        assert list(self._since.values()) == sorted(self._since.values())
