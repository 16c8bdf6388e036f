"""Livelocks: pods that are tried again and again, while nothing else changes.

Plugins that reject a pod and activate it, such as two members of a group, can do so for ever,
perhaps without any time passing.
"""

from __future__ import annotations

from collections import Counter

import anyio

from berth.actors.runtime.race import race
from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.actors.scheduling.decision.outcome import Outcome, Unfit
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.plugin import Status

from .recorded_calls import RecordedCalls

MOST_TRIES = 1_000  # of a pod while a cluster settles
MANY_TRIES = 100  # of a pod in a cluster that did not settle in time


class Tries(DecisionObserver):
    """Counts how often each pod is tried."""

    def __init__(self, calls: RecordedCalls) -> None:
        self._calls = calls
        self._tries: Counter[str] = Counter()
        self._rejected_by: dict[str, frozenset[str]] = {}
        self._too_many = anyio.Event()

    def begin(self) -> None:
        """Starts to count anew."""
        self._tries.clear()
        self._too_many = anyio.Event()

    def decided(self, info: PodInfo, outcome: Outcome) -> None:
        self._tries[info.key] += 1
        if isinstance(outcome, Unfit):
            self._rejected_by[info.key] = outcome.rejected_by
        else:
            self._rejected_by.pop(info.key, None)
        if self._tries[info.key] >= MOST_TRIES:
            self._too_many.set()

    async def sleep(self, seconds: float) -> None:
        """Sleeps, but only until a pod has been tried MOST_TRIES times."""
        await race(lambda: anyio.sleep(seconds), self._too_many.wait)

    def story(self, most: int = MOST_TRIES) -> str:
        """Returns which pod was tried this often, and by which plugin; "" if none was."""
        if not self._tries:
            return ""
        (pod, tries), *_ = self._tries.most_common(1)
        if tries < most:
            return ""
        return f"{pod.removeprefix('default/')} was tried {tries:,} times by {self._by(pod)}"

    def _by(self, pod: str) -> str:
        """Returns the plugin that rejected the pod last, or made it wait."""
        rejected = self._rejected_by.get(pod)
        if rejected:
            return ", ".join(sorted(rejected))
        for call in self._calls.latest():
            if call.pod == pod and call.method in ("permit", "reserve", "pre_bind", "unreserve"):
                status = call.answer[0] if isinstance(call.answer, tuple) else call.answer
                if not isinstance(status, Status) or not status.ok:
                    return call.plugin
        return "the scheduler"
