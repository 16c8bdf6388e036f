"""Measures the cache: `python -m berth.tools.bench.cache [-o json]`.

Each figure is microseconds per operation, on a cache with the given number of pods, 50 on each
node. Only two rows may grow with the cluster. A node that is added or deleted changes the order of
all nodes. The comparison looks at every pod (every half minute, in the background), but in slices:
the last row is the longest time for which it blocks the event loop.
"""

from __future__ import annotations

from time import perf_counter

import anyio
import anyio.lowlevel
import click
import msgspec

from berth.actors.binding.state import PodsInBinding
from berth.actors.cache.actor import CacheActor
from berth.actors.cache.debugger import CacheDebugger
from berth.actors.cache.state import CacheState
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    Assume,
    CacheMessage,
    Forget,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
)
from berth.actors.queue.actor import QueueActor
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.framework.status import SUCCESS
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.model.pod_info import PodInfos
from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Registry

from . import programs
from .programs import OPERATIONS, figures_option, microseconds, show, table

SIZES = (1_000, 10_000, 100_000)
PODS_A_NODE = 50


class CacheFigures(msgspec.Struct, frozen=True):
    """Microseconds per operation, for a cache of `pods`.

    `compare` is a whole comparison, `compare_stall` the longest time in it during which nothing
    else could run; both are the best of three.
    """

    pods: int
    assume: float
    confirm: float
    add: float
    remove: float
    forget: float
    node_update: float
    snapshot_unchanged: float
    snapshot_after_pod: float
    snapshot_after_node_update: float
    snapshot_after_node_added: float
    compare: float
    compare_stall: float


def make_pod(number: int, node: str = "") -> Pod:
    containers = [{"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]
    labels = {"app": f"a{number % 20}"}
    return programs.make_pod("ns", number, labels, containers=containers, nodeName=node)


def make_node(number: int, turn: int = 0) -> Node:
    labels = {"topology.kubernetes.io/zone": f"z{number % 3}", "turn": str(turn)}
    return programs.make_node(number, labels, turn, cpu=32, memory="128Gi", pods=110)


def measure(size: int) -> CacheFigures:
    cache = CacheState()
    nodes = size // PODS_A_NODE
    pods = [make_pod(number, f"n{number % nodes}") for number in range(size)]
    for number in range(nodes):
        cache.handle(NodeAdded(make_node(number)))
    for pod in pods:
        cache.handle(AssignedPodAdded(pod))
    cache.snapshot()

    def send(messages: list[CacheMessage]) -> float:
        return microseconds(lambda number: cache.handle(messages[number]))

    def with_snapshot(messages: list[CacheMessage], times: int = OPERATIONS) -> float:
        def both(number: int) -> None:
            cache.handle(messages[number])
            cache.snapshot()

        return microseconds(both, times)

    infos = PodInfos()
    fresh = [infos.of(make_pod(size + number)) for number in range(OPERATIONS)]
    where = [f"n{number % nodes}" for number in range(OPERATIONS)]
    bound = [make_pod(size + number, where[number]) for number in range(OPERATIONS)]
    assume = send([Assume(info, node) for info, node in zip(fresh, where, strict=True)])
    confirm = send([AssignedPodAdded(pod) for pod in bound])
    remove = send([AssignedPodDeleted(pod) for pod in bound])
    add = send([AssignedPodAdded(pod) for pod in bound])
    send([AssignedPodDeleted(pod) for pod in bound])
    send([Assume(info, node) for info, node in zip(fresh, where, strict=True)])
    forget = send([Forget(info, node) for info, node in zip(fresh, where, strict=True)])
    cache.snapshot()
    olds = [make_node(number % nodes) for number in range(OPERATIONS)]
    updates = [NodeUpdated(old, make_node(n % nodes, n)) for n, old in enumerate(olds)]
    node_update = send([*updates])
    cache.snapshot()
    unchanged = microseconds(lambda _: cache.snapshot())
    after_pod = with_snapshot([Assume(info, node) for info, node in zip(fresh, where, strict=True)])
    after_update = with_snapshot([*updates])
    coming = [NodeAdded(make_node(nodes + number)) for number in range(100)]
    after_added = with_snapshot([*coming], 100)
    for arrival in coming:
        cache.handle(NodeDeleted(arrival.node))
    objects = {key(pod): pod for pod in pods}
    nodes_by_name = {f"n{number}": make_node(number) for number in range(nodes)}
    compare, stall = min(anyio.run(comparison, cache, nodes_by_name, objects) for _ in range(3))
    cache.validate()
    return CacheFigures(
        size,
        assume,
        confirm,
        add,
        remove,
        forget,
        node_update,
        unchanged,
        after_pod,
        after_update,
        after_added,
        compare,
        stall,
    )


async def comparison(
    state: CacheState, nodes: dict[str, Node], pods: dict[str, Pod]
) -> tuple[float, float]:
    """Returns microseconds for a whole comparison, and for the longest wait of a ready task."""
    mailboxes = Mailboxes()
    rules = QueueRules(lambda info, at: (-info.priority, at), lambda _: SUCCESS, {})
    clock, longest = SystemClock(), 0.0
    debugger = CacheDebugger(
        mailboxes,
        lambda: nodes,
        lambda: pods,
        {"default-scheduler"},
        clock,
        PodsInBinding().statistics,
    )

    async def wait_turns() -> None:
        nonlocal longest
        before = perf_counter()
        while True:
            await anyio.lowlevel.checkpoint()
            longest, before = max(longest, perf_counter() - before), perf_counter()

    async with anyio.create_task_group() as group:
        await group.start(CacheActor(mailboxes, state).run)
        instruments = Instruments(Registry(), clock.now)
        await group.start(QueueActor(mailboxes, QueueState(rules), clock, instruments).run)
        group.start_soon(wait_turns)
        await anyio.lowlevel.checkpoint()
        start = perf_counter()
        await debugger.compare()
        seconds = perf_counter() - start
        group.cancel_scope.cancel()
    mailboxes.close()
    return seconds * 1e6, longest * 1e6


@click.command()
@figures_option
def main(output: str) -> None:
    """Measure the cache's operations at 1,000, 10,000 and 100,000 pods."""
    measured = [measure(size) for size in SIZES]
    columns = ["microseconds per operation", *(f"{figures.pods:,} pods" for figures in measured)]
    rows = [
        (field.replace("_", " "), *(getattr(figures, field) for figures in measured))
        for field in CacheFigures.__struct_fields__[1:]
    ]
    show(output, measured, table(columns, rows, "{:,.1f}"))


if __name__ == "__main__":
    main()
