"""A pod in the queue, with the results of its attempts so far. Mirrors the framework's
QueuedPodInfo.
"""

from __future__ import annotations

import msgspec

from ..messages.queue import NO_PLUGINS, Place
from ..scheduling.framework.status import SUCCESS, Status
from ..scheduling.model.pod_info import PodInfo
from .places import OUTSIDE


class Entry(msgspec.Struct, eq=False):
    """Owned by the queue. All times are monotonic seconds.

    - `timestamp`: when the pod came, or when its last attempt failed
    - `arrival`: a number that orders pods with equal sort keys
    - `first_attempt_at`: when the pod was first active, None if it never was
    - `rejections`: how many attempts ended with a rejection
    - `errors`: how many attempts ended with an error since the last rejection
    - `unschedulable`, `pending`: the plugins that rejected the last attempt, and those that wait
      for something to happen
    - `gated_by`: the PreEnqueue plugin that gates the pod
    - `gate`: the answer of the PreEnqueue plugin that gates the pod, success if none does
    - `gate_reported`: the answer of a PreEnqueue plugin that was last due for a report
    - `gate_reported_at`: when it was
    - `activations`: how many activations in a row skipped the backoff of the pod
    - `activated_at`: when the last activation came that skipped it, or would have
    - `restless`: true if it was activated too often in a row, so that it backs off to the end
    - `activations_reported_at`: when it was last due for a report that they are in vain
    - `activated_for`, `activated_at_pod`: the plugins that activated the pod last, and the pod in
      whose attempt they did
    - `flushed`: true if it was woken because it was parked for too long
    - `hold`: the number of the preemption that makes room for the pod, 0 for none
    - `deferred_until`: when a large pod may have its turn, 0 unless it waits for one
    - `had_node`: true if the last attempt chose a node, and a plugin rejected the pod there
    - `skips`: how often each hint skipped each event ("plugin: event") since the last attempt
    - `nominated_node`: the node that the cache counts the pod on as nominated, "" for none
    """

    info: PodInfo
    timestamp: float
    arrival: int
    key: str = ""
    namespace: str = ""
    place: Place = OUTSIDE
    first_attempt_at: float | None = None
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    unschedulable: frozenset[str] = NO_PLUGINS
    pending: frozenset[str] = NO_PLUGINS
    gated_by: str = ""
    gate: Status = SUCCESS
    gate_reported: Status = SUCCESS
    gate_reported_at: float = 0.0
    activations: int = 0
    activated_at: float = 0.0
    activations_reported_at: float = 0.0
    restless: bool = False
    activated_for: str = ""
    activated_at_pod: str = ""
    flushed: bool = False
    hold: int = 0
    deferred_until: float = 0.0
    had_node: bool = False
    skips: dict[str, int] = {}
    nominated_node: str = ""

    def __post_init__(self) -> None:
        self.key = self.info.key
        self.namespace = self.info.pod.metadata.namespace

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
