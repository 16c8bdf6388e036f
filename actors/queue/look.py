"""What the queue shows of itself: its pods, for people to read, and their differences from the
pending pods at the API server. Pure.

Every pending pod of ours is in the queue or in flight until it is bound or deleted.
kube-scheduler's CacheComparer also looks at its queue, but heals nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..messages.comparison import Difference
from ..messages.queue import QueuedPodDump, StoryStep
from ..scheduling.kube.core import Pod
from .entry import Entry


def differences(
    known: Mapping[str, Pod | None], queued: Mapping[str, Entry], flying: Mapping[str, Entry]
) -> Iterator[Difference]:
    """The differences of the queue from the `known` pods; None is a deleted or bound pod."""
    for key, pod in known.items():
        entry = queued.get(key) or flying.get(key)
        if pod is None:
            if entry is not None:
                yield Difference("redundant", "PendingPod", key)
        elif entry is None:
            yield Difference("missed", "PendingPod", key)
        elif entry.info.uid != pod.metadata.uid:
            yield Difference("stale", "PendingPod", key)


def dump(entry: Entry, backoff_left: float, story: tuple[StoryStep, ...]) -> QueuedPodDump:
    return QueuedPodDump(
        entry.key,
        entry.info.uid,
        entry.place,
        entry.info.priority,
        entry.attempts,
        backoff_left,
        tuple(sorted(entry.unschedulable)),
        tuple(sorted(entry.pending)),
        entry.gated_by,
        entry.hold > 0,
        story,
    )
