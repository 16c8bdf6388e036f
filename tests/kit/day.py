"""A day of a cluster with leaking pods and full disks, in virtual time and in one process.

`python -m tests.kit.day` plays it with 200 nodes and 2,000 pods, and prints what happened and the
seconds that it took. The same seed gives the same writes, in the same order, at the same times.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import resource
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from random import Random

import anyio

from berth.actors.process.collector import tune_collector
from berth.tools.cluster.controllers.cluster_access import LEASES
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.api.store import StoreEvent
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import BEGAN, VirtualLoop, run_virtually
from tests.kit.documents import Document
from tests.kit.embedded import running
from tests.kit.stores import fresh_store

DEPLOYMENTS, NODES = BY_KIND["apps/v1", "Deployment"], BY_KIND["v1", "Node"]
CALM = "memory=200Mi, cpu=100m"


class _Clock:
    """The time of a loop, without looking the loop up at each call."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.now = loop.time
        self._at, self._wall = 0.0, BEGAN

    def wall(self) -> datetime:
        now = self.now()
        if now != self._at:
            self._at, self._wall = now, BEGAN + timedelta(seconds=now)
        return self._wall

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class History:
    """The writes of a cluster: their number by kind and type, and a digest of all of them."""

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock
        self._time, self._text = -1.0, b""
        self._renewed: list[str] = []  # at the time of the last write, and not in the digest yet
        self._digest = hashlib.sha256()
        self.writes: Counter[tuple[Kind, str]] = Counter()
        self.evicted = 0

    def note(self, kind: Kind, event: StoreEvent) -> None:
        if (now := self._clock.now()) != self._time:
            self.settle()
            self._time, self._text = now, b"%f" % now
        if event.renews:  # the JSON of these would take a third of the time
            self._renewed.append(event.renews[1])
            return
        self.settle()
        self.writes[kind, event.type] += 1
        if kind.kind == "Event" and event.after.document.get("reason") == "Evicted":
            self.evicted += 1
        self._digest.update(b"%s %s\n" % (self._text, event.after.raw))

    def settle(self) -> None:
        """Takes the renewals since the last call into account."""
        if self._renewed:
            self.writes[LEASES, "MODIFIED"] += len(self._renewed)
            text = self._text.decode()
            lines = [f"{text} {name}\n" for name in self._renewed]
            self._digest.update("".join(lines).encode())
            self._renewed.clear()

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


def deployments(pods: int) -> Iterator[Document]:
    """Yields Deployments with so many pods: nine of ten calm, the others leak or fill the disk.

    A leak fills a node in 6 to 17 hours.
    """
    tenth = max(pods // 100, 1)
    yield _deployment("calm", CALM, pods - 10 * tenth)
    for number in range(5):
        yield _deployment(f"leak-{number}", f"memory=500Mi+{0.6 + 0.2 * number:.1f}Mi/s", tenth)
        yield _deployment(
            f"disk-{number}", f"ephemeral-storage=1Gi+{1.6 + 0.5 * number:.1f}Mi/s", tenth
        )


def _deployment(name: str, usage: str, replicas: int) -> Document:
    requests = {"cpu": "100m", "memory": "256Mi"}
    container = {"name": "app", "image": "nginx", "resources": {"requests": requests}}
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels, "annotations": {"berth.dev/usage": usage}},
        "spec": {"containers": [container]},
    }
    selector = {"matchLabels": labels}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def _play(nodes: int, pods: int, hours: float, seed: int) -> History:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock, rng = _Clock(loop), Random(seed)
    history = History(clock)
    store = fresh_store(journal=history.note, seed=seed)
    api = Api(store)
    api.seed()
    for number in range(1, nodes + 1):
        api.create(NODES, "", hollow_node(number))
    for document in deployments(pods):
        api.create(DEPLOYMENTS, "default", document)
    access = EmbeddedAccess(store)
    async with running(access, clock, rng):
        await anyio.sleep(hours * 3600)
    history.settle()
    return history


def play(nodes: int, pods: int, hours: float, seed: int = 1) -> History:
    """Plays so many hours of a cluster."""
    return run_virtually(partial(_play, nodes, pods, hours, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tune_collector()
    history = play(options.nodes, options.pods, options.hours, options.seed)
    used = resource.getrusage(resource.RUSAGE_SELF)
    for (kind, how), count in history.writes.most_common(12):
        print(f"{count:>10,} {kind.plural} {how}")
    print(f"{history.evicted} evictions, digest {history.digest[:16]}")
    print(f"{used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
