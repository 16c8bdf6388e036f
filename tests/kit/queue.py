"""A queue under test: its answers about one pod, every move that it makes, and a harness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from berth.actors.messages.order import Answer, ReplyTo
from berth.actors.messages.queue import (
    Activate,
    AttemptFailed,
    ClusterChanged,
    DumpQueued,
    Failure,
    FlushBackoff,
    FlushUnschedulable,
    ListQueued,
    NextPod,
    PendingPodAdded,
    Place,
    PreemptionEnded,
    QueuedPod,
    QueuedPodDump,
    QueueMessage,
    ShowStory,
    StoryStep,
    UseProfiles,
)
from berth.actors.queue.effects import Effect, HandOut, PodMoved
from berth.actors.queue.places import Transition, Trigger
from berth.actors.queue.queues import LARGE_POD, QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.framework.status import SUCCESS, Status, error, unresolvable
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit import structs
from tests.kit.handle import Nowhere

T = TypeVar("T")

NODE_ADDED = ClusterChanged(ClusterEvent(Resource.NODE, Action.ADD), None, Node())
POD_GONE = ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), Pod(), None)
REGISTERED = {
    "Nodes": (Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),),
    "Pods": (Registration(ClusterEvent(Resource.POD, Action.DELETE)),),
    "Itself": (Registration(ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE)),),
    "Deaf": (),
    "Door": (Registration(ClusterEvent(Resource.POD, Action.DELETE), lambda *_: Hint.SKIP),),
}
# The tolerations of a large pod.
LARGE = [{"key": f"key-{number}", "operator": "Exists"} for number in range(1000)]
# What a message makes happen to a pod that was in the queue before; an event if it is not here.
_HAPPENS: dict[type[object], Trigger] = {
    AttemptFailed: Trigger.FAILED,
    FlushBackoff: Trigger.BACKOFF_COMPLETE,
    FlushUnschedulable: Trigger.TIMEOUT,
    Activate: Trigger.ACTIVATED,
    PreemptionEnded: Trigger.PREEMPTION_ENDED,
    UseProfiles: Trigger.PROFILES_CHANGED,
}


class Kept(Generic[T]):
    """A reply that keeps its values."""

    def __init__(self) -> None:
        self.values: list[T] = []

    def set(self, value: T) -> None:
        self.values.append(value)


def answer(queue: QueueState, order: Callable[[ReplyTo[T]], QueueMessage]) -> T:
    """Returns the queue's answer to an order that needs no time."""
    reply: Kept[T] = Kept()
    for effect in queue.handle(order(reply), 0.0):
        if isinstance(effect, Answer):
            effect.give()
    (value,) = reply.values
    return value


def dump_of(queue: QueueState, keys: tuple[str, ...]) -> tuple[QueuedPodDump, ...]:
    """Returns the pods of these keys, as far as they are in the queue."""
    return answer(queue, lambda reply: DumpQueued(reply, keys))


def place_of(queue: QueueState, key: str) -> Place:
    """Returns the place of the pod of this key."""
    pods = dump_of(queue, (key,))
    return pods[0].place if pods else Place.OUTSIDE


def story_of(queue: QueueState, key: str) -> tuple[StoryStep, ...]:
    """Returns the latest moves of the pod of this key, the oldest first."""
    return answer(queue, lambda reply: ShowStory(reply, key))


def handle_and_follow(
    queue: QueueState, message: QueueMessage, now: float
) -> tuple[Sequence[Effect], list[Transition]]:
    """Returns the effects of a message, and the moves that the queue made, in order.

    They are worked out from the effects and from the places before and after.
    """
    before = _pods(queue)
    effects = queue.handle(message, now)
    after = _pods(queue)
    moves: list[Transition] = []
    places = dict.fromkeys(before.keys() | after.keys(), Place.OUTSIDE)
    for key, (uid, place) in before.items():
        if after.get(key, ("", Place.OUTSIDE))[0] == uid:
            places[key] = place
        else:
            moves.append((place, Trigger.REMOVED, Place.OUTSIDE))
    for effect in effects:
        match effect:
            case PodMoved(key, step):
                trigger = _HAPPENS.get(type(message), Trigger.EVENT)
                if places[key] is Place.OUTSIDE:
                    trigger = Trigger.ADDED
                elif step.event == LARGE_POD:
                    trigger = Trigger.DEFERRED
                to = step.queue
            case HandOut(_, pod):
                key, trigger, to = pod.info.key, Trigger.POPPED, Place.IN_FLIGHT
            case _:
                continue
        moves.append((places[key], trigger, to))
        places[key] = to
    assert places == {key: place_of(queue, key) for key in places}, "a move has no effect"
    return effects, moves


def _pods(queue: QueueState) -> dict[str, tuple[str, Place]]:
    keys = answer(queue, ListQueued)
    return {pod.key: (pod.uid, pod.place) for pod in dump_of(queue, keys)}


def make_pod(
    name: str, priority: int = 0, uid: str = "", *, large: bool = False, namespace: str = "ns"
) -> Pod:
    fields: dict[str, Any] = {"uid": uid or name, "tolerations": LARGE * large}
    return structs.pod(name, namespace=namespace, schedulerName="s", priority=priority, **fields)


def in_order(info: PodInfo, enqueued_at: float) -> tuple[float, ...]:
    return (-info.priority, enqueued_at)


def rejected(
    queued: QueuedPod, *plugins: str, node: str | None = None, **more: Any
) -> AttemptFailed:
    """Returns the failure of an attempt by these plugins; by an error if there are none."""
    return AttemptFailed(queued, Failure("", "", frozenset(plugins), nominated_node=node, **more))


class Harness:
    """A queue whose plugins are those of REGISTERED. Door rejects every pod while it is `shut`, and
    fails while it is `broken`.
    """

    def __init__(self, **rules: Any) -> None:
        self.shut = self.broken = False
        self.now = 0.0
        limits = {"max_unschedulable": 60.0, **rules}
        self.state = QueueState(QueueRules(in_order, self.gate, {"s": REGISTERED}, **limits))

    def gate(self, pod: Pod) -> Status:
        if self.broken:
            return error("not listed yet").by("Door")
        return unresolvable("shut").by("Door") if self.shut else SUCCESS

    def send(self, message: QueueMessage) -> Sequence[Effect]:
        effects = self.state.handle(message, self.now)
        self.state.validate()
        return effects

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.send(PendingPodAdded(pod))

    def use_profiles(self, *changed: str) -> Sequence[Effect]:
        """Has new profiles under these scheduler names, with the same plugins."""
        hints = {"s": REGISTERED}
        return self.send(UseProfiles(in_order, self.gate, hints, 1.0, 10.0, frozenset(changed)))

    def pop(self) -> QueuedPod:
        effects = self.send(NextPod(Nowhere()))
        return next(effect.pod for effect in effects if isinstance(effect, HandOut))

    def fail(
        self, queued: QueuedPod, *plugins: str, pending: str = "", error: bool = False
    ) -> Sequence[Effect]:
        assert error != bool(plugins or pending)
        return self.send(
            rejected(queued, *plugins, pending=frozenset([pending] if pending else []))
        )

    def park(self, name: str, *plugins: str, priority: int = 0) -> None:
        self.add(make_pod(name, priority))
        self.fail(self.pop(), *plugins)
        assert self.where(name) == "unschedulable"

    def where(self, name: str) -> str:
        return place_of(self.state, f"ns/{name}")
