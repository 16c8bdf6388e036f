"""A pod in the queue, with the results of its attempts so far. Mirrors the framework's
QueuedPodInfo.
"""

from __future__ import annotations

from ..scheduling.model.pod_info import PodInfo
from .places import OUTSIDE

NO_PLUGINS: frozenset[str] = frozenset()


class Entry:
    """Owned by the queue. All times are monotonic seconds.

    - `timestamp`: when the pod came, or when its last attempt failed
    - `arrival`: a number that orders pods with equal sort keys
    - `first_attempt_at`: when the pod was first active, None if it never was
    - `rejections`: how many attempts ended with a rejection
    - `errors`: how many attempts ended with an error since the last rejection
    - `unschedulable`, `pending`: the plugins that rejected the last attempt, and those that wait
      for something to happen
    - `gated_by`: the PreEnqueue plugin that gates the pod
    - `gate_error`: the message of a PreEnqueue plugin that fails, "" if none does
    - `gate_reported_at`: when such a message was last due for a report
    - `flushed`: true if it was woken because it was parked for too long
    - `hold`: the number of the preemption that makes room for the pod, 0 for none
    - `nominated_node`: the node that the cache counts the pod on as nominated, "" for none
    """

    __slots__ = (
        "arrival",
        "attempts",
        "errors",
        "first_attempt_at",
        "flushed",
        "gate_error",
        "gate_reported_at",
        "gated_by",
        "hold",
        "info",
        "key",
        "nominated_node",
        "pending",
        "place",
        "rejections",
        "timestamp",
        "unschedulable",
    )

    def __init__(self, info: PodInfo, now: float, arrival: int) -> None:
        self.info = info
        self.key = info.key
        self.place = OUTSIDE
        self.timestamp = now
        self.arrival = arrival
        self.first_attempt_at: float | None = None
        self.attempts = 0
        self.rejections = 0
        self.errors = 0
        self.unschedulable = NO_PLUGINS
        self.pending = NO_PLUGINS
        self.gated_by = ""
        self.gate_error = ""
        self.gate_reported_at = now
        self.flushed = False
        self.hold = 0
        self.nominated_node = ""

    @property
    def scheduler(self) -> str:
        return self.info.pod.spec.scheduler_name

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose events may wake the pod. One of them suffices."""
        return self.unschedulable | self.pending if self.pending else self.unschedulable

    def failed(
        self, unschedulable: frozenset[str], pending: frozenset[str], now: float, arrival: int
    ) -> None:
        """Notes that an attempt failed. It was an error if no plugin rejected the pod."""
        self.unschedulable, self.pending = unschedulable, pending
        if unschedulable or pending:
            self.rejections, self.errors = self.rejections + 1, 0
        else:
            self.errors += 1
        self.flushed = False
        self.timestamp, self.arrival = now, arrival
