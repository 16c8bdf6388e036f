"""A cluster of documents that is changed, decided on and restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.snapshot import Snapshot

from ...kubernetes.api.types.api_documents import Place, place_of
from .cluster_source import ClusterQuestion, SourceError
from .decider import Attempt, Explainer
from .document_cluster import DocumentCluster
from .subject import Subject

Document = dict[str, Any]


class _Trial:
    """The state to restore at the end of a trial: the changed objects (None for new ones), the
    order of the nodes if one was removed, the order of the pods on nodes that a pod left, and the
    plugins with their cluster.
    """

    def __init__(
        self, nodes: Iterable[Place], explainer: Explainer, cluster: DocumentCluster
    ) -> None:
        self.originals: dict[Place, Document | None] = {}
        self.nodes = tuple(nodes)
        self.pods: dict[str, list[Place]] = {}
        self.lost_node = False
        self.explainer = explainer
        self.cluster = cluster


class TriedCluster:
    """The documents of a cluster by place. Plugins and the snapshot see each change.

    `cluster` has these documents already, if it is given. The pod that is `asked` about takes no
    room, also if it names a node. Raises SourceError for an object that cannot be read.
    """

    def __init__(
        self,
        explainer: Explainer,
        documents: Iterable[Document],
        cluster: DocumentCluster | None = None,
        asked: Place | None = None,
    ) -> None:
        self._kinds: dict[str, dict[Place, Document]] = {}
        self._trials: list[_Trial] = []
        self._asked = asked
        for document in documents:
            self._keep(place_of(document), document)
        self.explainer = explainer
        self.cluster = self._cluster_for(explainer) if cluster is None else cluster

    def decide_by(self, explainer: Explainer) -> None:
        """Decides with other plugins from now on."""
        self.cluster = self._cluster_for(explainer)
        self.explainer = explainer

    def _cluster_for(self, explainer: Explainer) -> DocumentCluster:
        try:
            return explainer.cluster(self.all())
        except msgspec.ValidationError as invalid:
            raise SourceError(str(invalid)) from None

    # ----------------------------------------------------------------------------- the documents

    def document(self, kind: str, name: str, namespace: str = "") -> Document | None:
        return self._kinds.get(kind, {}).get((kind, namespace, name))

    def at(self, place: Place) -> Document:
        """Returns the object at a place. Raises SourceError if there is none."""
        kind, namespace, name = place
        document = self.document(kind, name, namespace)
        if document is None:
            near = Subject(kind, namespace, name).near(self.all()) if kind == "Pod" else ""
            named = f"{namespace}/{name}" if namespace else name
            raise SourceError(f"{kind} {named} does not exist{near}")
        return document

    def every(self, kind: str) -> Iterator[tuple[Place, Document]]:
        return iter(list(self._kinds.get(kind, {}).items()))

    def all(self) -> list[Document]:
        return [document for of in self._kinds.values() for document in of.values()]

    # ---------------------------------------------------------------------------------- changing

    def put(self, document: Document) -> Place:
        """Adds an object, or replaces the object at its place. Raises SourceError, and changes
        nothing, if the scheduler could not read it.
        """
        place = place_of(document)
        before = self.document(place[0], place[2], place[1])
        self._will_change(place, document)
        try:
            self.cluster.replace(before, document, counts=place != self._asked)
        except msgspec.ValidationError as invalid:
            raise SourceError(f"{'/'.join(filter(None, place))}: {invalid}") from None
        self._keep(place, document)
        return place

    def remove(self, place: Place) -> Document:
        """Removes and returns an object. Raises SourceError if there is none."""
        document = self.at(place)
        self._will_change(place)
        if place[0] == "Node" and self._trials and self._trials[-1].originals[place] is not None:
            self._trials[-1].lost_node = True
        self.cluster.replace(document, None, counts=place != self._asked)
        self._drop(place, document)
        return document

    def _keep(self, place: Place, document: Document) -> None:
        self._kinds.setdefault(place[0], {})[place] = document

    def _drop(self, place: Place, document: Document) -> None:
        del self._kinds[place[0]][place]

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undoes all changes when the block ends. Trials may be nested. The cost is proportional to
        the changes; after the removal of a node, all nodes are sorted again.
        """
        trial = _Trial(self._kinds.get("Node", ()), self.explainer, self.cluster)
        self._trials.append(trial)
        try:
            yield
        finally:
            self._restore(trial)
            self._trials.pop()

    def _will_change(self, place: Place, document: Document | None = None) -> None:
        """Notes the object at a place before it changes; `document` is the new one."""
        trial = self._trials[-1] if self._trials else None
        if trial is None or place in trial.originals:
            return
        original = self.document(place[0], place[2], place[1])
        node = _node_of(original) if place[0] == "Pod" and original else ""
        if node and node not in trial.pods:
            trial.pods[node] = [at for at in self.pods_on(node) if at not in trial.originals]
        trial.originals[place] = original

    def _restore(self, trial: _Trial) -> None:
        self.explainer, self.cluster = trial.explainer, trial.cluster
        lost = trial.lost_node
        for place, original in trial.originals.items():
            present = place in self._kinds.get(place[0], {})
            if present and (original is None or place[0] == "Pod"):
                self.remove(place)
            if original is not None:
                self.put(original)
        for place in trial.nodes if lost else ():
            self.put(self.remove(place))
        for name, places in trial.pods.items():
            now = self.pods_on(name)
            differ = [one != other for one, other in zip(now, places, strict=True)]
            if True in differ:
                for place in places[differ.index(True) :]:
                    self.put(self.at(place))

    # ---------------------------------------------------------------------------------- deciding

    def attempt(self, place: Place) -> Attempt:
        """Returns the attempt at a pending pod. Raises SourceError."""
        question = ClusterQuestion(self.at(place), [], self.explainer.configuration)
        return self.explainer.attempt(question, self.cluster)

    def snapshot(self) -> Snapshot:
        return self.cluster.snapshot()

    def node_info(self, name: str) -> NodeInfo:
        """Returns a node with its pods."""
        columns = self.snapshot().columns
        info = columns.infos[columns.row_of[name]]
        assert info is not None, name
        return info

    def node_infos(self) -> dict[str, NodeInfo]:
        """Returns the nodes with their pods by name, in the order of their names."""
        columns = self.snapshot().columns
        infos = {name: columns.infos[row] for name, row in sorted(columns.row_of.items())}
        return {name: info for name, info in infos.items() if info is not None}

    def pods_on(self, node: str) -> list[Place]:
        """Returns the pods on a node, in the order in which the scheduler looks at them."""
        columns = self.snapshot().columns
        info = columns.infos[columns.row_of[node]] if node in columns.row_of else None
        pods = () if info is None else info.pods.values()
        return [("Pod", of.pod.metadata.namespace, of.pod.metadata.name) for of in pods]


class AskedPod(msgspec.Struct, frozen=True):
    """A question about a pod, its cluster, and the attempt at it."""

    tried: TriedCluster
    question: ClusterQuestion
    attempt: Attempt


def asked(explainer: Explainer, question: ClusterQuestion) -> AskedPod:
    """Asks a question. Raises SourceError."""
    attempt = explainer.attempt(question)
    pod = {"apiVersion": "v1", "kind": "Pod", **question.pod}  # Scenarios may leave them out.
    tried = TriedCluster(explainer, [*question.objects, pod], attempt.cluster, place_of(pod))
    return AskedPod(tried, question, attempt)


def _node_of(pod: Document) -> str:
    node: str = (pod.get("spec") or {}).get("nodeName", "")
    return node
