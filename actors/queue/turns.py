"""The shares of the namespaces in the scheduler's time. Other pods wait for what these take:

- All attempts. While they have taken more than its share, the pods of a namespace come after those
  of others with the same priority.
- Attempts at large pods. A pod whose template has thousands of terms, volumes or ports may take
  half a second to decide, and a user may create a hundred of them, all different. While the large
  pods of a namespace have taken more than their share, they wait in backoff.
- Hints about parked pods. Thousands of events in a second may each be judged for hundreds of pods.
  While the hints about a namespace's pods have taken more than their share, an event that may
  concern one of them moves it to backoff unjudged, and no event is judged for it there.

kube-scheduler has nothing like it. Pure.
"""

from __future__ import annotations

from .entry import Entry

SHARE = 0.2  # of the time, for one namespace
SAVED = 0.5  # seconds that a namespace may take at once, if it has taken none for a while
AHEAD = SAVED / SHARE  # seconds in which that much is saved
MOST_CHARGED = 10.0  # seconds at once
MOST_NAMESPACES = 1024


class Shares:
    """The time that each namespace has used."""

    def __init__(self) -> None:
        # By namespace: until when it has used its share up.
        self._used_until: dict[str, float] = {}

    def waits_until(self, namespace: str, now: float) -> float:
        """Returns when the namespace may use more time; `now` or earlier for at once."""
        return self._used_until.get(namespace, now) - AHEAD

    def charge(self, namespace: str, seconds: float, now: float) -> bool:
        """Notes that the namespace took this long. Returns True if its share is used up."""
        used = self._used_until
        until = used.pop(namespace, now)
        if until < now:
            until = now
        until += min(seconds, MOST_CHARGED) / SHARE
        used[namespace] = until
        if len(used) > MOST_NAMESPACES:
            # The one that was charged longest ago.
            del used[next(iter(used))]
        return until - AHEAD > now


class Turns:
    """The shares of the namespaces: in all attempts, and in attempts at large pods."""

    def __init__(self) -> None:
        self._all = Shares()
        self._large = Shares()
        self._attempt: tuple[Entry, float] | None = None  # and when it began

    def waits_until(self, entry: Entry, now: float) -> float:
        """Returns when the pod may be tried; `now` or earlier for at once."""
        if not entry.info.template.is_large:
            return now
        return self._large.waits_until(entry.namespace, now)

    def used_up(self, namespace: str, now: float) -> bool:
        """True while the attempts for the namespace have taken more than its share."""
        return self._all.waits_until(namespace, now) > now

    def began(self, entry: Entry, now: float) -> None:
        """Records that a pod was handed out."""
        self._attempt = entry, now

    def ended(self, now: float) -> str:
        """Records that the cycle is ready for the next pod. Returns the namespace of the last pod
        if its share is now used up, otherwise "".
        """
        if self._attempt is None:
            return ""
        entry, began = self._attempt
        self._attempt = None
        seconds = now - began
        if entry.info.template.is_large:
            self._large.charge(entry.namespace, seconds, now)
        return entry.namespace if self._all.charge(entry.namespace, seconds, now) else ""
