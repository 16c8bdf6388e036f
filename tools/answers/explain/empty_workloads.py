"""The workloads that ask for pods and have none, such as those of a folder of manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from berth.actors.scheduling.kube.core import FINISHED, Node

from ...kubernetes.api.types.api_documents import Place, controller_in, place_of
from ...kubernetes.objects.structs import DaemonSet, read
from ...kubernetes.workloads import daemon_set
from .subject import WORKLOADS

Document = dict[str, Any]
# The kind of workload that makes a controller of pods, whose name it begins with its own.
_MAKERS = {"ReplicaSet": "Deployment", "Job": "CronJob"}
_ENDS = ("Complete", "Failed")


class Podless:
    """The workloads of a cluster that ask for pods and have none. Each object of the cluster is
    added to it.

    A ReplicaSet of a Deployment and a Job of a CronJob are part of those. A CronJob that has run
    is between two runs and asks for no pod.
    """

    def __init__(self, documents: Iterable[Document] = ()) -> None:
        self._pods: Counter[Place] = Counter()  # by their controller, and by what makes that
        self._asking: dict[Place, int] = {}
        for document in documents:
            self.put(document)

    def put(self, document: Document) -> None:
        """Adds an object that was not there, or was removed before."""
        if document["kind"] == "Pod":
            self._pods.update(_controllers_of(document))
        elif document["kind"] in WORKLOADS and (number := _desired_pods(document)):
            self._asking[place_of(document)] = number

    def remove(self, document: Document) -> None:
        if document["kind"] == "Pod":
            self._pods.subtract(_controllers_of(document))
        elif document["kind"] in WORKLOADS:
            self._asking.pop(place_of(document), None)

    def workloads(self) -> dict[Place, int]:
        """Returns the workloads without pods, and how many pods each asks for; 1 for a DaemonSet,
        which may find no node.
        """
        return {place: n for place, n in self._asking.items() if self._pods[place] <= 0}


def finds_a_node(workload: Document, nodes: Iterable[Node]) -> bool:
    """False for a DaemonSet that selects no node, and so asks for no pod."""
    if workload["kind"] != "DaemonSet":
        return True
    spec = daemon_set.daemon_spec(read(workload, DaemonSet))
    return any(daemon_set.fits(spec, node)[0] for node in nodes)


def _controllers_of(pod: Document) -> Iterator[Place]:
    metadata, status = pod["metadata"], pod.get("status") or {}
    if status.get("phase") in FINISHED:
        return
    owner = controller_in(pod)
    if owner is not None:
        kind, namespace, name = owner["kind"], metadata.get("namespace") or "", owner["name"]
        yield kind, namespace, name
        if kind in _MAKERS:
            yield _MAKERS[kind], namespace, name.rpartition("-")[0]


def _desired_pods(workload: Document) -> int:
    """Returns the number of pods that a workload asks for."""
    kind, metadata = workload["kind"], workload["metadata"]
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    made = kind in _MAKERS and (controller_in(workload) or {}).get("kind") == _MAKERS[kind]
    if made or metadata.get("deletionTimestamp") or spec.get("suspend"):
        return 0
    if kind == "CronJob":
        return 0 if status.get("lastScheduleTime") else 1
    if not spec.get("template"):  # The scheduler knows workloads without their templates.
        return 0
    if kind == "DaemonSet":
        is_seen = status.get("observedGeneration")  # by its controller
        return int(status.get("desiredNumberScheduled", 0)) if is_seen else 1
    if kind != "Job":
        return int(spec.get("replicas", 1))
    ended = any(
        of.get("type") in _ENDS and of.get("status") == "True"
        for of in status.get("conditions") or ()
    )
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    return (
        0 if ended else int(min(parallelism, parallelism if completions is None else completions))
    )
