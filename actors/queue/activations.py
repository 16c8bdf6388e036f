"""The activations of pods by plugins, and whether they skip the backoff.

A plugin that schedules a group of pods together activates the others when one of them has a node.
An activated pod does not back off, as in kube-scheduler. There, pods that reject and activate each
other are tried hundreds of times a second for ever. Here, a pod whose backoff was skipped
MOST_IN_A_ROW times backs off to the end, and is not taken early, until nobody has activated it for
QUIET_SECONDS. Of the activations during an attempt that fails, one counts. Its user, the log and a
metric are told who activates it. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ..attempt.pod_events import activated_in_vain_event
from ..messages.recorder import RecordEvent
from .effects import PodRestless
from .entry import Entry

MOST_IN_A_ROW = 32
QUIET_SECONDS = 60.0
REPORT_SECONDS = 60.0


class Activations:
    """The activations of pods. `refused` counts by plugin those that did not skip the backoff;
    `unreported` are the pods to report, by key.
    """

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.unreported: dict[str, Entry] = {}

    def skips(self, entry: Entry, now: float) -> bool:
        """Counts an activation of a pod that backs off, or whose attempt failed, and returns
        whether it skips the backoff.
        """
        self.forget_if_quiet(entry, now)
        entry.activated_at = now
        entry.activations += 1
        if entry.activations <= MOST_IN_A_ROW:
            return True
        entry.restless = True
        self.refused[entry.activated_for] += 1
        first = entry.activations == MOST_IN_A_ROW + 1
        if first or now - entry.activations_reported_at >= REPORT_SECONDS:
            entry.activations_reported_at = now
            self.unreported[entry.key] = entry
        return False

    @staticmethod
    def forget_if_quiet(entry: Entry, now: float) -> None:
        """Starts the count anew if nobody has activated the pod for a long time."""
        if now - entry.activated_at > QUIET_SECONDS:
            entry.activations, entry.restless = 0, False

    @staticmethod
    def restless_by(entry: Entry) -> str:
        """Returns the plugins that activate a pod without progress; "" if none does."""
        return _by(entry) if entry.restless else ""

    def report(self, entries: Mapping[str, Entry]) -> Iterator[PodRestless | RecordEvent]:
        """Yields the reports about the unreported pods that are still in `entries`."""
        unreported, self.unreported = self.unreported, {}
        for key, entry in unreported.items():
            if entries.get(key) is entry:
                by = _by(entry)
                yield PodRestless(key, by, entry.activations, entry.attempts)
                yield activated_in_vain_event(entry.info.pod, by, entry.activations)


def _by(entry: Entry) -> str:
    pod = f" at {entry.activated_at_pod}" if entry.activated_at_pod else ""
    return f"{entry.activated_for or 'a plugin'}{pod}"
