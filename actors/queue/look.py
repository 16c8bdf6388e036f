"""The views of the queue: dumps of its pods for people, its counts for the metrics, and its
differences from the pending pods at the API server. Pure.

Every pending pod of ours is in the queue or in flight until it is bound or deleted.
kube-scheduler's CacheComparer also looks at its queue, but heals nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ..messages.comparison import Difference
from ..messages.queue import QueuedPodDump, QueueMeasures, QueueStatistics
from ..scheduling.kube.core import Pod
from .entry import Entry
from .queues import Queues


def differences(
    pods: Mapping[str, Pod | None], queued: Mapping[str, Entry], flying: Mapping[str, Entry]
) -> Iterator[Difference]:
    """Yields the differences of the queue from these `pods`; a pod that is None is deleted or
    bound.
    """
    for key, pod in pods.items():
        entry = queued.get(key) or flying.get(key)
        if pod is None:
            if entry is not None:
                yield Difference("redundant", "PendingPod", key)
        elif entry is None:
            yield Difference("missed", "PendingPod", key)
        elif entry.info.uid != pod.metadata.uid:
            yield Difference("stale", "PendingPod", key)


def dump(queues: Queues, keys: Iterable[str], now: float) -> tuple[QueuedPodDump, ...]:
    """Returns the pods of these keys that are in the queue or in flight."""
    flying = queues.in_flight_by_key()
    entries = (queues.entries.get(key) or flying.get(key) for key in keys)
    return tuple(_dump_of(queues, entry, now) for entry in entries if entry is not None)


def _dump_of(queues: Queues, entry: Entry, now: float) -> QueuedPodDump:
    return QueuedPodDump(
        entry.key,
        entry.info.uid,
        entry.place,
        entry.info.priority,
        entry.attempts,
        queues.backoff.left(entry, now),
        tuple(sorted(entry.unschedulable)),
        tuple(sorted(entry.pending)),
        entry.gated_by,
        entry.hold > 0,
        queues.stories.of(entry.key),
        dict(entry.skips),
        entry.gate.message,
        queues.activations.restless_by(entry),
    )


def statistics(queues: Queues, healed: int, forgotten: int) -> QueueStatistics:
    return QueueStatistics(
        len(queues.active),
        len(queues.backoff),
        len(queues.unschedulable),
        len(queues.gated),
        len(queues.in_flight),
        healed,
        forgotten,
        dict(queues.activations.refused),
    )


def measures(queues: Queues, counted: QueueStatistics) -> QueueMeasures:
    """Returns the counts for the metrics, as they are now."""
    incoming, events = queues.stories.incoming(), queues.in_flight.events()
    return QueueMeasures(counted, dict(incoming), events, _rejected_by_plugin(queues))


def _rejected_by_plugin(queues: Queues) -> Mapping[tuple[str, str], int]:
    """Returns how many pods each plugin rejected, by plugin and scheduler name. The index counts
    the parked pods; the other pods have few rejectors.
    """
    waiting = Counter(queues.unschedulable.waiting()) + Counter(queues.gated.waiting())
    numbers = Counter({(plugin, name): number for (name, plugin), number in waiting.items()})
    for queue in (queues.active, queues.backoff):
        for entry in queue:
            for plugin in entry.rejectors:
                numbers[plugin, entry.scheduler] += 1
    return numbers
