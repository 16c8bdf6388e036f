"""The recorder's outbox: the writes that wait, and those in progress. Pure.

New nominations are written first, then conditions, then events. The newest nominations and
conditions come first, because they are from the newest attempts; the oldest events come first.
Every fourth turn goes to the oldest nomination, the oldest condition and the oldest event by turns,
so that every write has its turn some time.

Invariants: at most one write for each object is under way, so writes cannot overtake each other. At
most one write to the status of each pod waits, with its latest condition and its latest nomination.
At most `most_events` events and `most_conditions` conditions wait: the oldest one is dropped for a
new one, as the pod's next attempt orders its condition again. A nomination is dropped only when
the pod is bound, or when it was refused MOST_REFUSALS times.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from typing import Any, assert_never

import msgspec

from ..messages.recorder import (
    FinishSeries,
    PodBound,
    RecorderMessage,
    RecordEvent,
    RefreshSeries,
    RepeatNominations,
    SetNominatedNode,
    SetUnschedulable,
)
from ..scheduling.kube.core import Pod
from ..scheduling.kube.times import rfc3339
from .event import Event
from .series import SeriesTracker

MOST_EVENTS = 10_000
MOST_CONDITIONS = 100_000
MOST_WRITTEN = 4096
FAIR_TURN = 4
MOST_REFUSALS = 15  # of a nomination; by then the pod is tried anew
StatusOrder = SetUnschedulable | SetNominatedNode
Work = Event | StatusOrder
# The lines of work in their order of precedence; True if the newest work of a line goes first.
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
        self._written: OrderedDict[str, LastWrite] = OrderedDict()
        self._under_way: set[str] = set()
        # Nominations that were refused, by their place, with the number of refusals.
        self._refused: dict[str, tuple[SetNominatedNode, int]] = {}
        self._turn = 0

    def handle(self, message: RecorderMessage, now: float, wall: datetime) -> None:
        """Adds the writes that follow from a message to the outbox. `now` is monotonic seconds."""
        match message:
            case RecordEvent():
                write = self._series.observe(message, now, wall)
                if write is not None:
                    self._put_event(write)
            case SetUnschedulable() | SetNominatedNode():
                self._forget_refusal(message)
                self._put_status(message)
            case PodBound(uid):
                self._pop_waiting(_place_of_pod(uid))
                self._refused.pop(_place_of_pod(uid), None)
            case RepeatNominations():
                self._repeat()
            case FinishSeries():
                for write in self._series.finish(now):
                    self._put_event(write)
            case RefreshSeries():
                for write in self._series.refresh():
                    self._put_event(write)
            case _:
                assert_never(message)

    def take(self) -> Work | None:
        """Removes and returns the next work, if there is any. It is in progress until `done`."""
        if not (self._events or self._conditions or self._nominations):
            return None
        self._turn += 1
        order = (
            self._order
            if self._turn % FAIR_TURN
            else self._fair_orders[self._turn // FAIR_TURN % 3]
        )
        for waiting, newest in order:
            if waiting:
                # Few writes are under way, so this takes one of the first few.
                for place in reversed(waiting) if newest else waiting:
                    if place not in self._under_way:
                        self._under_way.add(place)
                        return waiting.pop(place)
        return None

    def done(self, work: Work) -> None:
        """Records that the work was written, or that there is nothing to write."""
        self._under_way.remove(_place(work))
        self._forget_refusal(work)

    def _forget_refusal(self, work: Work) -> None:
        """Newer work about the nomination of a pod replaces what was refused."""
        if not isinstance(work, Event) and work.nominated_node is not None:
            self._refused.pop(_place(work), None)

    def refused(self, work: Work) -> None:
        """Records that the API server refused the work: a nomination is written again later."""
        place = _place(work)
        before = self._refused.get(place)
        self.done(work)
        if isinstance(work, Event) or work.nominated_node is None:
            return
        refusals = 1 if before is None else before[1] + 1
        if refusals < MOST_REFUSALS:
            order = SetNominatedNode(work.pod, work.nominated_node)
            self._refused[place] = order, refusals

    def _repeat(self) -> None:
        """Puts the refused nominations back into the outbox."""
        for place, (order, _) in self._refused.items():
            if place not in self._nominations and place not in self._under_way:
                self._put_status(order)

    def put_back(self, work: Work) -> None:
        """Returns work that was not written to the outbox, unless newer work replaces it."""
        self.done(work)
        place = _place(work)
        match work:
            case SetUnschedulable() | SetNominatedNode():
                newer = self._pop_waiting(place)
                self._put_status(work)
                if newer is not None:
                    self._put_status(newer)
            case Event():
                if place not in self._events:
                    self._put_event(work, oldest=True)
            case _:
                assert_never(work)

    def patch(self, order: StatusOrder, pod: Pod, wall: datetime) -> dict[str, Any] | None:
        """Returns a strategic merge patch of the pod's status; None if it would change nothing.

        `pod` is the informer's pod, which may be older than the last write.
        """
        return status_patch(order, pod, self._written.get(_place(order)), wall)

    def wrote(self, order: StatusOrder) -> None:
        """Records that the API server has accepted the patch for this order."""
        place = _place(order)
        before = self._written.pop(place, None)
        condition = None if before is None else before.condition
        node = (
            order.nominated_node
            if before is None or order.nominated_node is not None
            else before.nominated_node
        )
        if isinstance(order, SetUnschedulable):
            condition = (order.reason, order.message, order.pod.metadata.generation)
        self._written[place] = LastWrite(condition, node)
        if len(self._written) > MOST_WRITTEN:
            self._written.popitem(last=False)

    def _pop_waiting(self, place: str) -> StatusOrder | None:
        """Removes and returns the waiting write to a pod's status."""
        return self._nominations.pop(place, None) or self._conditions.pop(place, None)

    def _put_status(self, order: StatusOrder) -> None:
        """Adds a write to a pod's status. It replaces an earlier one, whose condition or nomination
        it takes over if it has none itself.
        """
        place = _place(order)
        earlier = self._pop_waiting(place)
        if isinstance(order, SetNominatedNode):
            if isinstance(earlier, SetUnschedulable):
                order = msgspec.structs.replace(earlier, nominated_node=order.nominated_node)
        elif earlier is not None and order.nominated_node is None:
            order = msgspec.structs.replace(order, nominated_node=earlier.nominated_node)
        if self._may_change_nomination(place, order):
            self._nominations[place] = order
            return
        self._conditions[place] = order
        if len(self._conditions) > self._most_conditions:
            self._conditions.popitem(last=False)

    def _may_change_nomination(self, place: str, order: StatusOrder) -> bool:
        """True if the order may change the nomination. While a write is in progress, every order
        may.
        """
        if order.nominated_node is None:
            return False
        return place in self._under_way or _possible_nominations(
            order.pod, self._written.get(place)
        ) != {order.nominated_node}

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
    """Returns the key of the written object. Event names are unique, and contain no blank."""
    return work.metadata.name if isinstance(work, Event) else _place_of_pod(work.pod.metadata.uid)


def _place_of_pod(uid: str) -> str:
    return f"Pod {uid}"


class LastWrite(msgspec.Struct, frozen=True):
    """The last write to a pod's status: the condition's reason, message and generation, and the
    nomination.
    """

    condition: tuple[str, str, int] | None
    nominated_node: str | None


def _possible_nominations(pod: Pod, written: LastWrite | None) -> set[str]:
    """Returns the nodes to which the pod may be nominated at the API server; "" stands for none."""
    last = None if written is None else written.nominated_node
    return (
        {pod.status.nominated_node_name} if last is None else {pod.status.nominated_node_name, last}
    )


def status_patch(
    order: StatusOrder, pod: Pod, written: LastWrite | None, wall: datetime
) -> dict[str, Any] | None:
    """Returns a strategic merge patch; None if it would change neither `pod` nor the last write.

    The patch names the version of `pod`, so the API server refuses it if the pod has changed, for
    example because it was bound.
    """
    node, metadata = order.nominated_node, pod.metadata
    status: dict[str, Any] = {}
    if node is not None and _possible_nominations(pod, written) != {node}:
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
    order: SetUnschedulable, pod: Pod, written: LastWrite | None, wall: datetime
) -> dict[str, Any] | None:
    """Returns the condition PodScheduled=False; None if the pod has it already. Its transition time
    changes only with its status.
    """
    metadata = pod.metadata
    content = (order.reason, order.message, metadata.generation)
    since = rfc3339(wall)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            present = {(condition.reason, condition.message, condition.observed_generation)}
            if written is not None and written.condition is not None:
                present.add(written.condition)
            if present == {content}:
                return None
            since = condition.last_transition_time or since
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
