"""Taint eviction: deletes pods that do not tolerate a NoExecute taint of their node.

Mirrors Kubernetes' taint eviction controller. A pod that tolerates all taints, but not for ever,
gets a timer when it first does so. As in Kubernetes, a timer keeps its time when taints or
tolerations change, until the pod tolerates a taint no longer, or all of them for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from berth.actors.scheduling.kube.core import Node, Pod, Taint, Toleration
from berth.actors.scheduling.kube.taints import tolerates

from ..objects.object_events import Reporter, event_about
from ..objects.properties import deleting
from ..objects.writes import Again, Create, Write, delete, disruption_writes
from .condition_taints import no_execute_taints

REPORTER = Reporter("taint-eviction-controller")
REASON = "TaintManagerEviction"
MESSAGE = "Taint manager: deleting due to NoExecute taint"
MOST_SECONDS = (2**63 - 1) / 1e9  # of a timer: nanoseconds in 64 bits


class _Timer(msgspec.Struct, frozen=True):
    pod: Pod
    due: datetime


class TaintEviction:
    """The timers of pods that tolerate a taint of their node for some time, by namespace and
    name.
    """

    def __init__(self) -> None:
        self._timers: dict[tuple[str, str], _Timer] = {}

    def waits(self, namespace: str, name: str) -> bool:
        """True if the pod has a timer."""
        return (namespace, name) in self._timers

    def shift(self, step: timedelta) -> None:
        self._timers = {
            place: _Timer(timer.pod, timer.due + step) for place, timer in self._timers.items()
        }

    def reconcile(
        self, namespace: str, name: str, pod: Pod | None, node: Node | None, now: datetime
    ) -> list[Write]:
        """Decides on the pod of this name and the node that it is bound to; None if it is gone."""
        place = namespace, name
        timer = self._timers.get(place)
        if timer is not None and (pod is None or pod.metadata.uid != timer.pod.metadata.uid):
            return [*self._cancel(place, now), *self.reconcile(*place, pod, node, now)]
        if pod is None:
            return []
        if deleting(pod):
            if timer is not None and timer.due <= now:
                del self._timers[place]
            return []
        writes: list[Write] = []
        if node is not None:
            used = used_tolerations(no_execute_taints(node), pod.spec.tolerations)
            if used is None:
                writes = self._cancel(place, now)
                timer = self._timers[place] = _Timer(pod, now)
            else:
                seconds = least_seconds(used)
                if seconds is None:
                    return self._cancel(place, now)
                if timer is None:
                    due = now + timedelta(seconds=seconds)
                    timer = self._timers[place] = _Timer(pod, due)
        if timer is None:
            return writes
        if timer.due > now:
            return [Again((timer.due - now).total_seconds())]
        message = f"Marking for deletion Pod {namespace}/{name}"
        event = event_about(pod, "Normal", REASON, message, REPORTER, now)
        marks = disruption_writes(pod, "DeletionByTaintManager", MESSAGE, now)
        return [*writes, Create("Event", event), *marks, delete(pod)]

    def _cancel(self, place: tuple[str, str], now: datetime) -> list[Write]:
        """Removes a timer. Reports it by an event if it had not expired."""
        timer = self._timers.pop(place, None)
        if timer is None or timer.due <= now:
            return []
        message = "Cancelling deletion of Pod {}/{}".format(*place)
        event = event_about(timer.pod, "Normal", REASON, message, REPORTER, now)
        return [Create("Event", event)]


def used_tolerations(
    taints: Sequence[Taint], tolerations: Sequence[Toleration]
) -> list[Toleration] | None:
    """Returns the first toleration of each taint; None if a taint is not tolerated."""
    used: list[Toleration] = []
    for taint in taints:
        first = next((each for each in tolerations if tolerates(each, taint)), None)
        if first is None:
            return None
        used.append(first)
    return used


def least_seconds(used: Sequence[Toleration]) -> float | None:
    """Returns how long a pod with these tolerations may stay; None for ever."""
    limits = [each.toleration_seconds for each in used if each.toleration_seconds is not None]
    return min(max(float(min(limits)), 0.0), MOST_SECONDS) if limits else None
