"""Forgotten pods over random histories: no pod is forgotten while the hints are honest, and every
pod is found that a hint leaves parked.
"""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.messages.order import Answer
from berth.actors.messages.queue import (
    ClusterChanged,
    CountQueued,
    Examined,
    FlushBackoff,
    NextParked,
    NextPod,
    ParkedPod,
    PendingPodAdded,
    PodNoLongerPending,
    QueuedPod,
    QueueMessage,
)
from berth.actors.queue.effects import HandOut, PodForgotten
from berth.actors.queue.forgotten import APART, PATIENCE
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.plugin import SUCCESS, Action, ClusterEvent, Hint, Node, Pod, Registration, Resource
from tests.kit.examples import examples
from tests.kit.handle import Nowhere
from tests.kit.queue import answer, in_order, make_pod, rejected

CHANGED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
ROOMS = st.integers(0, 6)
STEPS = st.lists(
    st.tuples(st.just("add"), st.integers(1, 6))
    | st.tuples(st.sampled_from(["room", "late room"]), ROOMS)
    | st.tuples(st.just("attempt"), st.none() | ROOMS)
    | st.tuples(st.just("wait"), st.sampled_from([1, 9, 11, 61]))
    | st.tuples(st.just("examine"), st.none()),
    max_size=40,
)


def helps(pod: Pod, _old: object | None, new: object | None) -> Hint:
    fits = isinstance(new, Node) and need_of(pod) <= int(new.metadata.name)
    return Hint.QUEUE if fits else Hint.SKIP


def lie(*_: object) -> Hint:
    return Hint.SKIP


def need_of(pod: Pod) -> int:
    return pod.spec.priority or 0


class Cluster:
    """A node with room for a number, and a queue. An event may come to the queue late, but before
    more time passes.
    """

    def __init__(self, *, honest: bool) -> None:
        hints = {"Room": (Registration(CHANGED, helps if honest else lie),)}
        rules = QueueRules(in_order, lambda _: SUCCESS, {"s": hints}, max_unschedulable=1e9)
        self.queue = QueueState(rules)
        self.room, self.now, self.number = 0, 0.0, 0
        self.late: list[ClusterChanged] = []
        self.flying: QueuedPod | None = None
        self.waits = False  # the cycle waits for a pod
        self.told: list[str] = []

    def send(self, message: QueueMessage) -> object:
        value: object = None
        for effect in self.queue.handle(message, self.now):
            match effect:
                case HandOut():
                    self.flying, self.waits = effect.pod, False
                case PodForgotten():
                    self.told.append(effect.key)
                case Answer():
                    value = effect.value
        return value

    def add(self, need: int) -> None:
        self.number += 1
        self.send(PendingPodAdded(make_pod(f"p{self.number}", need)))

    def change(self, room: int, *, late: bool = False) -> None:
        self.room = room
        node = Node(metadata=msgspec.structs.replace(Node().metadata, name=str(room)))
        self.late.append(ClusterChanged(CHANGED, None, node))
        if not late:
            self.deliver()

    def deliver(self) -> None:
        late, self.late = self.late, []
        for change in late:
            self.send(change)

    def attempt(self, room: int | None) -> None:
        """Tries a pod if there is one; meanwhile the room may change."""
        if self.flying is None and not self.waits:
            self.waits = True
            self.send(NextPod(Nowhere()))
        if self.flying is None:
            return
        queued, self.flying = self.flying, None
        pod = queued.info.pod
        fits = need_of(pod) <= self.room
        if room is not None:
            self.change(room)
        if fits:
            self.room = max(0, self.room - need_of(pod))
            self.send(PodNoLongerPending(pod))
        else:
            self.send(rejected(queued, "Room"))

    def wait(self, seconds: float) -> None:
        self.deliver()
        self.now += seconds
        self.send(FlushBackoff())

    def examine(self) -> None:
        while isinstance(pod := self.send(NextParked(Nowhere())), ParkedPod):
            fits = need_of(pod.info.pod) <= self.room
            self.send(Examined(pod, "n" if fits else ""))

    def follow(self, steps: list[tuple[str, int | None]]) -> None:
        for kind, number in steps:
            match kind, number:
                case "add", int():
                    self.add(number)
                case (("room" | "late room"), int()):
                    self.change(number, late=kind == "late room")
                case "wait", int():
                    self.wait(number)
                case "examine", _:
                    self.examine()
                case _:
                    self.attempt(number)

    def count(self) -> int:
        return answer(self.queue, CountQueued).forgotten

    def settle(self) -> int:
        """Makes room for every pod and returns how many stay parked while all are examined."""
        self.wait(PATIENCE)
        self.attempt(None)
        self.change(6)
        self.wait(PATIENCE + 1)
        for _ in range(3):
            self.examine()
            self.wait(APART)
        return answer(self.queue, CountQueued).unschedulable


@examples()
@given(STEPS)
def test_no_pod_is_forgotten_while_the_hints_are_honest(
    steps: list[tuple[str, int | None]],
) -> None:
    cluster = Cluster(honest=True)
    cluster.follow(steps)
    cluster.settle()
    assert (cluster.told, cluster.count()) == ([], 0)


@examples(0.5)
@given(STEPS)
def test_each_pod_that_a_hint_leaves_parked_is_found(steps: list[tuple[str, int | None]]) -> None:
    cluster = Cluster(honest=False)
    cluster.follow([("add", 7), ("attempt", None), ("add", 1), ("attempt", None), *steps])
    left = cluster.settle()
    assert left >= 2
    assert cluster.count() == left - 1  # Pod p1 fits nowhere.
    assert len(set(cluster.told)) >= left - 1
    assert "ns/p1" not in cluster.told
