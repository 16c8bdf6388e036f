"""What the queue's state has its actor do. Pure."""

from __future__ import annotations

import msgspec

from ..messages.cache import Nominate, Unnominate
from ..messages.comparison import Difference, Healed
from ..messages.order import Answer
from ..messages.queue import (
    NextPod,
    QueuedPod,
    QueuedPodDump,
    QueueMeasures,
    QueueStatistics,
    StoryStep,
)
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
    | Answer[tuple[StoryStep, ...]]
    | Answer[bool]
    | Answer[tuple[str, ...]]
    | Answer[tuple[QueuedPodDump, ...]]
    | Answer[QueueStatistics]
    | Answer[QueueMeasures]
    | Answer[tuple[Difference, ...]]
    | Healed
)
