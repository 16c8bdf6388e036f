"""The failures of PreEnqueue plugins. A failure gates the pod like a rejection, but is reported to
the user.

Each message of a plugin is reported once, not each time that the plugin is asked. It is reported
only when the cycle asks for a pod: the cycle of a standby does not ask, and a standby must write
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..attempt.failure import Stage, condition_and_event, failed
from ..messages.recorder import RecordEvent, SetUnschedulable
from ..scheduling.framework.status import Code, Status, error
from .entry import Entry

REPORT_SECONDS = 60.0
_ERROR = Code.ERROR  # Looking up a member of an enum in its class is slow.


class GateErrors:
    """The gate errors to report. `unreported` are the pods with such errors, by key."""

    def __init__(self) -> None:
        self.unreported: dict[str, Entry] = {}

    def note(self, entry: Entry, status: Status, now: float) -> None:
        """Notes the answer of PreEnqueue for the pod.

        A message that differs from the last one waits for REPORT_SECONDS: the report changes the
        pod, which makes the queue ask again, and a message may differ each time.
        """
        problem = status.message if status.code is _ERROR else ""
        if problem and problem != entry.gate_error:
            reported = entry.gate_error and entry.key not in self.unreported
            if reported and now - entry.gate_reported_at < REPORT_SECONDS:
                return
            self.unreported[entry.key] = entry
            entry.gate_reported_at = now
        entry.gate_error = problem

    def report(self, entries: Mapping[str, Entry]) -> Iterator[SetUnschedulable | RecordEvent]:
        """Yields the messages that report the gate errors of the unreported pods that are still in
        `entries`. These pods count as reported from now on.
        """
        unreported, self.unreported = self.unreported, {}
        for key, entry in unreported.items():
            if entry.gate_error and entries.get(key) is entry:
                failure = failed(Stage.GATE, error(entry.gate_error))
                yield from condition_and_event(entry.info.pod, failure)
