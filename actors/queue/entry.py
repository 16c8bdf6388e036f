"""A pod in the queue, with what its attempts so far have taught. Mirrors the framework's
QueuedPodInfo.
"""

from __future__ import annotations

from berth.actors.scheduling.model.pod_info import PodInfo

NOBODY: frozenset[str] = frozenset()


class Entry:
    """Owned by the queue. `timestamp` is when the pod came, or when its last attempt failed.

    `rejections` counts the attempts that ended with a rejection, `errors` those that ended with an
    error since the last rejection. `unschedulable` and `pending` are the plugins that rejected the
    last attempt, `gated_by` the PreEnqueue plugin that keeps the pod out, `gate_error` how it
    fails, "" if it does not. `hold` is the number of the preemption that makes room for the pod, 0
    if there is none. `nominated_node` is the node that the cache was last told the pod is nominated
    to, "" for none.
    """

    __slots__ = (
        "arrival",
        "attempts",
        "errors",
        "first_attempt_at",
        "gate_error",
        "gated_by",
        "hold",
        "info",
        "nominated_node",
        "pending",
        "place",
        "rejections",
        "timestamp",
        "unschedulable",
    )

    def __init__(self, info: PodInfo, now: float, arrival: int) -> None:
        self.info = info
        self.timestamp = now
        self.arrival = arrival
        self.first_attempt_at: float | None = None
        self.attempts = 0
        self.rejections = 0
        self.errors = 0
        self.unschedulable = NOBODY
        self.pending = NOBODY
        self.gated_by = ""
        self.gate_error = ""
        self.hold = 0
        self.nominated_node = ""
        self.place = ""

    @property
    def key(self) -> str:
        return self.info.key

    @property
    def scheduler(self) -> str:
        return self.info.pod.spec.scheduler_name

    @property
    def rejectors(self) -> frozenset[str]:
        """Every plugin that an event must satisfy before the pod is worth another attempt: any one
        of them.
        """
        return self.unschedulable | self.pending if self.pending else self.unschedulable

    def failed(
        self, unschedulable: frozenset[str], pending: frozenset[str], now: float, arrival: int
    ) -> None:
        """An attempt has ended; without plugins that rejected it, it was an error."""
        self.unschedulable, self.pending = unschedulable, pending
        if unschedulable or pending:
            self.rejections, self.errors = self.rejections + 1, 0
        else:
            self.errors += 1
        self.timestamp, self.arrival = now, arrival
