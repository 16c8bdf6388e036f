"""Reports to users about the pods that PreEnqueue plugins gate.

A plugin that fails gates the pod like one that rejects it. Both are told by a condition and an
event; kube-scheduler tells neither. Of scheduling gates the API server tells by the same condition,
and a pod whose ResourceClaim is missing is mostly gated for a moment only, so nothing is written
about these.

Each answer of a plugin is reported once, not each time that the plugin is asked. It is reported
only when the cycle asks for a pod: the cycle of a standby does not ask, and a standby must write
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..attempt.failure import Stage, condition_and_event, failed_at_stage
from ..messages.recorder import RecordEvent, SetUnschedulable
from ..scheduling.framework.status import Code, Status
from .entry import Entry

REPORT_SECONDS = 60.0
NOT_REPORTED = frozenset({"SchedulingGates", "DynamicResources"})  # rejections by these plugins
_ERROR = Code.ERROR  # Looking up a member of an enum in its class is slow.


class GateReports:
    """The gates to report. `unreported` are the pods with such gates, by key."""

    def __init__(self) -> None:
        self.unreported: dict[str, Entry] = {}

    def note(self, entry: Entry, status: Status, now: float) -> None:
        """Records the answer of PreEnqueue for the pod.

        An answer that differs from the last one waits for REPORT_SECONDS: the report changes the
        pod, which makes the queue ask again, and an answer may differ each time.
        """
        entry.gate = status
        if status.ok:
            entry.gate_reported = status
        if not _concerns_users(status) or status == entry.gate_reported:
            return
        reported = not entry.gate_reported.ok and entry.key not in self.unreported
        if reported and now - entry.gate_reported_at < REPORT_SECONDS:
            return
        self.unreported[entry.key] = entry
        entry.gate_reported, entry.gate_reported_at = status, now

    def report(self, entries: Mapping[str, Entry]) -> Iterator[SetUnschedulable | RecordEvent]:
        """Yields the messages that report the gates of the unreported pods that are still in
        `entries`. These pods count as reported from now on.
        """
        unreported, self.unreported = self.unreported, {}
        for key, entry in unreported.items():
            if _concerns_users(entry.gate) and entries.get(key) is entry:
                yield from condition_and_event(
                    entry.info.pod, failed_at_stage(Stage.GATE, entry.gate)
                )


def _concerns_users(status: Status) -> bool:
    return status.code is _ERROR or (status.rejected and status.plugin not in NOT_REPORTED)
