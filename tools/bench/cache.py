"""What the cache costs: `python -m tools.bench.cache [-o json]`.

Each figure is microseconds for one operation on a cache that holds so many pods, 50 to a node. Only the last two rows
may grow with the cluster: a node that comes or goes gives all nodes a new order, and the comparison looks at each pod
(every half minute, in the background).
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from time import perf_counter

import click
import msgspec
from rich.console import Console
from rich.table import Table

from actors.cache.state import CacheState
from actors.kube.core import Node, Pod
from actors.kube.meta import key
from actors.messages import (
    AssignedPodAdded,
    AssignedPodDeleted,
    Assume,
    CacheMessage,
    Compare,
    Forget,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    TakeSnapshot,
)
from actors.model.pod_info import PodInfo

SIZES = (1_000, 10_000, 100_000)
PODS_A_NODE = 50
OPERATIONS = 1_000


class Nobody:
    """A reply that nobody waits for."""

    def set(self, value: object) -> None:
        raise AssertionError(value)


class Figures(msgspec.Struct, frozen=True):
    """Microseconds an operation, for a cache of `pods`; `compare` is one whole comparison."""

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


def make_pod(number: int, node: str = "") -> Pod:
    metadata = {"namespace": "ns", "name": f"p{number}", "uid": f"u{number}", "labels": {"app": f"a{number % 20}"}}
    container = {"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [container], "nodeName": node}}, Pod)


def make_node(number: int, turn: int = 0) -> Node:
    zone = {"topology.kubernetes.io/zone": f"z{number % 3}", "turn": str(turn)}
    document = {
        "metadata": {"name": f"n{number}", "labels": zone, "resourceVersion": str(turn)},
        "status": {"allocatable": {"cpu": 32, "memory": "128Gi", "pods": 110}},
    }
    return msgspec.convert(document, Node)


def each(work: Callable[[int], object], times: int = OPERATIONS) -> float:
    """Microseconds for one of so many operations; the work is given their numbers."""
    gc.collect()
    gc.disable()
    start = perf_counter()
    for number in range(times):
        work(number)
    seconds = perf_counter() - start
    gc.enable()
    return seconds / times * 1e6


def measure(size: int) -> Figures:
    cache, look = CacheState(), TakeSnapshot(Nobody())
    nodes = size // PODS_A_NODE
    pods = [make_pod(number, f"n{number % nodes}") for number in range(size)]
    for number in range(nodes):
        cache.handle(NodeAdded(make_node(number)))
    for pod in pods:
        cache.handle(AssignedPodAdded(pod))
    cache.handle(look)

    def send(messages: list[CacheMessage]) -> float:
        return each(lambda number: cache.handle(messages[number]))

    def with_snapshot(messages: list[CacheMessage], times: int = OPERATIONS) -> float:
        def both(number: int) -> None:
            cache.handle(messages[number])
            cache.handle(look)

        return each(both, times)

    fresh = [PodInfo(make_pod(size + number)) for number in range(OPERATIONS)]
    where = [f"n{number % nodes}" for number in range(OPERATIONS)]
    told = [make_pod(size + number, where[number]) for number in range(OPERATIONS)]
    assume = send([Assume(info, node) for info, node in zip(fresh, where, strict=True)])
    confirm = send([AssignedPodAdded(pod) for pod in told])
    remove = send([AssignedPodDeleted(pod) for pod in told])
    add = send([AssignedPodAdded(pod) for pod in told])
    send([AssignedPodDeleted(pod) for pod in told])
    send([Assume(info, node) for info, node in zip(fresh, where, strict=True)])
    forget = send([Forget(info, node) for info, node in zip(fresh, where, strict=True)])
    cache.handle(look)
    olds = [make_node(number % nodes) for number in range(OPERATIONS)]
    updates = [NodeUpdated(old, make_node(n % nodes, n)) for n, old in enumerate(olds)]
    node_update = send([*updates])
    cache.handle(look)
    unchanged = each(lambda _: cache.handle(look))
    after_pod = with_snapshot([Assume(info, node) for info, node in zip(fresh, where, strict=True)])
    after_update = with_snapshot([*updates])
    coming = [NodeAdded(make_node(nodes + number)) for number in range(100)]
    after_added = with_snapshot([*coming], 100)
    for arrival in coming:
        cache.handle(NodeDeleted(arrival.node))
    objects = {key(pod): pod for pod in pods}
    known = {f"n{number}": make_node(number) for number in range(nodes)}
    compare = each(lambda _: cache.handle(Compare(Nobody(), known, objects, heal=False)), 3)
    cache.validate()
    return Figures(
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
    )


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(output: str) -> None:
    """Measure the cache's operations at 1,000, 10,000 and 100,000 pods."""
    measured = [measure(size) for size in SIZES]
    if output == "json":
        click.echo(json.dumps([msgspec.structs.asdict(figures) for figures in measured], indent=2))
        return
    table = Table("microseconds an operation", *(f"{figures.pods:,} pods" for figures in measured))
    for field in Figures.__struct_fields__[1:]:
        table.add_row(field.replace("_", " "), *(f"{getattr(figures, field):,.1f}" for figures in measured))
    Console().print(table)


if __name__ == "__main__":
    main()
