"""How attempts end: with a line in the log, and with what the queue and the recorder are sent.

The scheduling cycle and the binding cycle both end attempts, and do it here.
"""

from __future__ import annotations

from berth.actors import pod_events
from berth.actors.failure import Failure, condition_and_event, requeue
from berth.actors.instruments.instruments import Instruments
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages import QueuedPod
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.logs import Result, get_logger, log_attempt
from berth.actors.scheduling.framework.measuring import Record

log = get_logger(__name__)


class Attempts:
    """Each attempt `started` at a time in monotonic seconds."""

    def __init__(self, mailboxes: Mailboxes, clock: Clock, instruments: Instruments) -> None:
        self._queue = mailboxes.queue
        self._recorder = mailboxes.recorder
        self._clock = clock
        self._instruments = instruments
        self._log = log.bind()  # once, and not for each pod

    def scheduled(self, queued: QueuedPod, node: str, started: float, record: Record) -> None:
        """The pod is bound to the node."""
        info, seconds = queued.info, self._clock.now() - started
        self._instruments.attempt_ended(info.pod.spec.scheduler_name, Result.SCHEDULED, started)
        self._instruments.scheduled(queued)
        record.end(Result.SCHEDULED, node)
        log_attempt(self._log, info.key, Result.SCHEDULED, queued.attempts, seconds, node=node)
        self._recorder.tell(pod_events.scheduled(info.pod, node))

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
        """The pod goes back to the queue, and its user reads why, unless somebody else bound it
        meanwhile. `node` is the one that was chosen, if the attempt came that far.
        """
        result = Result.ERROR if failure.is_error else Result.UNSCHEDULABLE
        profile = queued.info.pod.spec.scheduler_name
        self._instruments.attempt_ended(profile, result, started)
        record.end(result, node)
        log_attempt(
            self._log,
            queued.info.key,
            result,
            queued.attempts,
            self._clock.now() - started,
            node=node,
            reason=failure.message,
        )
        self._queue.tell(requeue(queued, failure))
        if not bound_elsewhere:
            for order in condition_and_event(queued.info.pod, failure):
                self._recorder.tell(order)
