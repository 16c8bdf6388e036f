"""The tried cluster of a what-if, with its pending pods and the times of its changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import takewhile
from typing import Any

import msgspec

from berth.actors.binding.state import PodsInBinding
from berth.actors.scheduling.kube.core import FINISHED
from berth.actors.scheduling.kube.meta import HasMetadata, SchedulersOwn
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.config.types import KubeSchedulerConfiguration

from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Place
from ...kubernetes.objects.structs import Pod, read
from ..explain.cluster_source import CLASSES, classes_of
from ..explain.decider import Explainer
from ..explain.empty_workloads import Podless, finds_a_node
from ..explain.pinned_pods import claims_without_maker
from ..explain.plugin_handle import HeldObjects
from ..explain.tried_cluster import AskedPod, TriedCluster
from ..feed.story import question_about_pod
from .node_usage import NodeChange

Document = dict[str, Any]
RUNNING: Document = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class _AssumingObjects(HeldObjects):
    """Objects of which plugins assume versions, such as a volume bound to a claim."""

    def __init__(self, documents: Documents) -> None:
        super().__init__()
        self._documents = documents

    def assume(self, item: HasMetadata) -> None:
        self.hold([item])
        self._documents.assume(item)

    def restore(self, item: HasMetadata) -> None:
        """Drops an object of the scheduler's own. Others are restored with the documents."""
        if isinstance(item, SchedulersOwn):
            self.drop(item)
            self._documents.cluster.withdraw(item)


class Rejected(msgspec.Struct, frozen=True):
    """A pod that fits no node, and the scheduler's message. Unless `stuck`, anything may help."""

    info: PodInfo
    message: str
    stuck: bool


class Settled(msgspec.Struct, frozen=True):
    """The proof that no pending pod fits: the version of the objects, the seed, and the state of
    the random generator after the attempts.

    `nodes` are the nodes at that time, as a result shows them, and `rejected` the pods.
    """

    version: int
    seed: int
    chance: tuple[Any, ...]
    nodes: dict[str, NodeChange]
    rejected: dict[Place, Rejected]


class Documents(TriedCluster):
    """The tried cluster of a what-if: its documents, its pending pods, and when each node last
    changed.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
    ) -> None:
        self._pending: dict[Place, None] = {}
        self._podless = Podless()
        self.version = 0  # of the objects outside of trials
        self.settled: Settled | None = None
        self._ticks = 0  # changes of nodes and of what is on them
        self._others = 0  # changes of objects other than nodes and pods
        self._changed: dict[str, int] = {}  # nodes by their last change, the last one at the end
        self.touched: dict[str, None] = {}  # nodes of objects that changed since it was emptied
        self.gates = gates
        super().__init__(self._explainer_of(configuration), documents)

    @property
    def waiting(self) -> PodsInBinding:
        """The pods that wait in Permit, as plugins see them."""
        return self.explainer.handle.waiting

    @property
    def configuration(self) -> KubeSchedulerConfiguration:
        return self.explainer.configuration

    @property
    def schedulers(self) -> Set[str]:
        """The names of the schedulers in the configuration."""
        return {profile.scheduler_name for profile in self.configuration.profiles}

    def configure(self, configuration: KubeSchedulerConfiguration) -> None:
        """Decides by another configuration from now on."""
        self._others += 1
        self.decide_by(self._explainer_of(configuration))

    def _explainer_of(self, configuration: KubeSchedulerConfiguration) -> Explainer:
        return Explainer(configuration, self.gates, _AssumingObjects(self))

    def pod(self, place: Place) -> Pod:
        """Returns a pod. With a node, it runs and is ready if its status does not say otherwise."""
        document = self.at(place)
        status = document.get("status") or {}
        if document["spec"].get("nodeName") and "conditions" not in status:
            status = {**status, **RUNNING}
        return read({**document, "status": status}, Pod)

    def unmade(self, place: Place) -> tuple[str, ...]:
        """Returns the claims of a pending pod whose volumes nothing makes."""
        return claims_without_maker(
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

    def classes(self) -> Store:
        """Returns a store with the objects that admission looks up."""
        return classes_of(document for kind in CLASSES for _, document in self.every(kind.kind))

    def pending(self) -> list[tuple[Place, Document]]:
        """Returns the pods that wait for a node."""
        return [(place, self.at(place)) for place in self._pending]

    def assume(self, item: HasMetadata) -> None:
        """Replaces an object by the version that a plugin assumes."""
        self._will_change((type(item).__name__, item.metadata.namespace, item.metadata.name))
        self.cluster.assume(item)

    def restore(self, item: HasMetadata) -> None:
        """Withdraws an object that a plugin assumed and that is no document."""
        self.explainer.handle.objects.restore(item)

    def unnominate(self, place: Place) -> None:
        """Withdraws the nomination of a pending pod."""
        pod = self.at(place)
        status = {k: v for k, v in (pod.get("status") or {}).items() if k != "nominatedNodeName"}
        self.cluster.unnominate(f"{place[1]}/{place[2]}")
        self.put({**pod, "status": status})

    def _keep(self, place: Place, document: Document) -> None:
        before = self.document(place[0], place[2], place[1])
        if before is not None:
            self._podless.remove(before)
        super()._keep(place, document)
        self._podless.put(document)
        if place[0] == "Pod" and is_pending(document):
            self._pending[place] = None
        else:
            self._pending.pop(place, None)

    def _drop(self, place: Place, document: Document) -> None:
        super()._drop(place, document)
        self._pending.pop(place, None)
        self._podless.remove(document)

    # ------------------------------------------------------------------------------ what changed

    def _will_change(self, place: Place, document: Document | None = None) -> None:
        before = self.document(place[0], place[2], place[1])
        for each in (before, document):
            if each is not None:
                self._touch(place, each)
        self.version += not self._trials
        super()._will_change(place, document)

    @property
    def change_counts(self) -> tuple[int, int]:
        """The number of changes of nodes and their pods, and that of changes of other objects."""
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

    def as_pending(self, place: Place) -> AskedPod:
        """Returns the question about a pod, which is pending as long as the trial lasts. Raises
        SourceError.
        """
        question = question_about_pod(self.at(place), self.all(), self.configuration)
        self.put(question.pod)
        return AskedPod(self, question, self.attempt(place))


def is_pending(pod: Document) -> bool:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return not spec.get("nodeName") and status.get("phase") not in FINISHED
