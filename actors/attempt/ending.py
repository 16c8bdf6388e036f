"""The observation of attempts, by the log, the instruments and the flight recorder; and their ends,
which are sent to the queue and the recorder.

The scheduling cycle, the binding cycle and the preemption all note here what becomes of an attempt.
The lines of the steps before the end need verbosity STEPS. The lines of the ends have
kube-scheduler's messages, and the results of its metric `schedule_attempts_total`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..mailboxes import Mailboxes
from ..messages.binding import Placement
from ..messages.queue import AttemptFailed, Failure, QueuedPod
from ..runtime.clock import Clock
from ..scheduling.decision.outcome import Outcome
from ..scheduling.decision.scheduler import NO_NODES
from ..scheduling.framework.logger import get_logger
from ..scheduling.framework.measuring import Record
from ..scheduling.model.pod_info import PodInfo
from ..telemetry.instruments import Instruments
from . import pod_events
from .failure import condition_and_event
from .flights import FlightRecorder

log = get_logger(__name__)

ENDED, BEGUN, STEPS = 2, 3, 4  # the verbosities of the lines
SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"  # the results of attempts


class Attempts:
    """The attempts of all pods. Times are monotonic seconds. `flights` is an observer of the
    scheduler too.
    """

    def __init__(
        self,
        mailboxes: Mailboxes,
        clock: Clock,
        instruments: Instruments,
        flights: FlightRecorder | None = None,
    ) -> None:
        self._queue = mailboxes.queue
        self._recorder = mailboxes.recorder
        self._clock = clock
        self.instruments = instruments
        self._flights = flights
        self._log = log.bind()  # once, and not for each pod
        self._level = self._log.level()

    def begun(self, queued: QueuedPod, started: float) -> Record:
        """Records that the queue has handed out the pod. Returns the record of the attempt."""
        info = queued.info
        profile = info.pod.spec.scheduler_name
        if self._level.verbosity >= BEGUN:
            self._log.at(
                BEGUN,
                "Attempting to schedule pod",
                pod=info.key,
                profile=profile,
                attempt=queued.attempts,
            )
        return self.instruments.attempt(info, profile, started)

    def decided(self, queued: QueuedPod, outcome: Outcome, started: float, began: float) -> None:
        """Notes the outcome of a decision that began at `began`, with the snapshot; must be called
        before the snapshot is given back.
        """
        now = self._clock.now()
        self.instruments.decided(started, began, now)
        if self._flights is not None:
            self._flights.add(queued, outcome, started, now)

    @property
    def tells_steps(self) -> bool:
        """True if the log shows the steps of an attempt."""
        return self._level.verbosity >= STEPS

    def step(self, queued: QueuedPod, event: str, **fields: object) -> None:
        """Logs a step of an attempt, if the log shows steps."""
        if self.tells_steps:
            attempt = queued.attempts
            self._log.at(STEPS, event, pod=queued.info.key, **fields, attempt=attempt)

    def nominated(self, queued: QueuedPod, node: str, victims: int) -> None:
        """Records that pods on the node are to make room for the pod."""
        self._log.at(
            ENDED,
            "the target node for the preemption is determined",
            node=node,
            pod=queued.info.key,
            victims=victims,
            attempt=queued.attempts,
        )

    def scheduled(self, placement: Placement) -> None:
        """Records that the pod is bound to the node."""
        queued, node, now = placement.pod, placement.node, self._clock.now()
        info, seconds = queued.info, now - placement.started
        self.instruments.attempt_ended(info.pod.spec.scheduler_name, SCHEDULED, seconds)
        self.instruments.scheduled(queued, now)
        if self._level.verbosity >= ENDED:
            self._log.at(
                ENDED,
                "Successfully bound pod to node",
                pod=info.key,
                node=node,
                evaluatedNodes=placement.evaluated,
                feasibleNodes=placement.feasible,
                **_end(SCHEDULED, queued, seconds),
            )
        self._recorder.tell(pod_events.scheduled_event(info.pod, node))

    def failed(
        self,
        queued: QueuedPod,
        failure: Failure,
        started: float,
        record: Record,
        node: str = "",
        *,
        bound_elsewhere: bool = False,
    ) -> None:
        """Returns the pod to the queue and the reason to its user, unless another scheduler bound
        it meanwhile. `node` is the chosen node, if the attempt came that far.
        """
        result = ERROR if failure.is_error else UNSCHEDULABLE
        profile, seconds = queued.info.pod.spec.scheduler_name, self._clock.now() - started
        self.instruments.attempt_ended(profile, result, seconds)
        record.end(result, node)
        if node:
            self.failed_later(queued.info, queued.attempts, node, failure.message)
        if failure.is_error or self._level.verbosity >= ENDED:
            self._log_failure(queued, failure, node, _end(result, queued, seconds))
        self._queue.tell(AttemptFailed(queued, failure))
        if not bound_elsewhere:
            for order in condition_and_event(queued.info.pod, failure):
                self._recorder.tell(order)

    def failed_later(self, info: PodInfo, attempt: int, node: str, message: str) -> None:
        """Records that an attempt of this number failed on the chosen node after the decision."""
        if self._flights is not None:
            self._flights.failed(info, attempt, node, message)

    def _log_failure(
        self, queued: QueuedPod, failure: Failure, node: str, end: Mapping[str, object]
    ) -> None:
        why = {"node": node} if node else {}
        why["error"] = failure.message
        if failure.is_error:
            event = "Error scheduling pod; retrying"
            self._log.error(event, pod=queued.info.key, **why, **end)
            return
        event = "Unable to schedule pod; no fit; waiting"
        if failure.message == NO_NODES:
            event = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
            why = {}
        self._log.at(ENDED, event, pod=queued.info.key, **why, **end)


def _end(result: str, queued: QueuedPod, seconds: float) -> Mapping[str, object]:
    """Returns the last fields of an attempt's line. `seconds` counts from the moment in which the
    queue handed the pod out.
    """
    return {"result": result, "attempt": queued.attempts, "seconds": round(seconds, 6)}
