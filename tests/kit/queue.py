"""What a queue answers when it is asked about one pod, as `berth debug` asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from berth.actors.messages import (
    Answer,
    DumpQueued,
    QueuedPodDump,
    QueueMessage,
    ReplyTo,
    StoryStep,
    TellStory,
)
from berth.actors.queue.state import QueueState

T = TypeVar("T")


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


def place_of(queue: QueueState, key: str) -> str:
    """The place of the pod of this key, "" if it is not in the queue."""
    pods: tuple[QueuedPodDump, ...] = answer(queue, lambda reply: DumpQueued(reply, (key,)))
    return pods[0].place if pods else ""


def story_of(queue: QueueState, key: str) -> tuple[StoryStep, ...]:
    """The latest moves of the pod of this key, the oldest first."""
    return answer(queue, lambda reply: TellStory(reply, key))
