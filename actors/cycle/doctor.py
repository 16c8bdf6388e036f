"""The doctor: examines parked pods, one at a time, to find those that no event woke.

It borrows the snapshot from the cache as the cycle does, and so works between two of the cycle's
pods. It runs PreFilter and the filters only, without any memory of earlier pods, tells the queue
the answer, and then rests for a hundred times as long as that took. It wakes no pod.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import numpy as np
from anyio.abc import TaskStatus

from ..client.extender.calls import Extenders
from ..mailboxes import Mailboxes
from ..messages.cache import ReturnSnapshot, TakeSnapshot
from ..messages.queue import Examined, NextParked, ParkedPod
from ..runtime.ask import ask
from ..runtime.clock import Clock
from ..scheduling.decision.failures import PluginError
from ..scheduling.decision.plain import Plain
from ..scheduling.decision.profile import Profile
from ..scheduling.model.pod_info import PodInfo
from ..scheduling.model.snapshot import Snapshot

REST = 100.0  # times as long as an examination took
SHORTEST_REST = 0.05  # seconds
NOBODY_DUE = 5.0  # seconds of rest if no pod is to be examined


class Doctor:
    def __init__(
        self,
        mailboxes: Mailboxes,
        profiles: Mapping[str, Profile],
        extenders: Extenders,
        clock: Clock,
    ) -> None:
        self._queue = mailboxes.queue
        self._cache = mailboxes.cache
        self._profiles = profiles
        self._extenders = extenders
        self._clock = clock

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Examines parked pods until cancelled."""
        task_status.started()
        while True:
            pod = await ask(self._queue, NextParked)
            took = 0.0 if pod is None else await self._examine(pod)
            pause = NOBODY_DUE if pod is None else max(REST * took, SHORTEST_REST)
            await self._clock.sleep(pause)

    async def _examine(self, pod: ParkedPod) -> float:
        """Reports to the queue whether the pod would fit. Returns the seconds that the decision
        took.
        """
        profile = self._profiles.get(pod.info.pod.spec.scheduler_name)
        if profile is None or self._extenders.decide_on(pod.info.pod):
            self._queue.tell(Examined(pod, ""))  # Extenders are asked in attempts only.
            return 0.0
        try:
            snapshot = await ask(self._cache, TakeSnapshot)
            began = self._clock.now()
            node = fitting(profile, pod.info, snapshot, pod.node)
            took = self._clock.now() - began
        finally:
            self._cache.tell(ReturnSnapshot())
        self._queue.tell(Examined(pod, node))
        return took


def fitting(profile: Profile, info: PodInfo, snapshot: Snapshot, first: str = "") -> str:
    """Returns a node on which the pod would fit, "" if there is none or a plugin fails. The node
    `first` is tried first.
    """
    if not len(snapshot):
        return ""
    try:
        candidates = Plain(profile, info, snapshot)
        if candidates.rejected:
            return ""
        tried_first = np.isin(candidates.order, snapshot.columns.rows_of([first])).nonzero()[0]
        positions, _ = candidates.first_fitting(int(tried_first[0]) if len(tried_first) else 0, 1)
    except PluginError:
        return ""
    rows = candidates.order[positions]
    return snapshot.columns.names[rows[0]] if len(rows) else ""
