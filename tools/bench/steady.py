"""Measures the pauses of a running scheduler in a big cluster.

Usage: `python -m berth.tools.bench.steady [--pods N] [--nodes N] [-o json]`

Begins like `berth.tools.bench.start`; then the cluster lives on for a while. Pods are created, run
once they are bound, and are deleted, some at a time and once many together. Pods that were there
from the beginning are deleted or updated, and nodes send heartbeats. At the end the API server
drops its history, so that everything is listed again. Reports the pauses of the garbage collector
in the scheduler's process, and how late its event loop was. The exit code is 1 if the collector
stopped it for longer than 20 ms.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from itertools import cycle

import anyio
import click
import msgspec

from ..cluster.apiserver.app import serve
from ..kubernetes.api.requests.media_types import STRATEGIC
from ..kubernetes.api.requests.request_bodies import DeleteOptions
from ..kubernetes.api.store import Store
from ..kubernetes.api.writes.registry import Api
from .measure import Effort, Pauses
from .objects import NODES, PODS
from .processes import Worker, worker
from .programs import figures_option, nodes_option, pods_option, show, table
from .start import filled
from .worker import RunScheduler

LONGEST_PAUSE_MS = 20.0
TURN_SECONDS = 0.1
HEARTBEATS_A_TURN = 20
UPDATES_A_TURN = 50
HISTORY = 20_000
LIVES = 20  # number of turns for which a pod lives
BURST = 4  # one in this many pods is created at half-time, all at once
NEW_TEMPLATES = 7
NOW = DeleteOptions(grace_period_seconds=0)
STALL_SECONDS = 120.0


class Phase(msgspec.Struct, frozen=True):
    """The pauses during the start, the run or the relist; `peak_rss_bytes` is the peak until its
    end.
    """

    name: str
    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    pauses: Pauses


class SteadyFigures(msgspec.Struct, frozen=True):
    """The phases of a run; `bound` is the number of pods created and bound after the start."""

    pods: int
    nodes: int
    bound: int
    phases: tuple[Phase, ...]

    @property
    def longest_ms(self) -> float:
        return max(
            collections.longest_ms
            for phase in self.phases
            for collections in phase.pauses.collections
        )


class Life:
    """The changes of the cluster after the start: pods that come and go, and heartbeats, each at
    its time.
    """

    def __init__(self, store: Store, pods: int, turns: int) -> None:
        self._api = Api(store)
        self._store = store
        self._turns = turns
        self._trickle = (pods - pods // BURST) // turns
        self._burst = pods - self._trickle * (turns - 1)
        self._created = 0
        self._pending: deque[str] = deque()
        self._running: deque[tuple[int, str]] = deque()
        self._nodes = cycle([stored.document["metadata"]["name"] for stored in store.list(NODES)])
        old = [stored.document["metadata"]["name"] for stored in store.list(PODS)]
        self._ending, self._staying = iter(old[: len(old) // 2]), cycle(old[len(old) // 2 :])
        self.bound = 0

    async def run(self) -> None:
        """Changes the cluster for a while. Raises TimeoutError if a new pod is still not bound at
        the end.
        """
        for turn in range(self._turns):
            began = time.monotonic()
            self._create(self._burst if turn == self._turns // 2 else self._trickle)
            self._follow(turn)
            for _ in range(HEARTBEATS_A_TURN):
                self._send_heartbeat(next(self._nodes))
                await anyio.lowlevel.checkpoint()
            for _ in range(UPDATES_A_TURN):
                self._update(next(self._staying, ""))
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(max(0.0, TURN_SECONDS - (time.monotonic() - began)))
        await self._settle()

    async def relist(self) -> None:
        """Drops the history, so that watches fail, and waits until a new pod is bound."""
        self._update(next(self._staying, ""))
        self._create(1)
        self._store.compact()
        await self._settle()

    async def _settle(self) -> None:
        with anyio.fail_after(STALL_SECONDS):
            while self._pending:
                self._follow(self._turns)
                await anyio.sleep(TURN_SECONDS)

    def _create(self, number: int) -> None:
        for _ in range(number):
            name, which = f"new-{self._created}", self._created % NEW_TEMPLATES
            requests = {"requests": {"cpu": "50m", "memory": "32Mi"}}
            container = {
                "name": "main",
                "image": f"registry.example/new-{which}:v1",
                "resources": requests,
            }
            metadata = {"name": name, "labels": {"app": f"app-{which:02}"}}
            self._api.create(
                PODS, "default", {"metadata": metadata, "spec": {"containers": [container]}}
            )
            self._pending.append(name)
            self._created += 1

    def _follow(self, turn: int) -> None:
        """Marks newly bound pods as running, and deletes those that have lived long enough. For
        each of these it also deletes one of the pods that were there at the start.
        """
        for _ in range(len(self._pending)):
            name = self._pending.popleft()
            if not self._store.get(PODS, "default", name)["spec"].get("nodeName"):
                self._pending.append(name)
                continue
            self.bound += 1
            status = {"phase": "Running", "startTime": self._store.outside.now()}
            self._api.patch(PODS, "default", name, {"status": status}, STRATEGIC, "status")
            self._running.append((turn, name))
        while self._running and self._running[0][0] + LIVES < turn:
            for ended in (self._running.popleft()[1], next(self._ending, "")):
                if ended:
                    self._api.delete(PODS, "default", ended, NOW)

    def _update(self, name: str) -> None:
        if name:
            condition = {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": self._store.outside.now(),
            }
            self._api.patch(
                PODS, "default", name, {"status": {"conditions": [condition]}}, STRATEGIC, "status"
            )

    def _send_heartbeat(self, name: str) -> None:
        conditions = [
            {
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "lastHeartbeatTime": self._store.outside.now(),
            }
        ]
        self._api.patch(
            NODES, "", name, {"status": {"conditions": conditions}}, STRATEGIC, "status"
        )


async def measure(pods: int, nodes: int, new: int, seconds: float) -> SteadyFigures:
    store = filled(pods, nodes, HISTORY)
    gc.collect()
    gc.freeze()
    async with serve(store=store) as url:
        began = time.monotonic()
        async with worker(RunScheduler("", "", url, profile=False, pauses=True)) as scheduler:
            await scheduler.ready()
            phases = [await _phase("starting", scheduler, began)]
            await scheduler.start()
            began = time.monotonic()
            life = Life(store, new, int(seconds / TURN_SECONDS))
            await life.run()
            phases.append(await _phase("running", scheduler, began))
            await scheduler.start()
            began = time.monotonic()
            await life.relist()
            phases.append(await _phase("listing anew", scheduler, began))
    return SteadyFigures(pods, nodes, life.bound, tuple(phases))


async def _phase(name: str, scheduler: Worker, began: float) -> Phase:
    seconds = time.monotonic() - began
    effort: Effort = await scheduler.stop()
    assert effort.pauses is not None
    assert effort.cpu_seconds is not None
    assert effort.peak_rss_bytes is not None
    return Phase(name, seconds, effort.cpu_seconds, effort.peak_rss_bytes, effort.pauses)


@click.command()
@pods_option
@nodes_option
@click.option(
    "--new",
    default=4_000,
    type=click.IntRange(min=1),
    show_default=True,
    help="Number of pods to create.",
)
@click.option("--seconds", default=30.0, type=click.FloatRange(1), show_default=True)
@figures_option
def main(pods: int, nodes: int, new: int, seconds: float, output: str) -> None:
    """Start a scheduler beside an API server with this many bound pods; let the cluster live on."""
    figures = anyio.run(measure, pods, nodes, new, seconds, backend_options={"use_uvloop": True})
    rows: list[tuple[object, ...]] = []
    for phase in figures.phases:
        for of in phase.pauses.collections:
            what = f"collection of generation {of.generation}"
            rows.append((what, phase.name, of.number, of.freed, of.p99_ms, of.longest_ms))
        late = phase.pauses.late_p99_ms, phase.pauses.latest_ms
        rows.append(("anything", phase.name, "", "", *late))
    columns = ("what stopped the scheduler", "while", "times", "freed", "p99 ms", "longest ms")
    title = f"{figures.pods:,} pods, {figures.nodes:,} nodes, {figures.bound:,} pods bound"
    notes = (
        f"{phase.name}: {phase.seconds:.1f} s, {phase.cpu_seconds:.1f} s of CPU, peak "
        f"{phase.peak_rss_bytes / 1e6:,.0f} MB"
        for phase in figures.phases
    )
    show(output, figures, table(columns, rows, "{:.1f}", title), *notes)
    if figures.longest_ms > LONGEST_PAUSE_MS:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
