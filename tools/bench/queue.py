"""Measures the scheduling queue: `python -m berth.tools.bench.queue [-o json]`.

Each figure is microseconds per operation, on a queue with the given number of pods. An event should
be expensive only if it concerns many pods: of the parked pods, one waits for a node's label, all
others for a larger node.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Sequence
from time import perf_counter

import click
import msgspec
from rich.console import Console
from rich.table import Table

from berth.actors.messages.queue import (
    AttemptFailed,
    ClusterChanged,
    Done,
    FlushUnschedulable,
    NextPod,
    PendingPodAdded,
    PendingPodDeleted,
    PendingPodUpdated,
    QueuedPod,
    QueueMessage,
)
from berth.actors.queue.effects import HandOut
from berth.actors.queue.state import (
    QueueRules,
    QueueState,
)
from berth.actors.scheduling.framework.events import (
    Action,
    ClusterEvent,
    Hint,
    Registration,
    Resource,
)
from berth.actors.scheduling.framework.status import SUCCESS
from berth.actors.scheduling.kube.core import (
    Node,
    Pod,
)
from berth.actors.scheduling.model.pod_info import PodInfo

SIZES = (1_000, 10_000, 100_000)
OPERATIONS = 1_000
LARGER = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
LABELLED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
TAINTED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)


class NoReply:
    """A reply that nobody waits for: the pod is read from the effect."""

    def set(self, value: QueuedPod) -> None:
        raise AssertionError(value)


class Figures(msgspec.Struct, frozen=True):
    """Microseconds per operation, for a queue of `pods`.

    Each event is one message; `event_for_all` asks the hint of every parked pod, and wakes none.
    `flush` is per pod, when all have been parked for too long.
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
    metadata = {
        "namespace": "ns",
        "name": f"p{number}",
        "uid": f"u{number}",
        "labels": {"l": label},
    }
    spec = {"schedulerName": "s", "priority": number * 7919 % 100}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


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


def park(queue: QueueState, pods: Sequence[Pod], plugin: str) -> None:
    for pod in pods:
        handle(queue, PendingPodAdded(pod), 0.0)
    for _ in pods:
        handle(queue, AttemptFailed(pop(queue, 0.0), frozenset((plugin,))), 0.0)


def each(work: Callable[[], int]) -> float:
    """Microseconds per operation; `work` returns how many it did."""
    gc.collect()
    gc.disable()
    start = perf_counter()
    number = work()
    seconds = perf_counter() - start
    gc.enable()
    return seconds / number * 1e6


def measure(size: int) -> Figures:
    pods = [make_pod(number) for number in range(size)]
    more = [make_pod(size + number) for number in range(OPERATIONS)]
    changed = [make_pod(number, "x") for number in range(OPERATIONS)]

    active = new_queue()
    for pod in pods:
        handle(active, PendingPodAdded(pod), 0.0)
    add = each(lambda: sum(handle(active, PendingPodAdded(pod), 0.0) is None for pod in more))
    update = each(
        lambda: sum(
            handle(active, PendingPodUpdated(old, new), 0.0) is None
            for old, new in zip(pods, changed, strict=False)
        )
    )
    delete = each(lambda: sum(handle(active, PendingPodDeleted(pod), 0.0) is None for pod in more))

    def pops() -> int:
        number = min(size, OPERATIONS)
        for _ in range(number):
            handle(active, Done(pop(active, 0.0).info.uid), 0.0)
        return number

    popped = each(pops)

    parked = new_queue()
    park(parked, pods, "Fit")
    nobody = each(
        lambda: sum(handle(parked, ClusterChanged(TAINTED), 5.0) is None for _ in range(OPERATIONS))
    )

    park(parked, [make_pod(size + OPERATIONS)], "Label")
    one = 0.0
    for number in range(OPERATIONS):
        now = 20.0 + 0.01 * number
        start = perf_counter()
        handle(parked, ClusterChanged(LABELLED), now)
        one += perf_counter() - start
        handle(parked, AttemptFailed(pop(parked, now), frozenset(("Label",))), now)
    one *= 1e6 / OPERATIONS
    node = Node()
    everybody = each(lambda: int(handle(parked, ClusterChanged(LARGER, node, node), 40.0) is None))

    def flush() -> int:
        handle(parked, FlushUnschedulable(), 1e4)
        assert parked.statistics().active == size + 1
        return size

    flushed = each(flush)
    return Figures(size, add, popped, update, delete, nobody, one, everybody, flushed)


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    help="How to print the figures.",
)
@click.option(
    "--pods",
    type=int,
    multiple=True,
    default=SIZES,
    help="Sizes of the queue, instead of 1k, 10k, 100k.",
)
def main(output: str, pods: tuple[int, ...]) -> None:
    """Measure the scheduling queue's operations."""
    rows = [measure(size) for size in pods]
    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(rows), indent=2))
        return
    table = Table(title="scheduling queue: microseconds per operation")
    for name in Figures.__struct_fields__:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        size, *figures = msgspec.structs.astuple(row)
        table.add_row(f"{size:,}", *(f"{figure:,.1f}" for figure in figures))
    Console().print(table)


if __name__ == "__main__":
    main()
