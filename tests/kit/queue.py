"""A queue under test: what it answers about one pod, and every move that it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from berth.actors.messages.order import Answer, ReplyTo
from berth.actors.messages.queue import (
    Activate,
    AttemptFailed,
    DumpQueued,
    FlushBackoff,
    FlushUnschedulable,
    ListQueued,
    Place,
    PreemptionEnded,
    QueuedPodDump,
    QueueMessage,
    ShowStory,
    StoryStep,
    UseProfiles,
)
from berth.actors.queue.effects import Effect, HandOut, Moved
from berth.actors.queue.places import Happened, Transition
from berth.actors.queue.state import QueueState

T = TypeVar("T")

# What a message makes happen to a pod that was in the queue before; an event if it is not here.
_HAPPENS: dict[type[object], Happened] = {
    AttemptFailed: Happened.FAILED,
    FlushBackoff: Happened.BACKOFF_COMPLETE,
    FlushUnschedulable: Happened.TIMEOUT,
    Activate: Happened.ACTIVATED,
    PreemptionEnded: Happened.PREEMPTION_ENDED,
    UseProfiles: Happened.PROFILES_CHANGED,
}


class Kept(Generic[T]):
    """A reply that keeps its values."""

    def __init__(self) -> None:
        self.values: list[T] = []

    def set(self, value: T) -> None:
        self.values.append(value)


def answer(queue: QueueState, order: Callable[[ReplyTo[T]], QueueMessage]) -> T:
    """The queue's answer to an order that needs no time."""
    reply: Kept[T] = Kept()
    for effect in queue.handle(order(reply), 0.0):
        if isinstance(effect, Answer):
            effect.give()
    (value,) = reply.values
    return value


def dump_of(queue: QueueState, keys: tuple[str, ...]) -> tuple[QueuedPodDump, ...]:
    """The pods of these keys, as far as they are in the queue."""
    return answer(queue, lambda reply: DumpQueued(reply, keys))


def place_of(queue: QueueState, key: str) -> Place:
    """The place of the pod of this key."""
    pods = dump_of(queue, (key,))
    return pods[0].place if pods else Place.OUTSIDE


def story_of(queue: QueueState, key: str) -> tuple[StoryStep, ...]:
    """The latest moves of the pod of this key, the oldest first."""
    return answer(queue, lambda reply: ShowStory(reply, key))


def handle_and_follow(
    queue: QueueState, message: QueueMessage, now: float
) -> tuple[Sequence[Effect], list[Transition]]:
    """The effects of a message, and the moves that the queue made, in order.

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
            moves.append((place, Happened.REMOVED, Place.OUTSIDE))
    for effect in effects:
        match effect:
            case Moved(key, step):
                happened = _HAPPENS.get(type(message), Happened.EVENT)
                if places[key] is Place.OUTSIDE:
                    happened = Happened.ADDED
                to = step.queue
            case HandOut(_, pod):
                key, happened, to = pod.info.key, Happened.POPPED, Place.IN_FLIGHT
            case _:
                continue
        moves.append((places[key], happened, to))
        places[key] = to
    assert places == {key: place_of(queue, key) for key in places}, "a move has no effect"
    return effects, moves


def _pods(queue: QueueState) -> dict[str, tuple[str, Place]]:
    keys = answer(queue, ListQueued)
    return {pod.key: (pod.uid, pod.place) for pod in dump_of(queue, keys)}
