"""The objects of the tried cluster, and the plugins and the snapshot that see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import FINISHED
from berth.actors.scheduling.kube.kinds import WatchedKind
from berth.actors.scheduling.kube.meta import HasMetadata, SchedulersOwn
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.config.types import KubeSchedulerConfiguration

from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Place, place_of
from ...kubernetes.objects.structs import Pod, read
from ..explain.cluster_source import CLASSES, ClusterQuestion, SourceError, classes_of
from ..explain.decider import Attempt, Explainer
from ..explain.document_cluster import DocumentCluster
from ..explain.empty_workloads import Podless, finds_a_node
from ..explain.pinned_pods import unmade
from ..explain.plugin_handle import HeldObjects
from ..explain.subject import Subject
from ..feed.story import AsPending, question_about_pod
from .fullness import NodeChange

Document = dict[str, Any]
RUNNING: Document = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class _AssumingObjects(HeldObjects):
    """Objects of which plugins assume versions, such as a volume bound to a claim."""

    def __init__(self, changed: Callable[[Place], None]) -> None:
        super().__init__()
        self.cluster: DocumentCluster | None = None
        self._changed = changed

    def assume(self, item: HasMetadata) -> None:
        metadata = item.metadata
        self._changed((type(item).__name__, metadata.namespace, metadata.name))
        self.hold([item], more=True)
        if self.cluster is not None:
            self.cluster.assume(item)

    def restore(self, item: HasMetadata) -> None:
        """Drops an object of the scheduler's own. Others are restored with the documents."""
        if isinstance(item, SchedulersOwn):
            self.drop(item)
            if self.cluster is not None:
                self.cluster.withdraw(item)


class _Deciding(msgspec.Struct, frozen=True):
    """A configuration, its plugins, and the cluster that they see."""

    configuration: KubeSchedulerConfiguration
    explainer: Explainer
    cluster: DocumentCluster


class Rejected(msgspec.Struct, frozen=True):
    """A pod that fits no node, and the scheduler's message. Unless `stuck`, anything may help."""

    info: PodInfo
    message: str
    stuck: bool


class Settled(msgspec.Struct, frozen=True):
    """The proof that no pending pod fits: the version of the objects, the seed, and the state of
    the random generator afterwards.

    `nodes` are the nodes at that time, as a result shows them, and `rejected` the pods.
    """

    version: int
    seed: int
    chance: tuple[Any, ...]
    nodes: dict[str, NodeChange]
    rejected: dict[Place, Rejected]


class _Trial:
    """What to restore at the end of a trial: the objects that changed, None for those that are new,
    the order of the nodes if one of them was removed, that of the pods on nodes that a pod has
    left, and the plugins if the configuration changed.
    """

    def __init__(self, nodes: Iterable[Place]) -> None:
        self.originals: dict[Place, Document | None] = {}
        self.nodes = tuple(nodes)
        self.pods: dict[str, list[Place]] = {}
        self.lost_node = False
        self.deciding: _Deciding | None = None


class Documents:
    """The objects of a cluster by place. Raises SourceError for an object that cannot be read."""

    def __init__(
        self,
        documents: Iterable[Document],
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
    ) -> None:
        self._kinds: dict[str, dict[Place, Document]] = {}
        self._pending: dict[Place, None] = {}
        self._podless = Podless()
        self._trial: _Trial | None = None
        self.version = 0  # of the objects outside of trials
        self.settled: Settled | None = None
        self._ticks = 0  # changes of nodes and of what is on them
        self._others = 0  # changes of objects other than nodes and pods
        self._changed: dict[str, int] = {}  # nodes by their last change, the last one at the end
        self.touched: dict[str, None] = {}  # nodes of objects that changed since it was emptied
        for document in documents:
            self._keep(place_of(document), document)
        self.gates = gates
        self._deciding = self._decided_by(configuration)

    @property
    def configuration(self) -> KubeSchedulerConfiguration:
        return self._deciding.configuration

    @property
    def schedulers(self) -> Set[str]:
        """The names of the schedulers in the configuration."""
        return {profile.scheduler_name for profile in self.configuration.profiles}

    @property
    def kinds(self) -> tuple[WatchedKind, ...]:
        """The kinds that plugins declare."""
        return self._deciding.explainer.kinds

    def configure(self, configuration: KubeSchedulerConfiguration) -> None:
        """Decides by another configuration from now on."""
        deciding = self._decided_by(configuration)
        self._others += 1
        if self._trial is not None and self._trial.deciding is None:
            self._trial.deciding = self._deciding
        self._deciding = deciding

    def _decided_by(self, configuration: KubeSchedulerConfiguration) -> _Deciding:
        objects = _AssumingObjects(self._changes)
        explainer = Explainer(configuration, self.gates, objects)
        try:
            cluster = explainer.cluster(self.all())
        except msgspec.ValidationError as invalid:
            raise SourceError(str(invalid)) from None
        objects.cluster = cluster
        return _Deciding(configuration, explainer, cluster)

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

    def pod(self, place: Place) -> Pod:
        """Returns a pod. With a node, it runs and is ready if its status does not say otherwise."""
        document = self.at(place)
        status = document.get("status") or {}
        if document["spec"].get("nodeName") and "conditions" not in status:
            status = {**status, **RUNNING}
        return read({**document, "status": status}, Pod)

    def every(self, kind: str) -> Iterator[tuple[Place, Document]]:
        return iter(list(self._kinds.get(kind, {}).items()))

    def unmade(self, place: Place) -> tuple[str, ...]:
        """Returns the claims of a pending pod whose volumes nothing makes."""
        return unmade(
            self.at(place), self.document, lambda kind: (of for _, of in self.every(kind))
        )

    def without_pods(self) -> dict[Place, int]:
        """Returns the workloads that ask for pods and have none, and how many each asks for."""
        without = self._podless.workloads()
        daemons = [place for place in without if place[0] == "DaemonSet"]
        infos = self.node_infos().values() if daemons else ()
        nodes = [info.node for info in infos if info.node is not None]
        for place in daemons:
            if not finds_a_node(self.at(place), nodes):
                del without[place]
        return without

    def all(self) -> list[Document]:
        return [document for of in self._kinds.values() for document in of.values()]

    def classes(self) -> Store:
        """Returns a store with the objects that admission looks up."""
        return classes_of(document for kind in CLASSES for _, document in self.every(kind.kind))

    def pending(self) -> list[tuple[Place, Document]]:
        """Returns the pods that wait for a node."""
        return [(place, self.at(place)) for place in self._pending]

    def put(self, document: Document) -> Place:
        """Adds an object, or replaces the object at its place."""
        place = place_of(document)
        before = self.document(place[0], place[2], place[1])
        self._changes(place)
        self._touch(place, document)
        try:
            if before is not None and _counts(before):
                self._deciding.cluster.remove(before)
            self._deciding.explainer.replace(before, document)
            self._deciding.cluster.put(document)
        except msgspec.ValidationError as invalid:
            raise SourceError(f"{'/'.join(filter(None, place))}: {invalid}") from None
        self._keep(place, document)
        return place

    def remove(self, place: Place) -> Document:
        """Removes and returns an object."""
        document = self.at(place)
        self._changes(place)
        if place[0] == "Node" and self._trial and self._trial.originals[place] is not None:
            self._trial.lost_node = True
        self._deciding.explainer.replace(document, None)
        if place[0] != "Pod" or _counts(document):
            self._deciding.cluster.remove(document)
        else:
            self._deciding.cluster.unnominate(f"{place[1]}/{place[2]}")
        del self._kinds[place[0]][place]
        self._pending.pop(place, None)
        self._podless.remove(document)
        return document

    def restore(self, item: HasMetadata) -> None:
        """Withdraws an object that a plugin assumed and that is no document."""
        self._deciding.explainer.handle.objects.restore(item)

    def unnominate(self, place: Place) -> None:
        """Withdraws the nomination of a pending pod."""
        pod = self.at(place)
        status = {k: v for k, v in (pod.get("status") or {}).items() if k != "nominatedNodeName"}
        self._deciding.cluster.unnominate(f"{place[1]}/{place[2]}")
        self.put({**pod, "status": status})

    def _keep(self, place: Place, document: Document) -> None:
        of_kind = self._kinds.setdefault(place[0], {})
        if place in of_kind:
            self._podless.remove(of_kind[place])
        of_kind[place] = document
        self._podless.put(document)
        if place[0] == "Pod" and is_pending(document):
            self._pending[place] = None
        else:
            self._pending.pop(place, None)

    # ------------------------------------------------------------------------------------ undoing

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undoes all changes when the block ends. The cost is proportional to the changes; after
        the removal of a node, all nodes are sorted again.
        """
        self._trial = trial = _Trial(self._kinds.get("Node", ()))
        try:
            yield
        finally:
            self._restore(trial)
            self._trial = None

    def _changes(self, place: Place) -> None:
        document = self.document(place[0], place[2], place[1])
        if document is not None:
            self._touch(place, document)
        trial = self._trial
        if trial is None:
            self.version += 1
        elif place not in trial.originals:
            node = _node_of(document) if place[0] == "Pod" and document else ""
            if node and node not in trial.pods:
                trial.pods[node] = [at for at in self.pods_on(node) if at not in trial.originals]
            trial.originals[place] = document

    @property
    def change_counts(self) -> tuple[int, int]:
        """The numbers of changes of nodes, with what is on them, and of other objects."""
        return self._ticks, self._others

    def changed_since(self, tick: int) -> list[str]:
        """Returns the nodes that have changed since a number of changes of nodes."""
        after = takewhile(lambda name: self._changed[name] > tick, reversed(self._changed))
        return list(after)

    def _touch(self, place: Place, document: Document) -> None:
        if place[0] not in ("Node", "Pod"):
            self._others += 1
        node = place[2] if place[0] == "Node" else (document.get("spec") or {}).get("nodeName")
        nominated = (document.get("status") or {}).get("nominatedNodeName")
        for name in filter(None, (node, nominated if place[0] == "Pod" else None)):
            self.touched[name] = None
            self._ticks += 1
            self._changed.pop(name, None)
            self._changed[name] = self._ticks

    def _restore(self, trial: _Trial) -> None:
        if trial.deciding is not None:
            self._deciding = trial.deciding
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

    # ------------------------------------------------------------------------------------ deciding

    def attempt(self, place: Place) -> Attempt:
        """Returns the attempt at a pending pod."""
        question = ClusterQuestion(self.at(place), [], self.configuration)
        return self._deciding.explainer.attempt(question, self._deciding.cluster)

    def as_pending(self, place: Place) -> AsPending:
        """Returns the question about a pod, which is pending as long as the trial lasts. Raises
        SourceError.
        """
        question = question_about_pod(self.at(place), self.all(), self.configuration)
        self.put(question.pod)
        return AsPending(self._deciding.explainer, question, self.attempt(place))

    def snapshot(self) -> Snapshot:
        return self._deciding.cluster.snapshot()

    def node_info(self, name: str) -> NodeInfo:
        """Returns a node with its pods."""
        columns = self.snapshot().columns
        info = columns.infos[columns.row_of[name]]
        assert info is not None, name
        return info

    def pods_on(self, node: str) -> list[Place]:
        """Returns the pods on a node, in the order in which the scheduler looks at them."""
        columns = self.snapshot().columns
        info = columns.infos[columns.row_of[node]] if node in columns.row_of else None
        pods = () if info is None else info.pods.values()
        return [("Pod", of.pod.metadata.namespace, of.pod.metadata.name) for of in pods]

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


def _node_of(pod: Document) -> str:
    node: str = (pod.get("spec") or {}).get("nodeName", "")
    return node


def is_pending(pod: Document) -> bool:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return not spec.get("nodeName") and status.get("phase") not in FINISHED
