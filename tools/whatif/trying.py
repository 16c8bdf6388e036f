"""Tries the steps of a what-if one after another, and tells the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from berth.actors.configuration.file import load_file
from berth.actors.scheduling.kube.core import Taint as NodeTaint
from berth.actors.scheduling.kube.core import Toleration
from berth.actors.scheduling.kube.taints import tolerates_any
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.config.types import KubeSchedulerConfiguration

from ..explain.answering import decided
from ..explain.asks.asking import asks_of
from ..explain.changes.another_node import copy_of
from ..explain.report import conclusion
from ..explain.source import CLASSES, SourceError, classes_of, completed_object
from ..explain.subject import Subject, standing
from ..manifests import ManifestError, read
from .documents import Document, Documents, Place
from .placing import Evicted, Placed, Placing, controller_of
from .steps import Step
from .workloads import KINDS, reconcile

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Pending(msgspec.Struct, frozen=True):
    """Pods (namespace/name) of a workload that stay pending for the same reason."""

    workload: str
    pods: list[str]
    reason: str


class Fullness(msgspec.Struct, frozen=True):
    """The percentages of a node's cpu and memory that pods request, and the number of its pods."""

    cpu: int
    memory: int
    pods: int


class NodeChange(msgspec.Struct, frozen=True):
    """A node before and after the steps: None where it does not exist."""

    node: str
    before: Fullness | None
    after: Fullness | None


class Result(msgspec.Struct, frozen=True, rename="camel"):
    all_placed: bool
    placed: list[Placed]
    pending: list[Pending]
    evicted: list[Evicted]
    nodes: list[NodeChange]


def result_of(
    objects: Sequence[Document],
    configuration: KubeSchedulerConfiguration,
    gates: Mapping[str, bool],
    steps: Sequence[Step],
    seed: int = 0,
    namespace: str = "default",
) -> Result:
    """Returns the result of steps. Before them, the pods that are pending are placed as they would
    be without the steps. Raises SourceError, ConfigError or RegistryError.
    """
    trial = _Trial(Documents(objects, configuration, gates), seed, namespace)
    trial.placing.settle()
    before = _fullness(trial.documents)
    for number, step in enumerate(steps, 1):
        trial.placing.step = number
        trial.take(step)
        trial.placing.settle()
    after = _fullness(trial.documents)
    pending = _pending(trial.documents, trial.placing)
    nodes = [NodeChange(n, before.get(n), after.get(n)) for n in sorted({*before, *after})]
    placed = list(trial.placing.placed.values())
    return Result(not pending, placed, pending, trial.placing.evicted, nodes)


class _Trial:
    def __init__(self, documents: Documents, seed: int, namespace: str) -> None:
        self.documents = documents
        self.placing = Placing(documents, seed)
        self._namespace = namespace

    def take(self, step: Step) -> None:
        """Changes the cluster by a step. Raises SourceError."""
        match step.verb, step.words:
            case "add", (_, like):
                self._add(step.number, like)
            case "remove", (name,):
                self._empty(name, f"{name} is removed", daemons=True)
                self.documents.remove(("Node", "", name))
            case "drain", (name,):
                self._cordon(name, on=True)
                self._empty(name, f"{name} is drained", daemons=False)
            case ("cordon" | "uncordon") as verb, (name,):
                self._cordon(name, on=verb == "cordon")
            case "taint", (name, taint):
                self._taint(name, taint)
            case "apply", (path,):
                self._apply(Path(path))
            case "scale", (workload, _):
                self._scale(workload, step.number)
            case "delete", (name,):
                subject = Subject.parse(name, self._namespace)
                place = "Pod", subject.namespace, subject.name
                if controller_of(self.documents.at(place)) is None:
                    self.placing.delete(place)
                else:
                    self.placing.evict(place, "deleted")
            case "priority", (name, _):
                place = "PriorityClass", "", name
                self.documents.put({**self.documents.at(place), "value": step.number})
            case "configure", (path,):
                self.documents.configure(load_file(path))
                self.placing.configured()
            case _:
                raise AssertionError(step)

    def _node(self, name: str) -> Document:
        return self.documents.at(("Node", "", name))

    def _add(self, number: int, like: str) -> None:
        self._node(like)
        info = self.documents.node_infos()[like]
        for copy in range(1, number + 1):
            for edit in copy_of(self.documents, info, f"copy-{copy}"):
                assert edit.document is not None
                self.documents.put(edit.document)

    def _cordon(self, name: str, *, on: bool) -> None:
        node = self._node(name)
        spec = {k: v for k, v in (node.get("spec") or {}).items() if k != "unschedulable"}
        spec |= {"unschedulable": True} if on else {}
        self.documents.put({**node, "spec": spec})

    def _pods_on(self, name: str) -> list[Place]:
        infos = self.documents.node_infos()[name].pods.values()
        return sorted(("Pod", i.pod.metadata.namespace, i.pod.metadata.name) for i in infos)

    def _empty(self, name: str, reason: str, *, daemons: bool) -> None:
        """Evicts the pods of a node, also those that each node has if `daemons`."""
        self._node(name)
        for place in self._pods_on(name):
            owner = controller_of(self.documents.at(place)) or {}
            if daemons or owner.get("kind") not in ("DaemonSet", "Node"):
                self.placing.evict(place, reason)

    def _taint(self, name: str, text: str) -> None:
        node = self._node(name)
        pair, _, effect = text.removesuffix("-").rpartition(":")
        key, _, value = pair.partition("=")
        if effect not in EFFECTS or not key:
            raise SourceError(
                f"taint {text!r}: expected KEY[=VALUE]:EFFECT of {', '.join(EFFECTS)}"
            )
        spec = dict(node.get("spec") or {})
        taints = [t for t in spec.get("taints") or () if (t["key"], t["effect"]) != (key, effect)]
        added = not text.endswith("-")
        if added:
            taints.append({"key": key, "value": value, "effect": effect})
        self.documents.put({**node, "spec": {**spec, "taints": taints}})
        if added and effect == "NoExecute":
            self._evict_intolerant(name, NodeTaint(key=key, value=value, effect=effect))

    def _evict_intolerant(self, name: str, taint: NodeTaint) -> None:
        for place in self._pods_on(name):
            tolerations: Any = (self.documents.at(place)["spec"]).get("tolerations") or ()
            lasting = [t for t in tolerations if t.get("tolerationSeconds") is None]
            if not tolerates_any(msgspec.convert(lasting, list[Toleration]), taint):
                self.placing.evict(place, f"{name} is tainted with {taint.key}:NoExecute")

    def _apply(self, path: Path) -> None:
        try:
            manifests = read([path])
        except ManifestError as problem:
            raise SourceError(str(problem)) from None
        store = classes_of(self.documents.all())
        workloads: list[Place] = []
        for kind, document in sorted(manifests.objects, key=lambda pair: pair[0] not in CLASSES):
            full = completed_object(kind, document, store)
            metadata = full["metadata"]
            place = full["kind"], metadata.get("namespace") or "", metadata["name"]
            before = self.documents.document(place[0], place[2], place[1])
            if before is not None and place[0] == "Pod":
                raise SourceError(f"Pod {place[1]}/{place[2]} exists already")
            if before is not None:
                full["metadata"] = {**metadata, "uid": before["metadata"].get("uid")}
            if place[0] == "Pod":
                self.placing.add(full)
            else:
                self.documents.put(full)
            if place[0] in KINDS:
                workloads.append(place)
        for place in workloads:
            reconcile(self.documents, self.placing, place, store)

    def _scale(self, name: str, number: int) -> None:
        subject = Subject.parse(name, self._namespace)
        field = "parallelism" if subject.kind == "Job" else "replicas"
        if subject.kind not in KINDS or subject.kind == "DaemonSet":
            raise SourceError(f"scale {name}: expected KIND/NAME of a workload with {field}")
        namespace, _, name = subject.name.rpartition("/")
        place = subject.kind, namespace or subject.namespace, name
        document = self.documents.at(place)
        self.documents.put({**document, "spec": {**document["spec"], field: number}})
        store = classes_of(self.documents.all())
        reconcile(self.documents, self.placing, place, store)


def _fullness(documents: Documents) -> dict[str, Fullness]:
    return {name: _of(info) for name, info in documents.node_infos().items()}


def _of(info: NodeInfo) -> Fullness:
    cpu, memory = (
        100 * info.requested.get(of, 0) // max(info.allocatable.get(of, 0), 1)
        for of in ("cpu", "memory")
    )
    return Fullness(cpu, memory, len(info.pods))


def _pending(documents: Documents, placing: Placing) -> list[Pending]:
    """Returns the pods that stay pending; pods of one template share a decision, which the pods of
    a StatefulSet do not.
    """
    groups: dict[object, list[Place]] = {}
    for place in placing.pending:
        try:
            info = documents.attempt(place).info
        except SourceError:  # It belongs to another scheduler.
            continue
        key = placing.workload_of(place), info.priority, info.template
        groups.setdefault(key, []).append(place)
    pending: dict[tuple[str, str], Pending] = {}
    for places in groups.values():
        attempt = documents.attempt(places[0])
        reasons = standing(documents.at(places[0]))
        if not attempt.info.pod.spec.scheduling_gates:
            explained = decided(attempt)
            asks = asks_of(attempt.info, attempt.snapshot, explained.decision)
            reasons = ["".join(conclusion(explained, asks, now=not reasons))]
        pods = [f"{namespace}/{name}" for _, namespace, name in places]
        workload, reason = placing.workload_of(places[0]), "; ".join(reasons)
        pending.setdefault((workload, reason), Pending(workload, [], reason)).pods.extend(pods)
    return list(pending.values())
