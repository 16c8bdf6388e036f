"""The recorder's outbox: what is to be written, and what is being written. Pure.

Nominations that change go first, then conditions, then events; of nominations and conditions the
newest first, because they are of the newest attempts, and of events the oldest. Every fourth turn
is for what has waited longest, of each of the three in turn, so that whatever waits is written some
time.

Invariants: of an object at most one write is under way, so that writes cannot overtake each other;
of a pod at most one write to its status waits, with the latest condition and the latest nomination;
at most `most_events` events and `most_conditions` conditions wait. The oldest is dropped for a new
one, but never a nomination: a condition is ordered again by the pod's next attempt.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from typing import Any, assert_never

import msgspec
from berth.actors.messages import (
    FinishSeries,
    RecorderMessage,
    RecordEvent,
    RefreshSeries,
    SetNominatedNode,
    SetUnschedulable,
)
from berth.actors.recorder.event import Event
from berth.actors.recorder.series import SeriesTracker
from berth.actors.scheduling.kube.core import Pod

MOST_EVENTS = 10_000
MOST_CONDITIONS = 100_000
MOST_WRITTEN = 4096
FAIR_TURN = 4
StatusOrder = SetUnschedulable | SetNominatedNode
Work = Event | StatusOrder
# Where to look for work, and whether the newest there goes first.
Order = tuple[tuple[OrderedDict[str, StatusOrder] | OrderedDict[str, Event], bool], ...]


class RecorderState:
    def __init__(
        self,
        series: SeriesTracker,
        most_events: int = MOST_EVENTS,
        most_conditions: int = MOST_CONDITIONS,
    ) -> None:
        self._series = series
        self._most_events = most_events
        self._most_conditions = most_conditions
        self._nominations: OrderedDict[str, StatusOrder] = OrderedDict()
        self._conditions: OrderedDict[str, StatusOrder] = OrderedDict()
        self._events: OrderedDict[str, Event] = OrderedDict()
        self._order: Order = (
            (self._nominations, True),
            (self._conditions, True),
            (self._events, False),
        )
        self._fair_orders: tuple[Order, ...] = tuple(
            ((waiting, False), *self._order) for waiting, _ in self._order
        )
        self._written: OrderedDict[str, Written] = OrderedDict()
        self._under_way: set[str] = set()
        self._turn = 0

    def handle(self, message: RecorderMessage, now: float, wall: datetime) -> None:
        """Let it wait; `now` is monotonic."""
        match message:
            case RecordEvent():
                write = self._series.observe(message, now, wall)
                if write is not None:
                    self._put_event(write)
            case SetUnschedulable() | SetNominatedNode():
                self._put_status(message)
            case FinishSeries():
                for write in self._series.finish(now):
                    self._put_event(write)
            case RefreshSeries():
                for write in self._series.refresh():
                    self._put_event(write)
            case _:
                assert_never(message)

    def take(self) -> Work | None:
        """The next to write, if there is one; it is under way until `done`."""
        self._turn += 1
        order = (
            self._order
            if self._turn % FAIR_TURN
            else self._fair_orders[self._turn // FAIR_TURN % 3]
        )
        for waiting, newest in order:
            if waiting:
                for place in reversed(waiting) if newest else waiting:
                    if (
                        place not in self._under_way
                    ):  # What is under way is a handful, so the first few decide.
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
                newer = self._take_out(place)
                self._put_status(work)
                if newer is not None:
                    self._put_status(newer)
            case Event():
                if place not in self._events:
                    self._put_event(work, oldest=True)
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
        before = self._written.pop(place, None)
        told = None if before is None else before.told
        node = (
            order.nominated_node
            if before is None or order.nominated_node is not None
            else before.nominated_node
        )
        if isinstance(order, SetUnschedulable):
            told = (order.reason, order.message, order.pod.metadata.generation)
        self._written[place] = Written(told, node)
        if len(self._written) > MOST_WRITTEN:
            self._written.popitem(last=False)

    def _take_out(self, place: str) -> StatusOrder | None:
        """What waits for the status of a pod."""
        return self._nominations.pop(place, None) or self._conditions.pop(place, None)

    def _put_status(self, order: StatusOrder) -> None:
        """The latest of a pod stands, but what an earlier one says of the other half is not lost by
        it.
        """
        place = _place(order)
        earlier = self._take_out(place)
        match order:
            case SetUnschedulable() if earlier is not None and order.nominated_node is None:
                order = msgspec.structs.replace(order, nominated_node=earlier.nominated_node)
            case SetNominatedNode() if isinstance(earlier, SetUnschedulable):
                order = msgspec.structs.replace(earlier, nominated_node=order.nominated_node)
            case _:
                pass
        if self._renominates(place, order):
            self._nominations[place] = order
            return
        self._conditions[place] = order
        if len(self._conditions) > self._most_conditions:
            self._conditions.popitem(last=False)

    def _renominates(self, place: str, order: StatusOrder) -> bool:
        """Whether the order may change the pod's nomination; so may any while another is
        written.
        """
        if order.nominated_node is None:
            return False
        return place in self._under_way or _nominated(order.pod, self._written.get(place)) != {
            order.nominated_node
        }

    def _put_event(self, write: Event, *, oldest: bool = False) -> None:
        self._events[write.metadata.name] = write
        if oldest:
            self._events.move_to_end(write.metadata.name, last=False)
        if len(self._events) > self._most_events:
            self._events.popitem(last=False)

    def __len__(self) -> int:
        return len(self._nominations) + len(self._conditions) + len(self._events)

    def validate(self) -> None:
        assert len(self._events) <= self._most_events
        assert len(self._conditions) <= self._most_conditions
        assert not self._nominations.keys() & self._conditions.keys()
        assert all(
            _place(work) == place
            for place, work in (*self._nominations.items(), *self._conditions.items())
        )
        assert all(_place(work) == place for place, work in self._events.items())
        self._series.validate()


def _place(work: Work) -> str:
    """The object that is written: an event's own name is like no other, and no name has a blank."""
    return work.metadata.name if isinstance(work, Event) else f"Pod {work.pod.metadata.uid}"


class Written(msgspec.Struct, frozen=True):
    """What was last written of a pod: reason, message and generation of the condition, and the
    nomination.
    """

    told: tuple[str, str, int] | None
    nominated_node: str | None


def _nominated(pod: Pod, written: Written | None) -> set[str]:
    """The nodes that the pod may be nominated to at the API server, "" for none."""
    last = None if written is None else written.nominated_node
    return (
        {pod.status.nominated_node_name} if last is None else {pod.status.nominated_node_name, last}
    )


def status_patch(
    order: StatusOrder, pod: Pod, written: Written | None, wall: datetime
) -> dict[str, Any] | None:
    """A strategic merge patch; None if neither the pod as it is known nor what was written last
    says otherwise.

    It is for the pod as it is known: if it has changed meanwhile, such as by being bound, the
    server refuses it.
    """
    node, metadata = order.nominated_node, pod.metadata
    status: dict[str, Any] = {}
    if node is not None and _nominated(pod, written) != {node}:
        status["nominatedNodeName"] = node or None
    if isinstance(order, SetUnschedulable):
        condition = _condition(order, pod, written, wall)
        if condition is not None:
            status["conditions"] = [condition]
    if not status:
        return None
    version = {"resourceVersion": metadata.resource_version} if metadata.resource_version else {}
    return {"metadata": {"uid": metadata.uid, **version}, "status": status}


def _condition(
    order: SetUnschedulable, pod: Pod, written: Written | None, wall: datetime
) -> dict[str, Any] | None:
    """The condition PodScheduled=False, None if the pod has it; its time is that of the last change
    of status.
    """
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
