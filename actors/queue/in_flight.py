"""Pods that are handed out, and the events that came since, so that no wake-up is lost between
decision and parking.

The events are one list for all; each pod remembers where it began. Events that no pod in flight
needs are dropped. A pod whose attempt is Done needs no events any more, but stays until it is
bound, gone, or has failed. Mirrors the in-flight pods and events of kube-scheduler's activeQueue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from berth.actors.messages import ClusterChanged
from berth.actors.queue.entry import Entry
from berth.actors.scheduling.kube.core import Pod


class InFlight:
    """By uid, because a pod may be deleted and made again under its name while an attempt for it
    runs.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._latest: dict[str, Pod] = {}  # what the API server last said of a pod
        self._since: dict[str, int] = {}  # how many events had happened when the pod was handed out
        self._events: list[ClusterChanged] = []
        self._dropped = 0  # events that no pod needs any more

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, uid: str) -> Entry | None:
        """The pod of this uid, if it is handed out."""
        return self._entries.get(uid)

    def take_off(self, entry: Entry) -> None:
        """The pod is handed out: events count for it from now on."""
        uid = entry.info.uid
        self._entries[uid] = entry
        self._since[uid] = self._dropped + len(self._events)

    def remember(self, change: ClusterChanged) -> None:
        """Keep an event for the pods that are in flight, if there are any."""
        if self._since:
            self._events.append(change)

    def updated(self, pod: Pod) -> None:
        """The pod is no longer what it was when it was handed out."""
        self._latest[pod.metadata.uid] = pod

    def done(self, uid: str) -> None:
        """The attempt for this pod no longer needs events."""
        if self._since.pop(uid, None) is None:
            return
        # Pods are handed out in the order of `_since`, so the first one left is the one that needs
        # most.
        needed = next(iter(self._since.values()), self._dropped + len(self._events))
        if needed > self._dropped:
            del self._events[: needed - self._dropped]
            self._dropped = needed

    def land(self, uid: str) -> tuple[Entry, Pod | None, Sequence[ClusterChanged] | None] | None:
        """Take a pod out: with its latest version if there is a newer one, and the events since it
        was handed out.

        The events are None if it was Done: nobody knows what it missed. None for a pod that is not
        here.
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
        """How many events are kept, by their labels."""
        return Counter(str(change.event) for change in self._events)

    def validate(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        assert self._since.keys() <= self._entries.keys()
        assert self._latest.keys() <= self._entries.keys()
        assert self._since or not self._events, "events are kept for nobody"
        assert list(self._since.values()) == sorted(self._since.values())
