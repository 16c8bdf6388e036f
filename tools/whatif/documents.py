"""The objects of the tried cluster, and the plugins and the snapshot that see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import FINISHED
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.config.types import KubeSchedulerConfiguration

from ..explain.answering import Attempt, Explainer
from ..explain.cluster import Cluster
from ..explain.handle import HeldObjects
from ..explain.source import Question, SourceError

Document = dict[str, Any]
Place = tuple[str, str, str]  # kind, namespace, name


class _AssumingObjects(HeldObjects):
    """Objects of which plugins assume versions, such as a volume bound to a claim."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster: Cluster | None = None

    def assume(self, item: HasMetadata) -> None:
        self.hold([item], more=True)
        if self.cluster is not None:
            self.cluster.assume(item)


class Documents:
    """The objects of a cluster by place. Raises SourceError for one that cannot be read."""

    def __init__(
        self,
        documents: Iterable[Document],
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
    ) -> None:
        self._documents = {place_of(document): document for document in documents}
        self._gates = gates
        self.configure(configuration)

    def configure(self, configuration: KubeSchedulerConfiguration) -> None:
        """Decides by another configuration from now on."""
        objects = _AssumingObjects()
        self.configuration = configuration
        self.explainer = Explainer(configuration, self._gates, objects)
        try:
            self._cluster = self.explainer.cluster(self._documents.values())
        except msgspec.ValidationError as invalid:
            raise SourceError(str(invalid)) from None
        objects.cluster = self._cluster

    def document(self, kind: str, name: str, namespace: str = "") -> Document | None:
        return self._documents.get((kind, namespace, name))

    def at(self, place: Place) -> Document:
        """Returns the object at a place. Raises SourceError if there is none."""
        document = self._documents.get(place)
        if document is None:
            kind, namespace, name = place
            raise SourceError(f"{kind} {f'{namespace}/' if namespace else ''}{name} does not exist")
        return document

    def every(self, kind: str) -> Iterator[tuple[Place, Document]]:
        return ((place, d) for place, d in list(self._documents.items()) if place[0] == kind)

    def all(self) -> list[Document]:
        return list(self._documents.values())

    def put(self, document: Document) -> Place:
        """Adds an object or replaces the one at its place."""
        place = place_of(document)
        before = self._documents.get(place)
        try:
            if before is not None and _counts(before):
                self._cluster.remove(before)
            self.explainer.replace(before, document)
            self._cluster.put(document)
        except msgspec.ValidationError as invalid:
            raise SourceError(f"{'/'.join(filter(None, place))}: {invalid}") from None
        self._documents[place] = document
        return place

    def remove(self, place: Place) -> Document:
        """Removes and returns an object."""
        document = self.at(place)
        self.explainer.replace(document, None)
        if place[0] != "Pod" or _counts(document):
            self._cluster.remove(document)
        else:
            self._cluster.unnominate(f"{place[1]}/{place[2]}")
        del self._documents[place]
        return document

    def unnominate(self, place: Place) -> None:
        """Withdraws the nomination of a pending pod."""
        pod = self.at(place)
        status = {k: v for k, v in (pod.get("status") or {}).items() if k != "nominatedNodeName"}
        self._cluster.unnominate(f"{place[1]}/{place[2]}")
        self.put({**pod, "status": status})

    def attempt(self, place: Place) -> Attempt:
        """Returns the attempt at a pending pod."""
        question = Question(self.at(place), [], self.configuration)
        return self.explainer.attempt(question, self._cluster)

    def snapshot(self) -> Snapshot:
        return self._cluster.snapshot()

    def node_infos(self) -> dict[str, NodeInfo]:
        """Returns the nodes with their pods by name."""
        columns = self.snapshot().columns
        infos = {name: columns.infos[row] for name, row in sorted(columns.row_of.items())}
        return {name: info for name, info in infos.items() if info is not None}


def _counts(document: Document) -> bool:
    """True for a pod that takes room on a node."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    is_bound = document["kind"] == "Pod" and spec.get("nodeName")
    return bool(is_bound) and status.get("phase") not in FINISHED


def place_of(document: Document) -> Place:
    metadata = document.get("metadata") or {}
    return document["kind"], metadata.get("namespace") or "", metadata.get("name") or ""
