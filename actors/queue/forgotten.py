"""The forgotten pods: parked although they would fit, because a hint missed an event.

The doctor asks which parked pod to examine, and tells whether it would fit. A pod is forgotten if
it would fit twice on the same node, some time apart, and neither the pod nor its attempts changed
in between: then no event that could wake it is still on its way. `berth doctor` keeps to this rule
as well. Nothing here wakes a pod. kube-scheduler has nothing like it. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

import msgspec

from ..messages.queue import Examined, ParkedPod, Place
from .effects import Effect, PodForgotten
from .entry import Entry
from .places import UNSCHEDULABLE
from .queues import Queues

PATIENCE = 60.0  # seconds that a pod is parked before it is examined
APART = 10.0  # seconds between two examinations of a pod
DEVICES = "DynamicResources"  # the plugin that searches for devices


def waits_for_event(place: Place, *, held: bool) -> bool:
    """True for a pod that only an event wakes: it is parked, and not held until the end of a
    preemption.
    """
    return place is UNSCHEDULABLE and not held


def forgotten_on(before: Collection[str], now: Collection[str]) -> str:
    """Returns a node that two examinations of an untouched pod have in common; "" if there is none,
    and the pod is not forgotten.
    """
    return min(set(before).intersection(now), default="")


class Suspect(msgspec.Struct, frozen=True):
    """A parked pod that would fit, first examined at this time in monotonic seconds."""

    pod: ParkedPod
    at: float


class Forgotten:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._suspects: dict[str, Suspect] = {}  # in the order of their times
        self._forgotten: dict[str, ParkedPod] = {}
        # The pods that are examined once, one after the other, before any is examined again.
        self._round: deque[str] = deque()
        self._round_began = float("-inf")

    def __len__(self) -> int:
        """Returns how many pods are forgotten now."""
        return sum(map(self._stays, self._forgotten.values()))

    def next(self, now: float) -> ParkedPod | None:
        """Returns the parked pod to examine next, None if no pod is due. A pod that fitted once
        comes first.
        """
        first = next(iter(self._suspects.values()), None)
        if first is not None and now - first.at >= APART:
            return first.pod
        if not self._round and now - self._round_began >= APART:
            self._round_began = now
            self._round.extend(entry.key for entry in self._queues.unschedulable)
        while self._round:
            entry = self._queues.entries.get(self._round.popleft())
            if entry is not None and entry.key not in self._suspects and _is_due(entry, now):
                return _parked(entry)
        return None

    def examined(self, answer: Examined, now: float) -> Sequence[Effect]:
        """Records whether a pod would fit. Returns a report, once, if the pod is forgotten."""
        pod, key = answer.pod, answer.pod.info.key
        before, noted = self._suspects.pop(key, None), self._forgotten.pop(key, None)
        if not answer.node or not self._stays(pod):
            return ()
        if noted is not None and _is_same_attempt(noted, pod):
            self._forgotten[key] = noted
        elif (
            before is not None
            and _is_same_attempt(before.pod, pod)
            and now - before.at >= APART
            and forgotten_on([before.pod.node], [answer.node])
        ):
            self._forgotten[key] = pod
            waits = now - self._queues.entries[key].timestamp
            return (PodForgotten(key, answer.node, tuple(sorted(pod.rejected_by)), waits),)
        else:
            suspected = msgspec.structs.replace(pod, node=answer.node)
            self._suspects[key] = Suspect(suspected, now)
        return ()

    def _stays(self, pod: ParkedPod) -> bool:
        """True if the pod is still parked by the same attempt, and has not changed."""
        entry = self._queues.entries.get(pod.info.key)
        return (
            entry is not None
            and entry.place is UNSCHEDULABLE
            and _is_same_attempt(pod, _parked(entry))
        )


def _parked(entry: Entry) -> ParkedPod:
    return ParkedPod(entry.info, entry.attempts, entry.rejectors)


def _is_same_attempt(before: ParkedPod, after: ParkedPod) -> bool:
    return before.info is after.info and before.attempts == after.attempts


def _is_due(entry: Entry, now: float) -> bool:
    """True if only an event wakes the pod, and an examination can tell whether one should have. It
    cannot for a pod that was rejected on its chosen node. Pods that take long are left out.
    """
    pod = entry.info.pod
    return (
        waits_for_event(entry.place, held=bool(entry.hold))
        and now - entry.timestamp > PATIENCE
        and not entry.had_node
        and pod.metadata.deletion_timestamp is None
        and not entry.info.template.is_large
        and not pod.spec.resource_claims
        and DEVICES not in entry.rejectors
    )
