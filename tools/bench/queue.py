"""Measures the scheduling queue: `python -m berth.tools.bench.queue [-o json]`.

Each figure is microseconds per operation, on a queue with the given number of pods. An event should
be expensive only if it concerns many pods: of the parked pods, one waits for a node's label, all
others for a larger node.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import click
import msgspec

from berth.actors.messages.queue import (
    AttemptFailed,
    ClusterChanged,
    Done,
    Failure,
    FlushUnschedulable,
    NextPod,
    PendingPodAdded,
    PendingPodUpdated,
    PodNoLongerPending,
    QueuedPod,
    QueueMessage,
)
from berth.actors.queue.effects import HandOut
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.framework.status import SUCCESS
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo

from . import programs
from .programs import OPERATIONS, NoReply, figures_option, microseconds, show, table

SIZES = (1_000, 10_000, 100_000)
LARGER = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
LABELLED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
TAINTED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)


class QueueFigures(msgspec.Struct, frozen=True):
    """Microseconds per operation, for a queue of `pods`.

    Each event is one message; `event_for_all` asks the hint of every parked pod, and wakes none.
    `flush` is per pod, when all pods have been parked for too long.
    """

    pods: int
    add: float
    pop: float
    update: float
    delete: float
    event_for_nobody: float
    event_for_one: float
    event_for_all: float
    flush: float


def make_pod(number: int, label: str = "") -> Pod:
    priority = number * 7919 % 100
    return programs.make_pod("ns", number, {"l": label}, schedulerName="s", priority=priority)


def _never(_pod: Pod, _old: object | None, _new: object | None) -> Hint:
    return Hint.SKIP


def new_queue() -> QueueState:
    hints = {"Fit": (Registration(LARGER, _never),), "Label": (Registration(LABELLED),)}

    def sort_key(info: PodInfo, enqueued_at: float) -> tuple[float, ...]:
        return (-info.priority, enqueued_at)

    return QueueState(QueueRules(sort_key, lambda _: SUCCESS, {"s": hints}))


def handle(queue: QueueState, message: QueueMessage, now: float) -> QueuedPod | None:
    effects = queue.handle(message, now)
    return next((effect.pod for effect in effects if isinstance(effect, HandOut)), None)


def pop(queue: QueueState, now: float) -> QueuedPod:
    queued = handle(queue, NextPod(NoReply()), now)
    assert queued is not None
    return queued


def rejected(queued: QueuedPod, plugin: str) -> AttemptFailed:
    return AttemptFailed(queued, Failure("Unschedulable", "", frozenset((plugin,))))


def park(queue: QueueState, pods: Sequence[Pod], plugin: str) -> None:
    for pod in pods:
        handle(queue, PendingPodAdded(pod), 0.0)
    for _ in pods:
        handle(queue, rejected(pop(queue, 0.0), plugin), 0.0)


def measure(size: int) -> QueueFigures:
    pods = [make_pod(number) for number in range(size)]
    more = [make_pod(size + number) for number in range(OPERATIONS)]
    changed = [make_pod(number, "x") for number in range(OPERATIONS)]

    active = new_queue()
    for pod in pods:
        handle(active, PendingPodAdded(pod), 0.0)

    def pop_one(_: int) -> None:
        handle(active, Done(pop(active, 0.0).info.uid), 0.0)

    add = microseconds(lambda n: handle(active, PendingPodAdded(more[n]), 0.0))
    update = microseconds(
        lambda n: handle(active, PendingPodUpdated(pods[n], changed[n]), 0.0), min(size, OPERATIONS)
    )
    delete = microseconds(lambda n: handle(active, PodNoLongerPending(more[n]), 0.0))
    popped = microseconds(pop_one, min(size, OPERATIONS))

    parked = new_queue()
    park(parked, pods, "Fit")
    nobody = microseconds(lambda _: handle(parked, ClusterChanged(TAINTED), 5.0))

    park(parked, [make_pod(size + OPERATIONS)], "Label")
    one_woken = 0.0
    for number in range(OPERATIONS):
        now = 20.0 + 0.01 * number
        start = perf_counter()
        handle(parked, ClusterChanged(LABELLED), now)
        one_woken += perf_counter() - start
        handle(parked, rejected(pop(parked, now), "Label"), now)
    one_woken *= 1e6 / OPERATIONS
    node = Node()
    everybody = microseconds(lambda _: handle(parked, ClusterChanged(LARGER, node, node), 40.0), 1)
    flushed = microseconds(lambda _: handle(parked, FlushUnschedulable(), 1e4), 1) / size
    assert parked.statistics().active == size + 1
    return QueueFigures(size, add, popped, update, delete, nobody, one_woken, everybody, flushed)


@click.command()
@figures_option
@click.option(
    "--pods",
    type=int,
    multiple=True,
    default=SIZES,
    help="Sizes of the queue, instead of 1k, 10k, 100k.",
)
def main(output: str, pods: tuple[int, ...]) -> None:
    """Measure the scheduling queue's operations, in microseconds."""
    measured = [measure(size) for size in pods]
    columns = [field.replace("_", " ") for field in QueueFigures.__struct_fields__]
    show(output, measured, table(columns, map(msgspec.structs.astuple, measured), "{:,.1f}"))


if __name__ == "__main__":
    main()
