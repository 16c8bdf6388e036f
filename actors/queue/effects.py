"""The effects of the queue's state, which the actor carries out. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from ..messages.cache import Nominate, Unnominate
from ..messages.comparison import Healed
from ..messages.order import Answer
from ..messages.queue import NextPod, QueuedPod, StoryStep
from ..messages.recorder import RecordEvent, SetNominatedNode, SetUnschedulable


class HandOut(msgspec.Struct, frozen=True):
    """An answer to this order: a pod, which is in flight from now on."""

    order: NextPod
    pod: QueuedPod


class PodMoved(msgspec.Struct, frozen=True):
    """A move of the pod of this key to a queue; for the log."""

    key: str
    step: StoryStep


class PodForgotten(msgspec.Struct, frozen=True):
    """The parked pod would fit on the node, but no event has woken it; for the log."""

    key: str
    node: str
    rejected_by: tuple[str, ...]
    parked_for: float


class PodRestless(msgspec.Struct, frozen=True):
    """The pod of this key was activated again and again without progress; for the log."""

    key: str
    by: str
    activations: int
    attempts: int


Effect = (
    HandOut
    | PodMoved
    | PodForgotten
    | PodRestless
    | Nominate
    | Unnominate
    | SetNominatedNode
    | SetUnschedulable
    | RecordEvent
    | Answer[Any]
    | Healed
)
