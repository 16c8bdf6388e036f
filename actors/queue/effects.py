"""What the queue's state has its actor do. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from ..messages.cache import Nominate, Unnominate
from ..messages.comparison import Healed
from ..messages.order import Answer
from ..messages.queue import NextPod, QueuedPod, StoryStep
from ..messages.recorder import RecordEvent, SetNominatedNode, SetUnschedulable


class HandOut(msgspec.Struct, frozen=True):
    """Answer this order with this pod, which is in flight from now on."""

    order: NextPod
    pod: QueuedPod


class Moved(msgspec.Struct, frozen=True):
    """The pod of this key came to a queue; for the log."""

    key: str
    step: StoryStep


Effect = (
    HandOut
    | Moved
    | Nominate
    | Unnominate
    | SetNominatedNode
    | SetUnschedulable
    | RecordEvent
    | Answer[Any]
    | Healed
)
