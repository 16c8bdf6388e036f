"""The turns of large pods. A pod whose template has thousands of terms, volumes or ports may take
half a second to decide, and a user may create a hundred of them, all different. So what the large
pods of a namespace take is limited to a share of the time: while they have taken more, they wait in
backoff, and other pods are tried. kube-scheduler has nothing like it. Pure.
"""

from __future__ import annotations

from .entry import Entry

SHARE = 0.2  # of the time, for the large pods of one namespace
SAVED = 0.5  # seconds that a namespace may take at once, if it has taken none for a while
MOST_CHARGED = 10.0  # seconds for one attempt
MOST_NAMESPACES = 1024


class Turns:
    """The time that attempts at large pods have taken, by namespace."""

    def __init__(self) -> None:
        # By namespace: until when it has used its share up.
        self._used_until: dict[str, float] = {}
        self._attempt: tuple[str, float] | None = None  # its namespace, and when it began

    def waits_until(self, entry: Entry, now: float) -> float:
        """Returns the time at which the pod may be tried; `now` or earlier if that is at once."""
        if not entry.info.template.is_large:
            return now
        return self._used_until.get(entry.namespace, now) - SAVED / SHARE

    def began(self, entry: Entry, now: float) -> None:
        """Notes that a pod was handed out."""
        if entry.info.template.is_large:
            self._attempt = entry.namespace, now

    def ended(self, now: float) -> None:
        """Notes that the cycle is ready for the next pod."""
        if self._attempt is None:
            return
        namespace, began = self._attempt
        self._attempt = None
        used, seconds = self._used_until, min(now - began, MOST_CHARGED)
        used[namespace] = max(used.pop(namespace, now), now) + seconds / SHARE
        if len(used) > MOST_NAMESPACES:
            # The one that was charged longest ago.
            del used[next(iter(used))]
