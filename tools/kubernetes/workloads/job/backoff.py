"""The back-off of a job: the more pods have failed in a row, the later the next one is created."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from ...objects.properties import condition_of
from ...objects.structs import ContainerStatus, Pod

FIRST, MOST = 10.0, 600.0  # seconds
EARLIEST = datetime.fromisoformat("1970-01-01T00:00:00Z")


class Failures:
    """The times of a job's failures since its last success, by the uids of the pods."""

    def __init__(self) -> None:
        self._failed: dict[str, datetime] = {}
        self._success = EARLIEST

    def note(self, succeeded: Iterable[Pod], failed: Iterable[Pod], now: datetime) -> None:
        """Notes pods that have ended by now; noting a pod again changes nothing."""
        for pod in succeeded:
            self._success = max(self._success, min(finish_time(pod), now))
        for pod in failed:
            self._failed.setdefault(pod.metadata.uid, min(finish_time(pod), now))
        late = {uid: time for uid, time in self._failed.items() if time > self._success}
        self._failed = late

    def wait(self, now: datetime) -> float:
        """Returns the seconds until the next pod may be created."""
        times = self._failed.values()
        return remaining(len(times), max(times), now) if times else 0.0


def remaining(failures: int, last: datetime, now: datetime) -> float:
    """Returns the seconds that are left of the delay after this number of failures."""
    if not failures:
        return 0.0
    delay = min(FIRST * 2.0 ** min(failures - 1, 10), MOST)
    return max(delay - (now - last).total_seconds(), 0.0)


def finish_time(pod: Pod) -> datetime:
    """Returns when a pod ended, as far as its containers, its condition or its deletion show it."""
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    status, metadata = pod.status, pod.metadata
    ends = _container_ends(
        [
            *status.container_statuses,
            *(each for each in status.init_container_statuses if each.name in sidecars),
        ]
    )
    if ends:
        return max(ends)
    ready = condition_of(status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return datetime.fromisoformat(ready.last_transition_time)
    if metadata.deletion_timestamp:
        grace = timedelta(seconds=metadata.deletion_grace_period_seconds or 0)
        return datetime.fromisoformat(metadata.deletion_timestamp) - grace
    return datetime.fromisoformat(metadata.creation_timestamp or EARLIEST.isoformat())


def _container_ends(statuses: Iterable[ContainerStatus]) -> list[datetime]:
    """Returns when the containers ended; nothing unless all have."""
    ends: list[datetime] = []
    for status in statuses:
        end = status.state.terminated
        if end is None or not end.finished_at:
            return []
        ends.append(datetime.fromisoformat(end.finished_at))
    return ends
