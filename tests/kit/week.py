"""A week of a cluster in virtual time: nodes, taints, labels, budgets and pods come and go.

`python -m tests.kit.week` plays it, and prints what a decision costs and the memory that is in use,
at its beginning and at its end, when the cluster is the same again.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections import deque
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import NamedTuple

import msgspec

from berth.actors.cache.state import CacheState
from berth.actors.client.sharing import Sharing
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectPut,
    ObjectRemoved,
)
from berth.actors.scheduling.decision.outcome import Choice, Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.model.pod_info import PodInfo, PodInfos
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration
from tests.kit.call_counts import calls_of
from tests.kit.documents import Document
from tests.kit.handle import NoApi

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOURS = 168
LARGE = 40_000  # bytes of an annotation


class Cost(NamedTuple):
    """The function calls of some decisions, and the bytes in use."""

    calls: int
    used: int


class Week:
    """The cluster: nodes that stay, and whatever came in the last hours."""

    def __init__(self, nodes: int, seed: int) -> None:
        self._cache, self._scheduler = CacheState(), Scheduler(Random(seed))
        (self._profile,) = profiles_of(KubeSchedulerConfiguration(), NoApi()).values()
        self._infos, self._sharing, self._rng = PodInfos(), Sharing(), Random(seed)
        self._nodes = [self._node(f"n{number}") for number in range(nodes)]
        self._pods: deque[Pod] = deque()
        self._passing: deque[Node] = deque()
        self._number = 0
        for node in self._nodes:
            self._cache.handle(NodeAdded(node))

    def _node(self, name: str, hour: int = -1) -> Node:
        """Returns a node as it is in an hour, or as it was at first."""
        labels = {HOST: name, ZONE: f"z{len(name) % 3}"}
        taints: list[Document] = []
        features: list[str] = []
        if hour >= 0:
            labels |= {f"example.com/job-{name}-{hour}": "x", "example.com/seen": f"{name}-{hour}"}
            added = {"effect": "PreferNoSchedule", "timeAdded": f"2026-01-01T00:00:{hour % 60:02}Z"}
            taints = [{"key": "drain", "value": f"{name}-{hour}", **added}]
            features = [f"Feature-{name}-{hour}"]
        status = {"allocatable": {"cpu": 16, "memory": "64Gi", "pods": 110}}
        document = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {**status, "declaredFeatures": features},
        }
        return msgspec.convert(document, Node)

    def _new_pod(self, *, priority: int = 0) -> Pod:
        """Returns a pod of a template of its own, some of them large."""
        self._number += 1
        app = f"app-{self._number}"
        labels = {"app": app, "job": f"j{self._number}"}
        selector = {"labelSelector": {"matchLabels": {"app": app}}}
        spread = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **selector}
        topologies = (HOST, ZONE, "example.com/seen")
        constraints = [{"topologyKey": key, **spread} for key in topologies]
        away = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, **selector}]}}
        container = {"name": "c", "resources": {"requests": {"cpu": "500m"}}}
        note = {"note": app.ljust(LARGE)} if not self._number % 5 else {}
        metadata = {"name": app, "namespace": f"ns-{self._number % 7}", "uid": app}
        spec = {
            "schedulerName": "default-scheduler",
            "priority": priority,
            "containers": [container],
            "affinity": away,
            "topologySpreadConstraints": constraints,
        }
        document = {
            "metadata": {**metadata, "labels": labels, "annotations": note},
            "spec": spec,
        }
        return self._sharing.shared(msgspec.convert(document, Pod))

    def _decide(self, pod: Pod) -> Choice | Unfit:
        snapshot = self._cache.snapshot()
        outcome = self._scheduler.schedule(self._profile, self._infos.of(pod), snapshot)
        assert isinstance(outcome, Choice | Unfit)
        return outcome

    def hour(self, hour: int) -> None:
        """Plays an hour: half of the nodes change, and some nodes and pods come and go."""
        for node in self._rng.sample(self._nodes, len(self._nodes) // 2):
            self._cache.handle(NodeUpdated(node, self._node(node.metadata.name, hour)))
        passing = self._node(f"spot-{hour}", hour)
        self._cache.handle(NodeAdded(passing))
        self._passing.append(passing)
        budget = self._budget(hour)
        self._cache.handle(ObjectPut(budget))
        for _ in range(10):
            pod = self._new_pod()
            outcome = self._decide(pod)
            if isinstance(outcome, Choice):
                spec = msgspec.structs.replace(pod.spec, node_name=outcome.node)
                bound = msgspec.structs.replace(pod, spec=spec)
                self._cache.handle(AssignedPodAdded(bound))
                self._pods.append(bound)
        self._end(most_pods=40, most_nodes=2)
        self._cache.handle(ObjectRemoved(budget))

    def _budget(self, hour: int) -> PodDisruptionBudget:
        selector = {"matchLabels": {"app": f"app-{self._number}"}}
        metadata = {"name": f"b{hour}", "namespace": "ns-1"}
        return msgspec.convert(
            {"metadata": metadata, "spec": {"selector": selector}}, PodDisruptionBudget
        )

    def _end(self, *, most_pods: int, most_nodes: int) -> None:
        while len(self._pods) > most_pods:
            self._cache.handle(AssignedPodDeleted(self._pods.popleft()))
        while len(self._passing) > most_nodes:
            self._cache.handle(NodeDeleted(self._passing.popleft()))

    def rest(self) -> None:
        """Makes the cluster what it was at first."""
        self._end(most_pods=0, most_nodes=0)
        for node in self._nodes:
            self._cache.handle(NodeUpdated(node, node))
        self._cache.snapshot()

    def cost(self) -> Cost:
        """Measures decisions about pods of new templates; `tracemalloc` has to run."""
        new = [PodInfo(self._new_pod()) for _ in range(5)]
        snapshot = self._cache.snapshot()
        calls = calls_of(partial(self._decide_each, new, snapshot))
        gc.collect()
        return Cost(calls, tracemalloc.get_traced_memory()[0])

    def _decide_each(self, infos: list[PodInfo], snapshot: Snapshot) -> None:
        for info in infos:
            self._scheduler.schedule(self._profile, info, snapshot)


def play(first: int, hours: int, nodes: int = 50, seed: int = 1) -> Iterator[Cost]:
    """Yields the cost after the first hours, and after so many hours in all."""
    tracemalloc.start()
    try:
        week = Week(nodes, seed)
        for since, until in ((0, first), (first, hours)):
            for hour in range(since, until):
                week.hour(hour)
            week.rest()
            yield week.cost()
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=HOURS)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for cost in play(24, options.hours, options.nodes, options.seed):
        print(f"{cost.calls:,} calls, {cost.used / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
