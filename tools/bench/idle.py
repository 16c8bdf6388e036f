"""Measures a toy cluster in which nothing changes: `python -m berth.tools.bench.idle [-o json]`.

One process runs the embedded API server, the controllers and the kubelets, as `berth demo` does.
Deployments of 500 pods are created and their pods bound in turn to all nodes. Once the pods run and
nothing is written any more but leases and heartbeats, the CPU time of the process is measured for
`--seconds`.
"""

from __future__ import annotations

import gc
import resource
import time
from itertools import cycle
from random import Random

import anyio
import click
import msgspec

from berth.actors.client.rest import ApiError
from berth.actors.client.watch import ObjectChanged
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.kube.core import Pod

from ..cluster.apiserver.app import serve
from ..cluster.controllers.controller_manager import run_controllers
from ..cluster.controllers.embedded_access import EmbeddedAccess
from ..cluster.kubelets.kubelets import run_kubelets
from ..kubernetes.api.store import Store, StoreEvent
from ..kubernetes.api.time_and_chance import TimeAndChance
from ..kubernetes.api.types.api_documents import Document
from ..kubernetes.api.types.resources import BY_KIND, Kind
from ..kubernetes.api.writes.registry import Api
from ..kubernetes.kubelet.hollow_nodes import hollow_node
from .objects import NODES, PODS
from .programs import figures_option, nodes_option, pods_option, show, table

DEPLOYMENTS = BY_KIND["apps/v1", "Deployment"]
LEASES = BY_KIND["coordination.k8s.io/v1", "Lease"]
PODS_EACH = 500
SETTLED_SECONDS = 15.0  # longer than the interval of leases
_ALIVE = (LEASES, NODES)  # the kinds that are written even if nothing changes


class IdleFigures(msgspec.Struct, frozen=True):
    """The load of a cluster in which nothing changes. `cores` is the CPU time of the process,
    divided by the elapsed time.
    """

    nodes: int
    pods: int
    start_seconds: float
    renewals_per_second: float
    heartbeats_per_second: float
    cores: float
    rss_bytes: int


class _Writes:
    """The number of writes by kind, and the time of the last write that changed something."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(_ALIVE, 0)
        self.changed = time.monotonic()

    def note(self, kind: Kind, _: StoreEvent) -> None:
        if kind in self.counts:
            self.counts[kind] += 1
        else:
            self.changed = time.monotonic()


def deployment(name: str, replicas: int) -> Document:
    labels = {"app": name}
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def measure(nodes: int, pods: int, seconds: float) -> IdleFigures:
    writes, clock, rng = _Writes(), SystemClock(), Random(0)
    store = Store(TimeAndChance(clock.wall, rng), journal=writes.note)
    access, began = EmbeddedAccess(store), time.monotonic()
    async with serve(store=store), anyio.create_task_group() as group:
        for number in range(1, nodes + 1):
            Api(store).create(NODES, "", hollow_node(number))
        await group.start(run_kubelets, access, clock, rng)
        await group.start(run_controllers, access, clock, rng)
        group.start_soon(_bind, access, nodes)
        for first in range(0, pods, PODS_EACH):
            document = deployment(f"app-{first}", min(PODS_EACH, pods - first))
            Api(store).create(DEPLOYMENTS, "default", document)
        while time.monotonic() - writes.changed < SETTLED_SECONDS:
            await clock.sleep(1.0)
        running = sum(
            stored.document["status"].get("phase") == "Running" for stored in store.list(PODS)
        )
        start = writes.changed - began
        gc.collect()
        gc.freeze()
        before, cpu, since = dict(writes.counts), time.process_time(), time.monotonic()
        await anyio.sleep(seconds)
        lasted = time.monotonic() - since
        figures = IdleFigures(
            nodes,
            running,
            start,
            (writes.counts[LEASES] - before[LEASES]) / lasted,
            (writes.counts[NODES] - before[NODES]) / lasted,
            (time.process_time() - cpu) / lasted,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )
        group.cancel_scope.cancel()
    return figures


async def _bind(access: EmbeddedAccess, nodes: int) -> None:
    """Binds pods to the nodes in turn, as a scheduler without a choice would."""
    names = cycle(f"node-{number}" for number in range(1, nodes + 1))
    async for change in access.follow(PODS.path(), Pod, "fieldSelector=spec.nodeName=").changes():
        if isinstance(change, ObjectChanged) and not change.object.spec.node_name:
            metadata = change.object.metadata
            try:
                await access.bind(metadata.namespace, metadata.name, metadata.uid, next(names))
            except ApiError as refused:
                if refused.code not in (404, 409):
                    raise


@click.command()
@pods_option
@nodes_option
@click.option("--seconds", default=60.0, show_default=True, help="How long to measure.")
@figures_option
def main(pods: int, nodes: int, seconds: float, output: str) -> None:
    """Measure the CPU time of a toy cluster in which nothing changes."""
    figures = anyio.run(measure, nodes, pods, seconds, backend_options={"use_uvloop": True})
    columns = ("nodes", "pods", "start s", "renewals/s", "heartbeats/s", "cores", "peak MB")
    row = list(msgspec.structs.astuple(figures))
    row[0], row[1] = f"{nodes:,}", f"{figures.pods:,}"
    row[-2], row[-1] = f"{figures.cores:.3f}", f"{figures.rss_bytes / 1e6:,.0f}"
    show(output, figures, table(columns, [row], "{:.1f}"))


if __name__ == "__main__":
    main()
