"""PreEnqueue plugins that fail: a failure gates the pod as a rejection does, but its user is told.

Told is each thing that a plugin says once, not each time that the pod is looked at; and only when
the cycle asks for a pod: the cycle of a standby does not, and a standby must write nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from berth.actors.failure import Stage, condition_and_event, failed
from berth.actors.messages import RecordEvent, SetUnschedulable
from berth.actors.queue.entry import Entry
from berth.actors.scheduling.framework.status import Code, Status, error

_ERROR = Code.ERROR  # looking a member up in its class is slow


class GateErrors:
    """Pods whose users are to be told."""

    def __init__(self) -> None:
        self.untold: dict[str, Entry] = {}

    def note(self, entry: Entry, status: Status) -> None:
        """What PreEnqueue said of the pod."""
        problem = status.message if status.code is _ERROR else ""
        if problem and problem != entry.gate_error:
            self.untold[entry.key] = entry
        entry.gate_error = problem

    def tell(self, entries: Mapping[str, Entry]) -> Iterator[SetUnschedulable | RecordEvent]:
        """What to write about those of the pods that are still among the entries; it counts as
        written.
        """
        untold, self.untold = self.untold, {}
        for key, entry in untold.items():
            if entry.gate_error and entries.get(key) is entry:
                failure = failed(Stage.GATE, error(entry.gate_error))
                yield from condition_and_event(entry.info.pod, failure)
