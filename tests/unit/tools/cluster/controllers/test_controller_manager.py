"""The decisions of the toy cluster's controllers, made from objects and a time only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.storage import PersistentVolumeClaim
from berth.tools.kubernetes.api.types.api_documents import StoredObject
from berth.tools.kubernetes.object_index import ObjectIndex
from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.properties import int_or_percent
from berth.tools.kubernetes.objects.structs import (
    DaemonSet,
    Document,
    Node,
    Pod,
    ReplicaSet,
    S,
    StatefulSet,
    read,
)
from berth.tools.kubernetes.objects.writes import Create, Delete, Patch, Write
from berth.tools.kubernetes.workloads import daemon_set, replica_set, stateful_set
from berth.tools.kubernetes.workloads.adoption import claim

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THEN = "2025-12-31T23:59:50Z"
LABELS = {"app": "x"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def workload(kind: type[S], name: str = "w", status: Document | None = None, /, **spec: Any) -> S:
    metadata = {**metadata_of(name), "generation": 1}
    selected = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE, **spec}
    return read({"metadata": metadata, "spec": selected, "status": status or {}}, kind)


def metadata_of(name: str, *owners: HasMetadata, **metadata: Any) -> Document:
    """Returns the metadata of an object in the namespace n that these control."""
    named = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {**named, "ownerReferences": [reference_to(owner) for owner in owners], **metadata}


def pod(
    name: str,
    owner: HasMetadata | None = None,
    phase: str = "Running",
    ready: bool = True,
    node: str = "n1",
    labels: Document | None = None,
    tolerations: tuple[Document, ...] = (),
    **metadata: Any,
) -> Pod:
    owners = () if owner is None else (owner,)
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": THEN}
    document = {
        "metadata": metadata_of(name, *owners, labels={**LABELS, **(labels or {})}, **metadata),
        "spec": {"nodeName": node, "tolerations": list(tolerations)},
        "status": {"phase": phase, "conditions": [condition]},
    }
    return read(document, Pod)


def created(writes: list[Write]) -> list[str]:
    return [
        write.document["metadata"].get("name", "") for write in writes if isinstance(write, Create)
    ]


def deleted(writes: list[Write]) -> list[str]:
    return [write.name for write in writes if isinstance(write, Delete)]


def status(writes: list[Write]) -> Document:
    return next(
        write.body["status"]
        for write in writes
        if isinstance(write, Patch) and write.subresource == "status"
    )


# -- owners


def test_matching_objects_are_adopted_and_others_released() -> None:
    owner = workload(ReplicaSet)
    free, mine, lost = pod("free"), pod("mine", owner), pod("lost", owner, labels={"app": "y"})
    other, ending = pod("other", workload(ReplicaSet, "v")), pod("ending", deletionTimestamp=THEN)
    owned, writes = claim(owner, [free, mine, lost, other, ending])
    assert [p.metadata.name for p in owned] == ["free", "mine"]
    patches = {w.name: w.body["metadata"] for w in writes if isinstance(w, Patch)}
    assert patches == {
        "free": {"ownerReferences": [reference_to(owner)], "resourceVersion": "1"},
        "lost": {"ownerReferences": [], "resourceVersion": "1"},
    }


# -- replicas


def test_a_replica_set_creates_and_deletes_pods_and_writes_its_status() -> None:
    owner = workload(ReplicaSet, replicas=3)
    finished, ending = pod("f", owner, "Failed"), pod("e", owner, deletionTimestamp=THEN)
    writes = replica_set.reconcile(owner, [pod("a", owner), finished, ending], NOW)
    assert len(created(writes)) == 2
    assert status(writes)["readyReplicas"] == 1
    smaller = workload(ReplicaSet, replicas=1)
    assert len(deleted(replica_set.reconcile(smaller, [pod(n, owner) for n in "abc"], NOW))) == 2


def test_a_replica_set_neither_adopts_nor_releases_pods_that_have_ended_or_end() -> None:
    owner = workload(ReplicaSet, replicas=0)
    pods = [
        pod("free", phase="Succeeded"),
        pod("lost", owner, "Failed", labels={"app": "y"}),
        pod("ending", owner, deletionTimestamp=THEN),
        pod("lost-ending", owner, labels={"app": "y"}, deletionTimestamp=THEN),
    ]
    (write,) = replica_set.reconcile(owner, pods, NOW)
    assert isinstance(write, Patch)
    assert write.subresource == "status"
    assert write.body["status"]["terminatingReplicas"] == 1


@pytest.mark.parametrize(
    ("replicas", "reason"), [(1, "FailedCreate"), (3, "FailedDelete"), (2, None)]
)
def test_a_replica_set_says_which_change_of_its_pods_is_refused(
    replicas: int, reason: str | None
) -> None:
    owner = workload(ReplicaSet, replicas=2)
    pods = [pod(str(number), owner) for number in range(replicas)]
    conditions = status(replica_set.reconcile(owner, pods, NOW, "no")).get("conditions") or []
    assert [(c["type"], c["reason"], c["message"]) for c in conditions] == (
        [("ReplicaFailure", reason, "no")] if reason else []
    )


def test_pods_are_deleted_first_from_crowded_nodes_of_their_deployment() -> None:
    owner = workload(ReplicaSet, replicas=1)
    alone, crowded = pod("a", owner), pod("b", owner, node="n2")
    pods = [alone, crowded]
    related = [*pods, pod("other", node="n2")]
    assert deleted(replica_set.reconcile(owner, pods, NOW, related=lambda: related)) == ["b"]


def test_a_replica_set_creates_and_deletes_a_limited_number_of_pods_at_once() -> None:
    many = [pod(f"p{number}", workload(ReplicaSet)) for number in range(replica_set.BURST + 2)]
    owner = workload(ReplicaSet, replicas=1)
    assert len(deleted(replica_set.reconcile(owner, many, NOW))) == replica_set.BURST
    owner = workload(ReplicaSet, replicas=replica_set.BURST + 2)
    assert len(created(replica_set.reconcile(owner, [], NOW))) == replica_set.BURST


@pytest.mark.parametrize(
    ("value", "round_up", "expected"),
    [(3, True, 3), ("25%", True, 3), ("25%", False, 2), ("0%", True, 0), ("4", True, 4)],
)
def test_percentages_are_rounded_up_or_down(
    value: int | str, round_up: bool, expected: int
) -> None:
    assert int_or_percent(value, 10, round_up=round_up) == expected


def test_a_stateful_set_goes_one_by_one_unless_parallel() -> None:
    owner = workload(StatefulSet, replicas=3, serviceName="s")
    assert created(stateful_set.reconcile(owner, [], [], NOW)) == ["w-0"]
    assert created(stateful_set.reconcile(owner, [pod("w-0", owner, ready=False)], [], NOW)) == []
    assert created(stateful_set.reconcile(owner, [pod("w-0", owner)], [], NOW)) == ["w-1"]
    parallel = workload(StatefulSet, replicas=3, podManagementPolicy="Parallel")
    assert created(stateful_set.reconcile(parallel, [], [], NOW)) == ["w-0", "w-1", "w-2"]
    owner = workload(StatefulSet, replicas=1, ordinals={"start": 1})
    assert deleted(
        stateful_set.reconcile(owner, [pod(f"w-{i}", owner) for i in (1, 2, 3)], [], NOW)
    ) == ["w-3"]


def claim_of(name: str, *owners: HasMetadata, **metadata: Any) -> PersistentVolumeClaim:
    return read({"metadata": metadata_of(name, *owners, **metadata)}, PersistentVolumeClaim)


def set_with_claims(**spec: Any) -> StatefulSet:
    templates = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "s"}}]
    return workload(StatefulSet, volumeClaimTemplates=templates, **spec)


def retaining(deleted: str, scaled: str) -> Document:
    return {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled}}


def test_each_replica_gets_the_claims_of_its_name() -> None:
    owner = set_with_claims(replicas=2)
    claim_, created_pod = (
        write.document
        for write in stateful_set.reconcile(owner, [], [], NOW)
        if isinstance(write, Create)
    )
    assert claim_["metadata"]["name"] == "data-w-0"
    assert claim_["metadata"]["labels"] == LABELS
    assert "ownerReferences" not in claim_["metadata"]
    assert created_pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}
    ]
    again = stateful_set.reconcile(owner, [], [claim_of("data-w-0")], NOW)
    assert created(again) == ["w-0"], "a claim that exists is used again"
    ending = claim_of("data-w-0", deletionTimestamp=THEN)
    assert created(stateful_set.reconcile(owner, [], [ending], NOW)) == []
    waiting = pod("w-0", owner, phase="Pending", ready=False)
    assert created(stateful_set.reconcile(owner, [waiting], [], NOW)) == ["data-w-0"]
    assert [stateful_set.makes_claim(owner, name) for name in ("data-w-3", "data-w", "x-w-0")] == [
        True,
        False,
        False,
    ]


def test_claims_are_kept_or_deleted_by_the_retention_policy() -> None:
    def owners_after(policy: Document, replicas: int, *have: str) -> list[list[str]]:
        owner = set_with_claims(replicas=replicas, **policy)
        pods = [pod("w-0", owner), pod("w-1", owner)]
        by_uid: dict[str, HasMetadata] = {"uid-w": owner, "uid-w-1": pods[1]}
        claims = [claim_of("data-w-1", *(by_uid[uid] for uid in have))]
        writes = stateful_set.reconcile(owner, pods, claims, NOW)
        patches = [write for write in writes if isinstance(write, Patch)]
        changed = [
            [reference["uid"] for reference in write.body["metadata"]["ownerReferences"]]
            for write in patches
            if write.kind == "PersistentVolumeClaim"
        ]
        assert not changed or not deleted(writes), "the owner is set before the pod is deleted"
        return changed

    assert owners_after(retaining("Retain", "Retain"), 1) == []
    assert owners_after(retaining("Delete", "Retain"), 2) == [["uid-w"]]
    assert owners_after(retaining("Delete", "Retain"), 2, "uid-w") == []
    assert owners_after(retaining("Retain", "Delete"), 2) == []
    assert owners_after(retaining("Retain", "Delete"), 1) == [["uid-w-1"]]
    assert owners_after(retaining("Delete", "Delete"), 1, "uid-w") == [["uid-w-1"]]
    assert owners_after(retaining("Delete", "Delete"), 2, "uid-w-1") == [["uid-w"]]
    assert owners_after(retaining("Retain", "Retain"), 2, "uid-w") == [[]]
    owner = set_with_claims(replicas=1, **retaining("Delete", "Retain"))
    new = stateful_set.reconcile(owner, [], [], NOW)[0]
    assert isinstance(new, Create)
    assert new.document["metadata"]["ownerReferences"] == [reference_to(owner)]


# -- daemons


def node(
    name: str, *taints: tuple[str, str], unschedulable: bool = False, **conditions: str
) -> Node:
    document = {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {
            "taints": [{"key": key, "effect": effect} for key, effect in taints],
            "unschedulable": unschedulable,
        },
        "status": {
            "conditions": [{"type": kind, "status": word} for kind, word in conditions.items()]
        },
    }
    return read(document, Node)


def test_a_daemon_runs_on_every_node_that_it_fits() -> None:
    owner = workload(DaemonSet)
    nodes = [node("a"), node("b"), node("c", ("k", "NoSchedule")), node("d", ("k", "NoExecute")),
             node("e", ("node.kubernetes.io/unschedulable", "NoSchedule"))]  # fmt: skip
    pods = [pod(f"on-{name}", owner, node=name) for name in "acd"] + [
        pod("second", owner, node="a")
    ]
    writes = daemon_set.reconcile(owner, pods, nodes, NOW)
    targets = [
        daemon_set.target_node(read(write.document, Pod))
        for write in writes
        if isinstance(write, Create)
    ]
    assert targets == ["b", "e"]
    assert deleted(writes) == ["second", "on-d"], "a taint without NoExecute must not evict it"
    assert (status(writes)["desiredNumberScheduled"], status(writes)["numberMisscheduled"]) == (
        3,
        2,
    )


# -- budgets


# -- what they know


def test_the_cluster_ignores_old_events() -> None:
    cluster, owner = ObjectIndex(), workload(ReplicaSet)
    first, second = pod("p", owner), pod("p", owner, resourceVersion="2")
    assert cluster.put(second) is not None
    assert cluster.put(first) is None
    assert (
        cluster.candidates(Pod, owner)
        == cluster.dependents("uid-w")
        == cluster.pods_on("n1")
        == [second]
    )
    assert cluster.remove(second) is not None
    assert cluster.is_gone("uid-p")
    assert cluster.put(pod("p", owner, resourceVersion="3")) is None, (
        "an old event must not bring a deleted object back"
    )
    reborn = pod("p", owner, resourceVersion="4", uid="uid-new")
    assert cluster.put(reborn) is not None
    assert cluster.remove(second) is None, "another object has that name now"
    assert cluster.find(Pod, "n", "p") == reborn
    changes = cluster.replace(Pod, [pod("q", resourceVersion="5")])
    assert [(change.before is None, change.after is None) for change in changes] == [
        (False, True),
        (True, False),
    ]
    assert (
        cluster.pods_on("n1") == cluster.candidates(Pod, owner) == [pod("q", resourceVersion="5")]
    )


def test_the_cluster_knows_renewed_leases_at_their_latest_version() -> None:
    def stored(second: int, **labels: str) -> StoredObject:
        owners = [{"uid": "node"}]
        named = {"name": "a", "namespace": "n", "uid": "u"}
        metadata = {**named, "labels": labels, "ownerReferences": owners}
        document = {"metadata": metadata, "spec": {"renewTime": "then"}}
        return StoredObject(document, second).renewed(f"at {second}", second)

    cluster = ObjectIndex()
    cluster.put(read(stored(1).document, Lease))
    cluster.renew({("n", "a"): stored(2)})
    cluster.renew({("n", "a"): stored(3)})
    (lease,) = cluster.dependents("node")
    assert lease == cluster.find(Lease, "n", "a") == read(stored(3).document, Lease)
    cluster.renew({("n", "a"): stored(4)})
    change = cluster.put(read(stored(5, app="x").document, Lease))
    assert change is not None
    assert isinstance(change.before, Lease)
    assert change.before.spec.renew_time == "at 4"
    cluster.renew({("n", "a"): stored(4)})
    (latest,) = cluster.all(Lease)
    assert latest.metadata.labels == {"app": "x"}, "older news is dropped"
    cluster.renew({("n", "a"): stored(6)})
    assert cluster.remove(latest) is not None
    assert cluster.find(Lease, "n", "a") is None
