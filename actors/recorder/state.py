"""The recorder's outbox: what is to be written, and what is being written. Pure.

Invariants: of an object at most one write is under way, so that writes cannot overtake each other; of a pod at most
one condition waits, the latest; at most `most_events` events wait, and what is dropped for it is the oldest event,
never a condition. Conditions go first.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_never

import msgspec

from actors.kube.core import Pod
from actors.messages import RecorderMessage, RecordEvent, SetUnschedulable
from actors.recorder.correlator import Correlator
from actors.recorder.event import Event

MOST_EVENTS = 10_000
Work = Event | SetUnschedulable


class RecorderState:
    def __init__(self, most_events: int = MOST_EVENTS, correlator: Correlator | None = None) -> None:
        self._most_events = most_events
        self._correlator = Correlator() if correlator is None else correlator
        self._conditions: dict[str, SetUnschedulable] = {}
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
            case SetUnschedulable():
                self._put_condition(message)
            case _:
                assert_never(message)

    def take(self) -> Work | None:
        """The next to write, if there is one; it is under way until `done`."""
        waiting: dict[str, SetUnschedulable] | dict[str, Event]
        for waiting in (self._conditions, self._events):
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
            case SetUnschedulable():
                newer = self._conditions.pop(place, None)
                self._put_condition(work)
                if newer is not None:
                    self._put_condition(newer)
            case Event():
                if place not in self._events:
                    self._put_event(work)
            case _:
                assert_never(work)

    def _put_condition(self, order: SetUnschedulable) -> None:
        """The latest of a pod stands, but what an earlier one says of the nomination is not lost by it."""
        place = _place(order)
        earlier = self._conditions.get(place)
        if earlier is not None and order.nominated_node is None:
            order = msgspec.structs.replace(order, nominated_node=earlier.nominated_node)
        self._conditions[place] = order

    def _put_event(self, write: Event) -> None:
        self._events[write.metadata.name] = write
        if len(self._events) > self._most_events:
            self._events.pop(next(iter(self._events)))
            self.dropped += 1

    def __len__(self) -> int:
        return len(self._conditions) + len(self._events)

    def validate(self) -> None:
        assert len(self._events) <= self._most_events
        assert all(_place(work) == place for place, work in self._conditions.items())
        assert all(_place(work) == place for place, work in self._events.items())
        self._correlator.validate()


def _place(work: Work) -> str:
    """The object that is written: an event's own name is like no other, and no name has a blank."""
    return work.metadata.name if isinstance(work, Event) else f"Pod {work.pod.metadata.uid}"


def condition_patch(order: SetUnschedulable, pod: Pod, wall: datetime) -> dict[str, Any] | None:
    """A strategic merge patch of the pod's status; None if the pod says so already.

    It is for the pod as it is known: if it has changed meanwhile, such as by being bound, the server refuses it.
    """
    metadata = pod.metadata
    generation = {"observedGeneration": metadata.generation} if metadata.generation else {}
    since = wall.strftime("%Y-%m-%dT%H:%M:%SZ")
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            told = (condition.reason, condition.message, condition.observed_generation)
            renominated = order.nominated_node not in (None, pod.status.nominated_node_name)
            if told == (order.reason, order.message, metadata.generation) and not renominated:
                return None
            since = condition.last_transition_time or since
    condition_now = {
        "type": "PodScheduled",
        "status": "False",
        "reason": order.reason,
        "message": order.message,
        "lastProbeTime": None,
        "lastTransitionTime": since,
        **generation,
    }
    version = {"resourceVersion": metadata.resource_version} if metadata.resource_version else {}
    nomination = {} if order.nominated_node is None else {"nominatedNodeName": order.nominated_node or None}
    return {"metadata": {"uid": metadata.uid, **version}, "status": {"conditions": [condition_now], **nomination}}
