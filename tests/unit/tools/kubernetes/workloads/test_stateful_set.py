"""Which pods of a stateful set are created and deleted, and which wait."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.object_events import refused_creation
from berth.tools.kubernetes.objects.structs import Document, Pod, StatefulSet, read
from berth.tools.kubernetes.objects.writes import Create, Delete, Patch
from berth.tools.kubernetes.workloads.revisions import HASH, empty_history
from berth.tools.kubernetes.workloads.stateful_set import POD_INDEX, POD_NAME, reconcile

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
OLD = "w-old"


def stateful_set(replicas: int = 3, **spec: Any) -> StatefulSet:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"image": "i"}]}}
    selected = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    metadata = {"name": "w", "namespace": "n", "uid": "u"}
    document = {"metadata": metadata, "spec": {"replicas": replicas, **selected, **spec}}
    return read(document, StatefulSet)


def pod(
    ordinal: int,
    revision: str = "",
    *,
    ready_since: str | None = "2026-01-01T00:00:00Z",
    ending: bool = False,
    name: str = "",
) -> Pod:
    """Returns a pod of the set: of the update revision, ready for a minute."""
    owner = stateful_set()
    metadata: Document = {
        "name": name or f"w-{ordinal}",
        "namespace": "n",
        "uid": f"u{ordinal}",
        "labels": {"app": "x", HASH: revision or empty_history(owner).name},
        "ownerReferences": [{**reference_to(owner), "controller": True}],
    }
    if ending:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    status = "False" if ready_since is None else "True"
    ready = {"type": "Ready", "status": status, "lastTransitionTime": ready_since}
    phase = {"phase": "Running", "conditions": [ready]}
    return read({"metadata": metadata, "status": phase}, Pod)


def result(owner: StatefulSet, *pods: Pod) -> list[str]:
    """Returns the names of the pods that are created (+) and deleted (-), in order."""
    names = []
    for write in reconcile(owner, pods, [], NOW):
        if isinstance(write, Create) and write.kind == "Pod":
            names.append(f"+{write.document['metadata']['name']}")
        elif isinstance(write, Delete) and write.kind == "Pod":
            names.append(f"-{write.name}")
    return names


def rolling(partition: int) -> Document:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}


def test_the_partition_counts_from_the_first_ordinal() -> None:
    owner = stateful_set(ordinals={"start": 5}, updateStrategy=rolling(2))
    assert result(owner, pod(5, OLD), pod(6, OLD), pod(7, OLD)) == ["-w-7"]
    assert result(owner, pod(5, OLD), pod(6, OLD), pod(7)) == []


def test_an_old_pod_that_is_not_ready_is_replaced_if_the_order_does_not_matter() -> None:
    old = pod(2, OLD, ready_since=None)
    assert result(stateful_set(podManagementPolicy="Parallel"), pod(0), pod(1), old) == ["-w-2"]
    assert result(stateful_set(), pod(0), pod(1), old) == []


def test_a_parallel_set_is_updated_while_pods_are_missing_or_surplus() -> None:
    owner = stateful_set(podManagementPolicy="Parallel")
    assert result(owner, pod(1), pod(2, OLD)) == ["+w-0", "-w-2"]
    assert result(owner, pod(0), pod(1, OLD), pod(2), pod(3)) == ["-w-3", "-w-1"]
    assert result(owner, pod(0, OLD), pod(1, OLD)) == ["+w-2"]


def test_an_update_waits_for_the_pods_above() -> None:
    owner = stateful_set(podManagementPolicy="Parallel")
    assert result(owner, pod(0, OLD), pod(1, OLD), pod(2, ready_since=None)) == []
    assert result(owner, pod(0, OLD), pod(1, OLD), pod(2, OLD, ending=True)) == []


def test_a_pod_counts_once_it_was_ready_for_its_time() -> None:
    fresh = pod(0, ready_since="2026-01-01T00:00:45Z")
    assert result(stateful_set(2, minReadySeconds=10), fresh) == ["+w-1"]
    assert result(stateful_set(2, minReadySeconds=30), fresh) == []
    owner = stateful_set(2, minReadySeconds=30)
    assert result(owner, pod(0, OLD), pod(1, ready_since="2026-01-01T00:00:45Z")) == []
    assert result(owner, pod(0, OLD), pod(1)) == ["-w-0"]


def test_a_surplus_pod_waits_for_lower_ones_that_are_not_ready() -> None:
    lower = pod(1, ready_since=None)
    assert result(stateful_set(1), pod(0), lower, pod(2)) == ["-w-2"]
    assert result(stateful_set(1), pod(0), lower, pod(2, ready_since=None)) == []
    assert result(stateful_set(1), pod(0), lower) == ["-w-1"]
    assert result(stateful_set(1), pod(0), pod(1), pod(2, ending=True)) == []


def test_only_a_pod_with_the_name_of_a_replica_belongs_to_the_set() -> None:
    def adopted(name: str) -> list[str]:
        orphan = {"name": name, "namespace": "n", "uid": "o", "labels": {"app": "x"}}
        writes = reconcile(stateful_set(0), [read({"metadata": orphan}, Pod)], [], NOW)
        return [w.name for w in writes if isinstance(w, Patch) and w.kind == "Pod"]

    assert adopted("w-0") == ["w-0"]
    assert adopted("web-0") == adopted("w-0-1") == adopted("w-x") == adopted("w") == []
    # a number of more than 32 bits is no ordinal
    assert result(stateful_set(0), pod(0, name="w-2147483648")) == []
    assert result(stateful_set(0), pod(0, name="w-2147483647")) == ["-w-2147483647"]


def test_a_pod_that_lost_the_labels_of_its_identity_gets_them_back() -> None:
    (patch,) = (
        write
        for write in reconcile(stateful_set(1), [pod(0)], [], NOW)
        if isinstance(write, Patch) and write.kind == "Pod"
    )
    assert patch.body["metadata"]["labels"] == {POD_NAME: "w-0", POD_INDEX: "0"}


def test_the_current_revision_follows_a_roll_out_but_not_deletions_by_hand() -> None:
    def current(strategy: Document) -> str:
        owner = stateful_set(1, updateStrategy=strategy)
        status = msgspec.structs.replace(owner.status, current_revision=OLD)
        owner = msgspec.structs.replace(owner, status=status)
        (write,) = (
            write
            for write in reconcile(owner, [pod(0)], [], NOW)
            if isinstance(write, Patch) and write.subresource == "status"
        )
        return str(write.body["status"].get("currentRevision", OLD))

    assert current(rolling(0)) == empty_history(stateful_set()).name
    assert current({"type": "OnDelete"}) == OLD


def test_a_pod_has_its_claims_and_the_other_volumes_of_its_template() -> None:
    names = {"name": "own"}, {"name": "data"}
    volumes = [{**name, "emptyDir": {}} for name in names]
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"volumes": volumes}}
    owner = stateful_set(template=template, volumeClaimTemplates=[{"metadata": {"name": "data"}}])
    claim, created = reconcile(owner, [], [], NOW)[:2]
    assert isinstance(claim, Create)
    assert isinstance(created, Create)
    assert claim.document["metadata"]["name"] == "data-w-0"
    assert created.document["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}},
        volumes[0],
    ]


def test_a_claim_without_a_name_is_left_to_the_server_to_refuse() -> None:
    owner = stateful_set(1, volumeClaimTemplates=[{}])
    claim, pod_ = (write for write in reconcile(owner, [], [], NOW) if isinstance(write, Create))
    assert (claim.kind, claim.document["metadata"]["name"]) == ("PersistentVolumeClaim", "-w-0")
    assert pod_.kind == "Pod"


def test_the_event_about_a_refused_claim_names_the_pod() -> None:
    owner, claim = stateful_set(), {"kind": "PersistentVolumeClaim"}
    document = {**claim, "metadata": {"name": "data-disk-w-12"}}
    event = refused_creation(owner, document, "no", NOW)
    text = "Create Claim data-disk-w-12 for Pod w-12 in StatefulSet w failed error: no"
    assert (event["reason"], event["message"]) == ("FailedCreate", text)
