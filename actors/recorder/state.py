"""The recorder's outbox: what is to be written, and what is being written. Pure.

Invariants: of an object at most one write is under way, so that writes cannot overtake each other; of a pod at most
one write to its status waits, with the latest condition and the latest nomination; at most `most_events` events wait,
and what is dropped for it is the oldest event, never a status. Statuses go first.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_never

import msgspec

from actors.kube.core import Pod
from actors.messages import RecorderMessage, RecordEvent, SetNominatedNode, SetUnschedulable
from actors.recorder.correlator import Correlator, Latest
from actors.recorder.event import Event

MOST_EVENTS = 10_000
MOST_WRITTEN = 4096
StatusOrder = SetUnschedulable | SetNominatedNode
Work = Event | StatusOrder


class RecorderState:
    def __init__(self, most_events: int = MOST_EVENTS, correlator: Correlator | None = None) -> None:
        self._most_events = most_events
        self._correlator = Correlator() if correlator is None else correlator
        self._statuses: dict[str, StatusOrder] = {}
        self._written: Latest[str, Written] = Latest(MOST_WRITTEN)
        self._events: dict[str, Event] = {}
        self._under_way: set[str] = set()
        self.dropped = 0

    def handle(self, message: RecorderMessage, now: float, wall: datetime) -> None:
        """Let it wait; `now` is monotonic."""
        match message:
            case RecordEvent():
                write = self._correlator.observe(message, now, wall)
                if write is not None:
                    self._put_event(write)
            case SetUnschedulable() | SetNominatedNode():
                self._put_status(message)
            case _:
                assert_never(message)

    def take(self) -> Work | None:
        """The next to write, if there is one; it is under way until `done`."""
        waiting: dict[str, StatusOrder] | dict[str, Event]
        for waiting in (self._statuses, self._events):
            for place in waiting:  # What is under way is a handful, so the first few entries decide.
                if place not in self._under_way:
                    self._under_way.add(place)
                    return waiting.pop(place)
        return None

    def done(self, work: Work) -> None:
        """Written, or refused for good."""
        self._under_way.remove(_place(work))

    def put_back(self, work: Work) -> None:
        """Not written: it waits again, unless something newer about the same does."""
        self.done(work)
        place = _place(work)
        match work:
            case SetUnschedulable() | SetNominatedNode():
                newer = self._statuses.pop(place, None)
                self._put_status(work)
                if newer is not None:
                    self._put_status(newer)
            case Event():
                if place not in self._events:
                    self._put_event(work)
            case _:
                assert_never(work)

    def patch(self, order: StatusOrder, pod: Pod, wall: datetime) -> dict[str, Any] | None:
        """A strategic merge patch of the pod's status; None if the pod says so already.

        `pod` is the pod as far as it is known, which may be older than what was written last.
        """
        return status_patch(order, pod, self._written.get(_place(order)), wall)

    def wrote(self, order: StatusOrder) -> None:
        """The API server has taken the patch for this order."""
        place = _place(order)
        before = self._written.get(place)
        told = None if before is None else before.told
        node = order.nominated_node if before is None or order.nominated_node is not None else before.nominated_node
        if isinstance(order, SetUnschedulable):
            told = (order.reason, order.message, order.pod.metadata.generation)
        self._written.put(place, Written(told, node))

    def _put_status(self, order: StatusOrder) -> None:
        """The latest of a pod stands, but what an earlier one says of the other half is not lost by it."""
        place = _place(order)
        earlier = self._statuses.get(place)
        match order:
            case SetUnschedulable() if earlier is not None and order.nominated_node is None:
                order = msgspec.structs.replace(order, nominated_node=earlier.nominated_node)
            case SetNominatedNode() if isinstance(earlier, SetUnschedulable):
                order = msgspec.structs.replace(earlier, nominated_node=order.nominated_node)
            case _:
                pass
        self._statuses[place] = order

    def _put_event(self, write: Event) -> None:
        self._events[write.metadata.name] = write
        if len(self._events) > self._most_events:
            self._events.pop(next(iter(self._events)))
            self.dropped += 1

    def __len__(self) -> int:
        return len(self._statuses) + len(self._events)

    def validate(self) -> None:
        assert len(self._events) <= self._most_events
        assert all(_place(work) == place for place, work in self._statuses.items())
        assert all(_place(work) == place for place, work in self._events.items())
        self._correlator.validate()


def _place(work: Work) -> str:
    """The object that is written: an event's own name is like no other, and no name has a blank."""
    return work.metadata.name if isinstance(work, Event) else f"Pod {work.pod.metadata.uid}"


class Written(msgspec.Struct, frozen=True):
    """What was last written of a pod: reason, message and generation of the condition, and the nomination."""

    told: tuple[str, str, int] | None
    nominated_node: str | None


def status_patch(order: StatusOrder, pod: Pod, written: Written | None, wall: datetime) -> dict[str, Any] | None:
    """A strategic merge patch; None if neither the pod as it is known nor what was written last says otherwise.

    It is for the pod as it is known: if it has changed meanwhile, such as by being bound, the server refuses it.
    """
    node, metadata = order.nominated_node, pod.metadata
    status: dict[str, Any] = {}
    nominated = {pod.status.nominated_node_name}
    if written is not None and written.nominated_node is not None:
        nominated.add(written.nominated_node)
    if node is not None and nominated != {node}:
        status["nominatedNodeName"] = node or None
    if isinstance(order, SetUnschedulable):
        condition = _condition(order, pod, written, wall)
        if condition is not None:
            status["conditions"] = [condition]
    if not status:
        return None
    version = {"resourceVersion": metadata.resource_version} if metadata.resource_version else {}
    return {"metadata": {"uid": metadata.uid, **version}, "status": status}


def _condition(order: SetUnschedulable, pod: Pod, written: Written | None, wall: datetime) -> dict[str, Any] | None:
    """The condition PodScheduled=False, None if the pod has it; its time is that of the last change of status."""
    metadata = pod.metadata
    wanted = (order.reason, order.message, metadata.generation)
    since = wall.strftime("%Y-%m-%dT%H:%M:%SZ")
    for known in pod.status.conditions:
        if known.type == "PodScheduled" and known.status == "False":
            told = {(known.reason, known.message, known.observed_generation)}
            if written is not None and written.told is not None:
                told.add(written.told)
            if told == {wanted}:
                return None
            since = known.last_transition_time or since
    generation = {"observedGeneration": metadata.generation} if metadata.generation else {}
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": order.reason,
        "message": order.message,
        "lastProbeTime": None,
        "lastTransitionTime": since,
        **generation,
    }
