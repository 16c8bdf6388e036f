"""The pod that a question is about: a pod of the cluster, or the next pod of a workload."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import FINISHED
from berth.actors.scheduling.kube.storage import PersistentVolumeClaim

from ...kubernetes.api.types.api_documents import place_of
from ...kubernetes.api.types.resources import KINDS
from ...kubernetes.objects.documents import pod_from
from ...kubernetes.objects.structs import TYPES as WORKLOAD_TYPES
from ...kubernetes.objects.structs import CronJob, DaemonSet, Job, StatefulSet, Workload, read
from ...kubernetes.objects.writes import Create
from ...kubernetes.workloads import cron_job, daemon_set, stateful_set
from ...kubernetes.workloads.job.job_controller import labels as job_labels
from .pinned_pods import waits_for_volume

Document = dict[str, Any]
NEW = "new"
DEFAULT_NAMESPACE = "default"
WORKLOADS = (
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "ReplicationController",
)
# The names of kinds as kubectl takes them.
_KIND_OF = {
    name: kind.kind
    for kind in KINDS
    if kind.kind in ("Pod", *WORKLOADS)
    for name in (kind.kind.lower(), kind.plural, *kind.short)
}


class Subject(msgspec.Struct, frozen=True):
    """A pod, or a workload, which stands for its next pod. `namespace` is "" if none is stated."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str, namespace: str = DEFAULT_NAMESPACE) -> Subject:
        """Reads NAME, NAMESPACE/NAME or KIND/NAME. The name of a kind is never taken for a
        namespace.
        """
        first, slash, name = text.partition("/")
        if not slash:
            return cls("Pod", namespace, text)
        kind = _KIND_OF.get(first.split(".")[0].lower())
        return cls("Pod", first, name) if kind is None else cls(kind, namespace, name)

    def is_in(self, documents: Iterable[Document]) -> Document | None:
        """Returns the object of this kind and name; None if it is not in the cluster."""
        for document in documents:
            if place_of(document) == (self.kind, self.namespace, self.name):
                return document
        return None

    def namespaces(self, documents: Iterable[Document]) -> list[str]:
        """Returns the namespaces that have an object of this kind and name, sorted."""
        of_kind = (document for document in documents if document["kind"] == self.kind)
        places = [document.get("metadata") or {} for document in of_kind]
        return sorted(of.get("namespace") or "" for of in places if of.get("name") == self.name)

    def near(self, documents: Iterable[Document]) -> str:
        """Returns ", did you mean X?" if an object X of this kind has a similar name, otherwise
        "".
        """
        of_kind = [d.get("metadata") or {} for d in documents if d["kind"] == self.kind]
        shown = {str(of.get("name")): f"{of.get('namespace')}/{of.get('name')}" for of in of_kind}
        own = (of for of in of_kind if of.get("namespace") == self.namespace)
        shown |= {str(of.get("name")): str(of.get("name")) for of in own}
        near = get_close_matches(self.name, shown, 1)
        return f", did you mean {shown[near[0]]}?" if near else ""

    def settled(self, documents: Iterable[Document]) -> Subject:
        """Returns the subject with a namespace.

        If none is stated, it is the only namespace of the documents that has the subject, or else
        "default".
        """
        if self.namespace:
            return self
        namespaces = self.namespaces(documents)
        return Subject(
            self.kind, namespaces[0] if len(namespaces) == 1 else DEFAULT_NAMESPACE, self.name
        )

    def __str__(self) -> str:
        kind = "pod" if self.kind == "Pod" else self.kind
        return f"{kind} {self.namespace}/{self.name}"


def next_pod(workload: Document, documents: Sequence[Document]) -> tuple[Document, list[Document]]:
    """Returns the pod that a workload's controller would create next, and the claims that it would
    create for the pod. Raises msgspec.ValidationError.
    """
    owner: Any = read(workload, WORKLOAD_TYPES[workload["kind"]])
    if isinstance(owner, StatefulSet):
        return _next_stateful_pod(owner, documents)
    if isinstance(owner, CronJob):
        return _named(_pod_of(cron_job.first_job(owner)), owner), []
    return _named(_pod_of(owner), owner), []


def _pod_of(owner: Workload) -> Document:
    labels = job_labels(owner) if isinstance(owner, Job) else None
    return pod_from(owner, labels=labels)


def _named(pod: Document, owner: Workload | CronJob) -> Document:
    metadata = {**pod["metadata"], "name": f"{owner.metadata.name}-{NEW}"}
    if isinstance(owner, DaemonSet):
        pod["spec"] = {**pod["spec"], "tolerations": daemon_set.tolerations(pod["spec"])}
    return {**pod, "metadata": metadata}


def _next_stateful_pod(
    owner: StatefulSet, documents: Sequence[Document]
) -> tuple[Document, list[Document]]:
    """Returns the pod of the first ordinal that has none."""
    namespace = owner.metadata.namespace
    within = [d for d in documents if (d.get("metadata") or {}).get("namespace") == namespace]
    pods = {d["metadata"]["name"] for d in within if d["kind"] == "Pod"}
    claims = {
        d["metadata"]["name"]: read(d, PersistentVolumeClaim)
        for d in within
        if d["kind"] == "PersistentVolumeClaim"
    }
    ordinal = 0
    while f"{owner.metadata.name}-{ordinal}" in pods:
        ordinal += 1
    creations = [
        write.document
        for write in stateful_set.pod_creation(owner, ordinal, claims)
        if isinstance(write, Create)
    ]
    return creations[-1], creations[:-1]


def standing(
    pod: Document, nodes: Collection[str] | None = None, unmade: Sequence[str] = ()
) -> list[str]:
    """Returns why the scheduler does not try the pod now, if it does not: sentences without their
    subject, such as "already runs on node-1". If the names of all `nodes` are given, they say if
    the pod's node is none of them. `unmade` are its claims whose volumes nothing makes.
    """
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    sentences = []
    if status.get("phase") in FINISHED:
        sentences.append(f"has ended: its phase is {status['phase']}")
    elif spec.get("nodeName"):
        runs = "runs on" if status.get("phase") == "Running" else "is bound to"
        missing = nodes is not None and spec["nodeName"] not in nodes
        node = f"{spec['nodeName']}, which does not exist" if missing else spec["nodeName"]
        sentences.append(f"already {runs} {node}".replace("already is", "is already"))
    if metadata.get("deletionTimestamp"):
        sentences.append(f"is being deleted since {metadata['deletionTimestamp']}")
    gates = [str(gate.get("name")) for gate in spec.get("schedulingGates") or ()]
    if gates and not spec.get("nodeName"):
        sentences.append(f"waits until its scheduling gates are removed: {', '.join(gates)}")
    if status.get("nominatedNodeName") and not spec.get("nodeName"):
        there = "" if unmade else ", where it waits for room or is being bound"
        sentences.append(f"is nominated to {status['nominatedNodeName']}{there}")
    if unmade:
        sentences.append(waits_for_volume(unmade))
    return sentences
