"""The pods of a workload, as its controller would create and delete them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import compress
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import FINISHED
from berth.actors.scheduling.kube.storage import PersistentVolumeClaim

from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Place, controller_in
from ...kubernetes.api.types.resources import BY_KIND
from ...kubernetes.api.writes.admission import CLAIMS
from ...kubernetes.api.writes.evictions import PODS
from ...kubernetes.objects.documents import pod_from
from ...kubernetes.objects.structs import (
    TYPES,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Node,
    ReplicaSet,
    StatefulSet,
    read,
)
from ...kubernetes.objects.writes import Create
from ...kubernetes.workloads import daemon_set, stateful_set
from ...kubernetes.workloads.cron_job import first_job
from ...kubernetes.workloads.deployment.replica_sets import (
    new_replica_set,
    next_revision,
    of_template,
)
from ...kubernetes.workloads.job.job_controller import labels as job_labels
from ...kubernetes.workloads.pod_ranking import by_age, by_usefulness
from ..explain.changes.another_node import copy_of
from ..explain.cluster_source import SourceError, completed_object
from ..explain.subject import Subject, next_pod
from .placement import Placing
from .tried_documents import Document, Documents

KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
REPLICA_SETS = BY_KIND["apps/v1", "ReplicaSet"]
_EPOCH = datetime.fromtimestamp(0, UTC)


def workload_to_scale(name: str, namespace: str) -> tuple[Place, str]:
    """Returns the workload of KIND/NAME or KIND/NAMESPACE/NAME, and the field with its number of
    pods. Raises SourceError.
    """
    subject = Subject.parse(name, namespace)
    field = "parallelism" if subject.kind == "Job" else "replicas"
    if subject.kind not in KINDS or subject.kind == "DaemonSet":
        raise SourceError(f"scale {name}: expected KIND/NAME of a workload with {field}")
    within, _, name = subject.name.rpartition("/")
    return (subject.kind, within or subject.namespace, name), field


def reconcile(documents: Documents, placing: Placing, place: Place, store: Store) -> None:
    """Creates the missing pods of a workload, and deletes those beyond its number of pods. Raises
    SourceError.
    """
    document = documents.at(place)
    owner = _read(document)
    pods = _pods_of(documents, document)
    workload = f"{place[0]} {place[1]}/{place[2]}"
    if isinstance(owner, DaemonSet):
        _daemons(documents, placing, owner, pods, workload, store)
        return
    desired = _desired(document)
    for superfluous in _deletion_order(documents, owner, pods)[: max(len(pods) - desired, 0)]:
        placing.delete(superfluous)
    missing = desired - len(pods)
    if missing <= 0:
        return
    placing.create(missing, "pods")
    if isinstance(owner, StatefulSet):
        _stateful_pods(documents, placing, owner, desired, workload, store)
        return
    if isinstance(owner, Deployment):
        owner = _replica_set(documents, owner, store)
    _identical_pods(placing, owner, place, missing, store)


def first_pod(documents: Documents, placing: Placing, place: Place, store: Store) -> Place | None:
    """Creates one pod of a workload that has none; returns None if admission refuses it. Raises
    SourceError.
    """
    document = documents.at(place)
    owner = _read(document)
    workload = f"{place[0]} {place[1]}/{place[2]}"
    if isinstance(owner, StatefulSet):
        return next(iter(_stateful_pods(documents, placing, owner, 1, workload, store)), None)
    if isinstance(owner, DaemonSet):
        pod = _admitted_pod(placing, next_pod(document, ())[0], workload, store)
        return None if pod is None else placing.add(pod, workload)
    if isinstance(owner, CronJob):
        owner = first_job(owner)
    if isinstance(owner, Deployment):
        owner = _replica_set(documents, owner, store)
    return next(iter(_identical_pods(placing, owner, place, 1, store)), None)


def _admitted_pod(placing: Placing, pod: Document, workload: str, store: Store) -> Document | None:
    """Returns a new pod as an API server would store it; None if it refuses the pod, which is
    noted.
    """
    try:
        return completed_object(PODS, pod, store)
    except SourceError as problem:
        placing.refuse(workload, str(problem))
        return None


def _read(workload: Document) -> Any:
    try:
        return read(workload, TYPES[workload["kind"]])
    except msgspec.ValidationError as invalid:
        raise SourceError(f"{workload['kind']} {workload['metadata']['name']}: {invalid}") from None


def _identical_pods(
    placing: Placing, owner: Any, place: Place, number: int, store: Store
) -> list[Place]:
    """Creates pods of a workload that differ in their names only."""
    labels = job_labels(owner) if isinstance(owner, Job) else {}
    workload = f"{place[0]} {place[1]}/{place[2]}"
    pod = _admitted_pod(placing, pod_from(owner, f"{place[2]}-new", labels), workload, store)
    created: list[Place] = []
    if pod is None:
        return created
    for _ in range(number):
        name = placing.new_name(f"{place[2]}-", place[1])
        metadata = {**pod["metadata"], "name": name, "uid": f"{place[1]}/{name}"}
        created.append(placing.add({**pod, "metadata": metadata}, workload))
    return created


def add_like(
    documents: Documents, like: str, number: int, check: Callable[[], None] = lambda: None
) -> None:
    """Adds copies of a node, each with copies of the pods that every node has.

    `check` is called before each copy.
    """
    info = documents.node_info(like)
    stays: list[bool] = []
    for copy in range(1, number + 1):
        check()
        node, *pods = (edit.document for edit in copy_of(documents, info, f"copy-{copy}"))
        assert node is not None
        documents.put(node)
        if copy == 1:
            stays = [pod is not None and _runs_on(documents, pod, node) for pod in pods]
        for pod in compress(pods, stays):
            assert pod is not None
            documents.put(pod)


def _runs_on(documents: Documents, pod: Document, node: Document) -> bool:
    """False for a pod of a DaemonSet that its controller would not create on a new node."""
    owner = controller_in(pod) or {}
    namespace = pod["metadata"].get("namespace") or ""
    document = documents.document(owner.get("kind", ""), owner.get("name", ""), namespace)
    if document is None or document["kind"] != "DaemonSet":
        return True
    spec = daemon_set.daemon_spec(read(document, DaemonSet))
    return daemon_set.fits(spec, read(node, Node))[0]


def _replica_set(documents: Documents, owner: Deployment, store: Store) -> ReplicaSet:
    """Returns the ReplicaSet of a Deployment's template, which spreads its pods; adds it if there
    is none.
    """
    uid = owner.metadata.uid
    sets = [
        read(document, ReplicaSet)
        for _, document in documents.every("ReplicaSet")
        if (controller_in(document) or {}).get("uid") == uid
    ]
    present = of_template(owner, sets)
    if present is not None:
        return present
    new = new_replica_set(owner, owner.spec.replicas or 0, next_revision(sets), 0)
    document = completed_object(REPLICA_SETS, new, store)
    documents.put(document)
    return read(document, ReplicaSet)


def _desired(document: Document) -> int:
    spec = document.get("spec") or {}
    if document["kind"] == "Job":
        parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
        return int(parallelism if completions is None else min(parallelism, completions))
    return int(spec.get("replicas", 1))


def _pods_of(documents: Documents, workload: Document) -> list[Place]:
    """Returns the pods that a workload controls, itself or through its ReplicaSets."""
    owners = {workload["metadata"]["uid"]}
    for _, document in documents.every("ReplicaSet"):
        if (controller_in(document) or {}).get("uid") in owners:
            owners.add(document["metadata"]["uid"])
    return [
        place
        for place, pod in documents.every("Pod")
        if (controller_in(pod) or {}).get("uid") in owners
        and (pod.get("status") or {}).get("phase") not in FINISHED
        and not pod["metadata"].get("deletionTimestamp")
    ]


def _deletion_order(documents: Documents, owner: Any, pods: list[Place]) -> list[Place]:
    """Returns pods in the order in which the controller of their workload deletes them."""
    read_pods = [documents.pod(place) for place in pods]
    places = dict(zip((pod.metadata.uid for pod in read_pods), pods, strict=True))
    if isinstance(owner, StatefulSet):
        ranked = sorted(
            read_pods, key=lambda pod: stateful_set.ordinal_of(owner, pod) or 0, reverse=True
        )
    elif isinstance(owner, Job):
        ranked = by_age(read_pods, datetime.now(UTC))
    else:
        ranked = by_usefulness(read_pods, read_pods, datetime.now(UTC))
    return [places[pod.metadata.uid] for pod in ranked]


def _stateful_pods(
    documents: Documents,
    placing: Placing,
    owner: StatefulSet,
    desired: int,
    workload: str,
    store: Store,
) -> list[Place]:
    """Creates the missing pods of the first `desired` ordinals, with their claims."""
    namespace = owner.metadata.namespace
    created: list[Place] = []
    claims = {
        place[2]: read(document, PersistentVolumeClaim)
        for place, document in documents.every("PersistentVolumeClaim")
        if place[1] == namespace
    }
    for ordinal in range(desired):
        if documents.document("Pod", f"{owner.metadata.name}-{ordinal}", namespace):
            continue
        for write in stateful_set.pod_creation(owner, ordinal, claims):
            if not isinstance(write, Create):
                continue
            if write.document["kind"] == "Pod":
                pod = _admitted_pod(placing, write.document, workload, store)
                if pod is None:
                    return created
                created.append(placing.add(pod, workload))
            else:
                documents.put(completed_object(CLAIMS, write.document, store))
    return created


def _daemons(
    documents: Documents,
    placing: Placing,
    owner: DaemonSet,
    pods: list[Place],
    workload: str,
    store: Store,
) -> None:
    nodes = [read(document, Node) for _, document in documents.every("Node")]
    present = [documents.pod(place) for place in pods]
    for write in daemon_set.reconcile(owner, present, nodes, _EPOCH):
        if isinstance(write, Create) and write.document["kind"] == "Pod":
            name = placing.new_name(f"{owner.metadata.name}-", owner.metadata.namespace)
            metadata = {**write.document["metadata"], "name": name}
            pod = _admitted_pod(placing, {**write.document, "metadata": metadata}, workload, store)
            if pod is None:
                return
            placing.add(pod, workload)
