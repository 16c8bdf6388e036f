"""The back-off of failed daemon pods: the more of them fail on a node, the later each is replaced.

It keeps a daemon set from a quick fight with a kubelet that refuses or evicts its pods.
"""

from __future__ import annotations

from datetime import datetime, timedelta

FIRST, MOST = 1.0, 900.0  # seconds
_FORGOTTEN = timedelta(seconds=2 * MOST)


class FailedPods:
    """The delays of a daemon set by node and by generation of its spec."""

    def __init__(self) -> None:
        self._delays: dict[tuple[str, int], tuple[float, datetime]] = {}

    def wait(self, node: str, generation: int, now: datetime) -> float:
        """Returns the seconds for which a failed pod stays. For 0 it is deleted now, and
        counted.
        """
        place = node, generation
        delay, since = self._delays.get(place, (0.0, now))
        if now - since > _FORGOTTEN:
            delay = 0.0
        if now - since < timedelta(seconds=delay):
            return delay
        self._delays[place] = min(2 * delay, MOST) or FIRST, now
        return 0.0

    def forget(self, now: datetime) -> None:
        """Forgets the nodes where no pod failed for long."""
        if self._delays:
            self._delays = {
                place: delay
                for place, delay in self._delays.items()
                if now - delay[1] <= _FORGOTTEN
            }
