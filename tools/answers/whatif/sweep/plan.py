"""The plan of a sweep: everything that its what-ifs read, in a form for other machines."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.configuration.file import file_or_default
from berth.actors.configuration.plugin_files import versions_of_files
from berth.actors.process.version import BERTH
from berth.actors.scheduling.kube.kinds import WatchedKind
from berth.config.types import KubeSchedulerConfiguration

from ...explain.cluster_source import (
    Live,
    SourceError,
    classes_of,
    completed_objects,
    from_manifests,
)
from ...explain.decider import Explainer
from ...manifests.manifests import STRICT, ManifestError, read
from ..start_cluster import cluster_of
from ..tried_documents import Document
from .definition import DEFAULT, Definition, NamedFile, NodeType, numbers

MOST_CELLS = 1_000_000
Fleet = dict[str, int]


class PlannedType(msgspec.Struct, frozen=True):
    """A node type. `objects` are its node and the pods on it, none if `like` is in the cluster."""

    name: str
    price: float
    like: str
    objects: list[Document]


class Cell(msgspec.Struct, frozen=True):
    """A what-if of a sweep: nodes to add by type, a configuration and a seed."""

    number: int
    fleet: Fleet
    configuration: str
    seed: int


class Plan(msgspec.Struct, frozen=True):
    """The input of all what-ifs of a sweep. Configurations are JSON by name. `plugins` are the
    check sums of the plugins that files offer, by name.
    """

    berth: str
    objects: list[Document]
    types: list[PlannedType]
    workload: list[Document]
    configurations: dict[str, Any]
    gates: dict[str, bool]
    fleets: list[Fleet]
    seeds: list[int]
    plugins: dict[str, str]

    def encoded(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)

    def cells(self) -> list[Cell]:
        matrix = product(self.fleets, self.configurations, self.seeds)
        return [Cell(number, *of) for number, of in enumerate(matrix)]

    def price_of(self, fleet: Fleet) -> float:
        """Returns the cost of a fleet per hour."""
        prices = {of.name: of.price for of in self.types}
        return round(sum(prices[name] * count for name, count in fleet.items()), 6)


def digest_of(plan: bytes) -> str:
    """Returns a hash that is different for different sweeps."""
    return hashlib.sha256(plan).hexdigest()


def plan_of(definition: Definition, live: Live, gates: Mapping[str, bool]) -> Plan:
    """Reads everything that a sweep names. The cluster is empty if the sweep names none.

    Raises SourceError, ConfigError, RegistryError, KubeconfigError or ConnectionFailedError.
    """
    fleets = list(_fleets(definition))
    seeds = numbers(definition.seeds, "seeds")
    named = definition.configurations or [NamedFile(DEFAULT)]
    _check_names("configuration", [of.name for of in named])
    configurations: dict[str, KubeSchedulerConfiguration] = {
        of.name: file_or_default(of.file, gates) for of in named
    }
    if len(fleets) * len(configurations) * len(seeds) > MOST_CELLS:
        raise SourceError(f"expected at most {MOST_CELLS} what-ifs in a sweep")
    declared = {k: None for of in configurations.values() for k in Explainer(of, gates).kinds}
    objects: list[Document] = []
    if not (definition.cluster or live.is_named):
        _check_without_cluster(definition)
    else:
        paths = [Path(name) for name in definition.cluster]
        objects = cluster_of(paths, live, declared)
    nodes = {of["metadata"]["name"] for of in objects if of["kind"] == "Node"}
    return Plan(
        BERTH,
        objects,
        [_planned_types(of, nodes, declared) for of in definition.node_types],
        _workload(definition.workload, objects),
        {name: _as_json(of) for name, of in configurations.items()},
        dict(gates),
        fleets,
        seeds,
        versions_of_files(),
    )


def _check_without_cluster(definition: Definition) -> None:
    without = "no cluster is named (-f, --kubeconfig, --master)"
    if not definition.workload:
        raise SourceError(f"expected a workload: {without}, whose pending pods could count")
    for of in definition.node_types:
        if of.like:
            raise SourceError(f"node type {of.name!r}: expected a manifest: {without}")


def _as_json(configuration: KubeSchedulerConfiguration) -> Any:
    return msgspec.json.decode(msgspec.json.encode(configuration, enc_hook=str))


def _check_names(what: str, names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SourceError(f"{what} {twice!r}: expected once, found twice")


def _fleets(definition: Definition) -> Iterator[Fleet]:
    types = definition.node_types
    _check_names("node type", [of.name for of in types])
    counts = {
        of.name: numbers(
            definition.counts if of.counts is None else of.counts, f"counts of {of.name}"
        )
        for of in types
    }
    if definition.mix or not types:
        cells = 1
        for each in counts.values():
            cells *= len(each)
        if cells > MOST_CELLS:
            raise SourceError(f"expected at most {MOST_CELLS} what-ifs in a sweep")
        for numbers_of in product(*counts.values()):
            yield {n: count for n, count in zip(counts, numbers_of, strict=True) if count}
        return
    if any(0 in each for each in counts.values()):
        yield {}
    for name, each in counts.items():
        yield from ({name: count} for count in each if count)


def _planned_types(
    of: NodeType, nodes: Collection[str], declared: Collection[WatchedKind]
) -> PlannedType:
    if bool(of.like) == bool(of.manifest):
        raise SourceError(f"node type {of.name!r}: expected either like or manifest")
    if of.like and of.like not in nodes:
        raise SourceError(f"node type {of.name!r}: Node {of.like} does not exist")
    if of.like:
        return PlannedType(of.name, of.price, of.like, [])
    objects = from_manifests([Path(of.manifest)], declared)
    names = [document["metadata"]["name"] for document in objects if document["kind"] == "Node"]
    if len(names) != 1:
        raise SourceError(f"{of.manifest}: expected one Node, found {len(names)}")
    if names[0] in nodes:
        raise SourceError(f"{of.manifest}: Node {names[0]} is in the cluster: use like {names[0]}")
    return PlannedType(of.name, of.price, names[0], objects)


def _workload(names: list[str], objects: list[Document]) -> list[Document]:
    """Returns the objects of a workload as they are written. Raises SourceError."""
    try:
        manifests = read([Path(name) for name in names])
    except ManifestError as problem:
        raise SourceError(str(problem)) from None
    for _ in completed_objects(manifests.objects, classes_of(objects), STRICT.findings):
        pass  # Those that cannot be used are refused now, not in each cell.
    return [manifest.document for manifest in manifests.objects]
