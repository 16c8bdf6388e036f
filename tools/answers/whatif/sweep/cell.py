"""A what-if of a sweep: nodes are added, then the workload, and the pods are placed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from berth.actors.process.version import BERTH
from berth.actors.scheduling.decision.registry import RegistryError
from berth.config.load import ConfigError, from_mapping

from ....kubernetes.api.types.resources import BY_KIND
from ...explain.cluster_source import SourceError, classes_of
from ...manifests.manifests import Manifest
from ..placement import Placing
from ..trial import apply, pending_of
from ..tried_documents import Documents, is_pending
from ..workload_pods import add_like, reconcile
from .plan import Cell, Fleet, Plan, PlannedType


class CellWaiting(msgspec.Struct, frozen=True):
    """The number of pods of a workload that stay pending for the same reason."""

    workload: str
    pods: int
    reason: str


class CellResult(msgspec.Struct, frozen=True):
    """The result of a what-if.

    `cpu` and `memory` are the requests of pods in percent of all nodes, `cost` is the cost of the
    added nodes per hour.
    """

    cell: int
    fleet: Fleet
    configuration: str
    seed: int
    cost: float
    nodes: int
    cpu: int
    memory: int
    placed: int
    evicted: int
    pending: list[CellWaiting]

    @property
    def waiting(self) -> int:
        return sum(of.pods for of in self.pending)


class Failed(msgspec.Struct, frozen=True):
    """A what-if without a result."""

    cell: Cell
    reason: str


Outcome = CellResult | Failed


class WhatIfs:
    """The what-ifs of a plan. A cell has the same result in every process."""

    def __init__(self, plan: bytes) -> None:
        self._plan = msgspec.json.decode(plan, type=Plan)
        if self._plan.berth != BERTH:
            raise ValueError(f"the plan is of berth {self._plan.berth}, this is berth {BERTH}")
        self._configurations = {
            name: from_mapping(of, self._plan.gates)
            for name, of in self._plan.configurations.items()
        }
        # Pods that wait without the workload are tried, but are not what the sweep asks for.
        self._others = {
            f"{of['metadata'].get('namespace') or ''}/{of['metadata']['name']}"
            for of in (self._plan.objects if self._plan.workload else ())
            if of["kind"] == "Pod" and is_pending(of)
        }

    def outcome(self, cell: Cell) -> Outcome:
        try:
            return self._result(cell)
        except (SourceError, ConfigError, RegistryError) as problem:
            return Failed(cell, str(problem))

    def _result(self, cell: Cell) -> CellResult:
        plan = self._plan
        documents = Documents(plan.objects, self._configurations[cell.configuration], plan.gates)
        placing = Placing(documents, cell.seed)
        for of in plan.types:
            _add(documents, of, cell.fleet.get(of.name, 0))
        _add_daemons(documents, placing, [of for of in plan.types if of.objects])
        placing.settle()
        placing.step = 1
        manifests = (
            Manifest(BY_KIND[of["apiVersion"], of["kind"]], of, "workload") for of in plan.workload
        )
        apply(documents, placing, manifests)
        placing.settle()
        for refused in placing.refused.values():
            raise SourceError(f"{refused.workload} gets no pods: {refused.reason}")
        infos = documents.node_infos().values()
        cpu, memory = (
            100
            * sum(info.requested.get(of, 0) for info in infos)
            // max(sum(info.allocatable.get(of, 0) for info in infos), 1)
            for of in ("cpu", "memory")
        )
        return CellResult(
            cell.number,
            cell.fleet,
            cell.configuration,
            cell.seed,
            plan.price_of(cell.fleet),
            len(infos),
            cpu,
            memory,
            len(placing.placed),
            len(placing.evicted),
            list(self._waiting(documents, placing)),
        )

    def _waiting(self, documents: Documents, placing: Placing) -> Iterable[CellWaiting]:
        for of in pending_of(documents, placing):
            pods = sum(pod not in self._others for pod in of.pods)
            if pods:
                yield CellWaiting(of.workload, pods, of.reason)


def _add(documents: Documents, of: PlannedType, count: int) -> None:
    """Adds nodes of a type."""
    if not count:
        return
    places = [documents.put(document) for document in of.objects]
    add_like(documents, of.like, count)
    for place in reversed(places):
        documents.remove(place)


def _add_daemons(documents: Documents, placing: Placing, types: list[PlannedType]) -> None:
    """Creates the pods of DaemonSets on the nodes of manifests."""
    if types:
        store = classes_of(documents.all())
        for place, _ in documents.every("DaemonSet"):
            reconcile(documents, placing, place, store)
