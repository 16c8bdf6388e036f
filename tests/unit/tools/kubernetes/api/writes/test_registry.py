"""The effects of requests on objects: protected fields, deletion, binding and admission."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.media_types import JSON_PATCH, MERGE, STRATEGIC
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions, Preconditions
from berth.tools.kubernetes.api.time_and_chance import TimeAndChance
from berth.tools.kubernetes.api.types.api_documents import RefusedError, StoredObject
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.testing.virtual_time import BEGAN
from tests.kit import documents
from tests.kit.documents import Document

PODS, NODES, NAMESPACES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"], BY_KIND["v1", "Namespace"]
MAPS, CLAIMS = BY_KIND["v1", "ConfigMap"], BY_KIND["v1", "PersistentVolumeClaim"]
CLASSES = BY_KIND["scheduling.k8s.io/v1", "PriorityClass"]
STORAGE_CLASSES = BY_KIND["storage.k8s.io/v1", "StorageClass"]
RUNTIME_CLASSES = BY_KIND["node.k8s.io/v1", "RuntimeClass"]
DEPLOYMENTS = BY_KIND["apps/v1", "Deployment"]
JOBS, EVENTS = BY_KIND["batch/v1", "Job"], BY_KIND["v1", "Event"]
NS = "default"
NOW = DeleteOptions(grace_period_seconds=0)


def pod(name: str = "p", **spec: Any) -> Document:
    return documents.pod(name, labels={"app": "x"}, **{"containers": [{"name": "c"}], **spec})


def image(document: Document) -> Document:
    return {**document, "spec": {**document["spec"], "containers": [{"name": "c", "image": "i"}]}}


def create(api: Api, name: str = "p", **spec: Any) -> Document:
    return api.create(PODS, NS, image(pod(name, **spec))).document


def current(api: Api, name: str = "p") -> Document:
    return api.store.get(PODS, NS, name)


def patch(api: Api, change: Any, subresource: str = "", how: str = MERGE) -> StoredObject:
    return api.patch(PODS, NS, "p", change, how, subresource)


def update(api: Api, document: Document, subresource: str = "") -> StoredObject:
    return api.update(PODS, NS, "p", document, subresource)


def bind(api: Api, name: str = "p", uid: str = "", node: str = "n1") -> None:
    api.bind(NS, name, {"metadata": {"uid": uid}, "target": {"kind": "Node", "name": node}})


def code(refused: pytest.ExceptionInfo[RefusedError]) -> tuple[int, str]:
    return refused.value.code, refused.value.reason


# -- create and update


def test_an_object_of_the_cluster_loses_a_namespace(api: Api) -> None:
    document = {"metadata": {"name": "c", "namespace": "lab"}, "value": 1}
    created = api.create(CLASSES, "", document).document
    assert "namespace" not in created["metadata"]
    changed = {**document, "description": "d"}
    assert api.update(CLASSES, "", "c", changed, "").document["description"] == "d"
    assert "namespace" not in api.store.get(CLASSES, "", "c")["metadata"]


def test_the_server_owns_some_metadata(api: Api) -> None:
    claimed = {
        "uid": "mine",
        "resourceVersion": "0",
        "generation": 9,
        "deletionTimestamp": "2020-01-01T00:00:00Z",
    }
    document = image(pod())
    document["metadata"] |= {**claimed, "creationTimestamp": None}
    metadata = api.create(PODS, NS, {**document, "status": {"phase": "Running"}}).document[
        "metadata"
    ]
    assert (metadata["generation"], metadata["namespace"]) == (1, NS)
    assert metadata["uid"] != "mine"
    assert metadata["resourceVersion"] == str(api.store.revision)
    assert metadata["creationTimestamp"]
    assert "deletionTimestamp" not in metadata
    assert current(api)["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    document["metadata"] = {"name": "other", "resourceVersion": "7"}
    with pytest.raises(RefusedError, match="resourceVersion should not be set") as refused:
        api.create(PODS, NS, document)
    assert code(refused) == (400, "BadRequest")


def test_generated_names_have_only_letters_that_labels_allow(api: Api) -> None:
    prefix = "x" * 80 + "-"
    created = [
        api.create(MAPS, NS, {"metadata": {"generateName": p}}) for p in ("web-", "web-", prefix)
    ]
    names = [stored.document["metadata"]["name"] for stored in created]
    assert len(set(names)) == 3
    assert [len(name) for name in names] == [9, 9, 63]
    assert all(name.startswith("web-") for name in names[:2])


def test_a_generated_name_that_exists_is_generated_anew(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated = {"metadata": {"generateName": "web-"}}
    names = set()
    for _ in range(3):  # Each begins with the same name.
        api.store.outside = TimeAndChance(api.store.outside.wall, Random(1))
        names.add(api.create(MAPS, NS, generated).document["metadata"]["name"])
    assert len(names) == 3
    monkeypatch.setattr("berth.tools.kubernetes.api.time_and_chance.ALPHABET", "b")
    api.create(MAPS, NS, generated)
    with pytest.raises(RefusedError) as refused:
        api.create(MAPS, NS, generated)
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")
    assert str(refused.value) == (
        'configmaps "web-bbbbb" already exists, '
        "the server was not able to generate a unique name for the object"
    )


def test_only_a_change_of_the_spec_increases_the_generation(api: Api) -> None:
    create(api)
    patch(api, {"metadata": {"labels": {"a": "b"}}})
    patch(api, {"status": {"phase": "Running"}}, "status")
    assert current(api)["metadata"]["generation"] == 1
    patch(api, {"spec": {"activeDeadlineSeconds": 9}})
    assert current(api)["metadata"]["generation"] == 2


def test_spec_and_status_are_written_separately(api: Api) -> None:
    create(api)
    update(api, {**current(api), "status": {"phase": "Failed"}})
    assert current(api)["status"]["phase"] == "Pending"
    named: Document = {
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {},
        "status": {"phase": "Failed"},
    }
    update(api, {**current(api), **named}, "status")
    assert current(api)["status"] == {"phase": "Failed", "qosClass": "BestEffort"}
    assert current(api)["spec"]["containers"]
    assert current(api)["metadata"]["labels"] == {"app": "x"}


def test_an_update_with_another_version_or_uid_is_refused(api: Api) -> None:
    before = create(api)
    patch(api, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(RefusedError, match="the object has been modified") as refused:
        update(api, before)
    assert code(refused) == (409, "Conflict")
    latest = {**current(api), "metadata": {"name": "p", "uid": "other"}}
    with pytest.raises(RefusedError, match="UID in precondition") as refused:
        update(api, latest)
    assert code(refused) == (409, "Conflict")
    with pytest.raises(RefusedError, match="uid: Invalid value") as refused:
        patch(api, {"metadata": {"uid": "other"}})
    assert code(refused) == (422, "Invalid")
    with pytest.raises(
        RefusedError, match=r"the name of the object \(q\) does not match the name on the URL \(p\)"
    ):
        patch(api, {"metadata": {"name": "q"}})
    with pytest.raises(RefusedError, match="the namespace of the provided object"):
        patch(api, {"metadata": {"namespace": "q"}})


def test_an_update_that_changes_nothing_keeps_the_version(api: Api) -> None:
    before = create(api)
    metadata = {key: value for key, value in before["metadata"].items() if key != "resourceVersion"}
    update(api, {**before, "metadata": metadata})
    assert current(api) is before


@pytest.mark.parametrize("version", [None, "", "0"])
@pytest.mark.parametrize("subresource", ["", "status"])
def test_an_update_without_a_version_updates_the_current_object(
    api: Api, version: str | None, subresource: str
) -> None:
    """In Kubernetes an absent resourceVersion means "0"."""
    before = create(api)
    patch(api, {"metadata": {"labels": {"a": "b"}}})
    document = {**before, "status": {"phase": "Running"}}
    document["metadata"] = {
        **before["metadata"],
        "labels": {"new": "label"},
        "resourceVersion": version,
    }
    written = update(api, document, subresource)
    assert written.document["metadata"]["resourceVersion"] == str(api.store.revision)
    assert current(api)["metadata"]["labels"] == {"new": "label"}
    assert current(api)["status"]["phase"] == ("Running" if subresource else "Pending")


def test_a_scale_without_a_version_updates_the_current_object(api: Api) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.create(DEPLOYMENTS, NS, {"metadata": {"name": "d"}, "spec": spec})
    scale = {"metadata": {"name": "d", "resourceVersion": "0"}, "spec": {"replicas": 3}}
    assert api.rescale(DEPLOYMENTS, NS, "d", scale).document["spec"]["replicas"] == 3


CONDITIONAL = [
    ("coordination.k8s.io/v1", "Lease", {}),
    ("policy/v1", "PodDisruptionBudget", {}),
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "h"}),
    ("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": []}}),
    ("storage.k8s.io/v1", "CSIDriver", {"spec": {}}),
    ("storage.k8s.io/v1", "CSIStorageCapacity", {"storageClassName": "s"}),
    (
        "storage.k8s.io/v1",
        "VolumeAttachment",
        {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    ),
]


@pytest.mark.parametrize(("version", "kind", "fields"), CONDITIONAL)
@pytest.mark.parametrize("named", [None, "", "0"])
def test_updates_of_some_kinds_need_a_version(
    api: Api, version: str, kind: str, fields: Document, named: str | None
) -> None:
    of, namespace = BY_KIND[version, kind], NS if BY_KIND[version, kind].namespaced else ""
    created = api.create(of, namespace, {"metadata": {"name": "x"}, **fields}).document
    document = {
        **created,
        "metadata": {**created["metadata"], "labels": {"a": "b"}, "resourceVersion": named},
    }
    with pytest.raises(
        RefusedError, match=r"metadata\.resourceVersion: Invalid value: 0: must be specified"
    ) as refused:
        api.update(of, namespace, "x", document, "")
    assert code(refused) == (422, "Invalid")
    document["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
    api.update(of, namespace, "x", document, "")
    api.patch(of, namespace, "x", {"metadata": {"labels": {"a": "c"}}}, MERGE, "")
    assert api.store.get(of, namespace, "x")["metadata"]["labels"] == {"a": "c"}


VERSION = "/metadata/resourceVersion"


@pytest.mark.parametrize("version", ["0", "", None])
def test_a_patch_may_remove_the_version(api: Api, version: str | None) -> None:
    create(api)
    patch(api, {"metadata": {"labels": {"n": "1"}, "resourceVersion": version}})
    patch(api, {"metadata": {"labels": {"n": "2"}, "resourceVersion": version}}, how=STRATEGIC)
    assert current(api)["metadata"]["labels"]["n"] == "2"
    value = {"op": "remove"} if version is None else {"op": "replace", "value": version}
    label = {"op": "add", "path": "/metadata/labels/n", "value": "3"}
    patch(api, [{**value, "path": VERSION}, label], how=JSON_PATCH)
    assert current(api)["metadata"]["labels"]["n"] == "3"


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ({"metadata": {"labels": {"n": "1"}, "resourceVersion": "1"}}, MERGE),
        ({"metadata": {"labels": {"n": "1"}, "resourceVersion": "1"}}, STRATEGIC),
        (
            [
                {"op": "replace", "path": VERSION, "value": "1"},
                {"op": "add", "path": "/metadata/labels/n", "value": "1"},
            ],
            JSON_PATCH,
        ),
    ],
)
def test_a_patch_with_another_version_is_refused(api: Api, change: Any, how: str) -> None:
    create(api)
    with pytest.raises(RefusedError, match="the object has been modified") as refused:
        patch(api, change, how=how)
    assert code(refused) == (409, "Conflict")


def test_fields_omitted_from_an_update_get_their_defaults(api: Api) -> None:
    api.create(STORAGE_CLASSES, "", {"metadata": {"name": "s"}, "provisioner": "berth.dev/none"})
    api.update(
        STORAGE_CLASSES, "", "s", {"metadata": {"name": "s"}, "provisioner": "berth.dev/none"}, ""
    )
    assert api.store.get(STORAGE_CLASSES, "", "s")["reclaimPolicy"] == "Delete"


# -- decoding


def test_nulls_and_unknown_fields_are_dropped_with_a_warning_for_the_latter(api: Api) -> None:
    warned = Api(api.store, "Warn")
    document = image(
        pod(restartPolicy=None, terminationGracePeriodSeconds=None, tolerations=None, boat=1)
    )
    spec = warned.create(PODS, NS, document).document["spec"]
    assert warned.warnings == ['unknown field "spec.boat"']
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert "boat" not in spec
    assert None not in spec["tolerations"]
    patching = Api(api.store, "Warn")
    patching.patch(PODS, NS, "p", {"status": {"boat": 1}}, STRATEGIC, "status")
    assert patching.warnings == ['unknown field "status.boat"']
    assert "boat" not in current(api)["status"]


@pytest.mark.parametrize("subresource", ["", "status"])
def test_unknown_fields_in_strict_mode_and_wrong_types_are_refused_in_every_format(
    api: Api, subresource: str
) -> None:
    create(api)
    strict = Api(api.store, "Strict", ['duplicate field "spec.a"'])
    with pytest.raises(
        RefusedError, match=r'unknown field "status.boat", duplicate field "spec.a"'
    ) as refused:
        strict.patch(PODS, NS, "p", {"status": {"boat": 1}}, MERGE, subresource)
    assert code(refused) == (422, "Invalid")
    bodies: list[Document] = [
        {"status": {"conditions": 5}},
        {"spec": {"containers": 5}},
        {"metadata": {"labels": 5}},
    ]
    for body in bodies:
        with pytest.raises(RefusedError, match="cannot unmarshal") as refused:
            patch(api, body, subresource)
        assert refused.value.code == 422
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}}
    with pytest.raises(RefusedError, match=r"\.spec\.containers: expected list, got &\{x\}"):
        api.apply(PODS, NS, "q", {**applied, "spec": {"containers": "x"}}, "")


# -- delete


def test_only_a_bound_pod_gets_its_grace_period(api: Api) -> None:
    create(api, "free")
    api.delete(PODS, NS, "free", DeleteOptions())
    assert api.store.find(PODS, NS, "free") is None
    create(api, terminationGracePeriodSeconds=20)
    bind(api)
    api.delete(PODS, NS, "p", DeleteOptions())
    metadata = current(api)["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 20
    api.delete(PODS, NS, "p", DeleteOptions(grace_period_seconds=60))
    assert current(api)["metadata"] == metadata, "the grace period was made longer"
    api.delete(PODS, NS, "p", DeleteOptions(grace_period_seconds=5))
    assert current(api)["metadata"]["deletionGracePeriodSeconds"] == 5
    assert current(api)["metadata"]["deletionTimestamp"] == metadata["deletionTimestamp"]
    api.delete(PODS, NS, "p", NOW)
    assert api.store.find(PODS, NS, "p") is None


@pytest.mark.parametrize("bound", [False, True])
def test_a_pod_is_deleted_with_its_last_finalizer(api: Api, bound: bool) -> None:
    create(api)
    patch(api, {"metadata": {"finalizers": ["berth.dev/f"]}})
    if bound:
        bind(api)
        api.delete(PODS, NS, "p", DeleteOptions())
    api.delete(PODS, NS, "p", NOW)
    assert current(api)["metadata"]["deletionTimestamp"]
    patch(api, {"metadata": {"finalizers": None}})
    assert api.store.find(PODS, NS, "p") is None


def test_a_pod_in_its_grace_period_survives_the_removal_of_its_finalizer(api: Api) -> None:
    create(api)
    patch(api, {"metadata": {"finalizers": ["berth.dev/f"]}})
    bind(api)
    api.delete(PODS, NS, "p", DeleteOptions())
    patch(api, {"metadata": {"finalizers": None}})
    assert current(api)["metadata"]["deletionGracePeriodSeconds"] == 30


def test_a_deletion_may_have_preconditions(api: Api) -> None:
    metadata = create(api)["metadata"]
    for preconditions in (Preconditions(uid="other"), Preconditions(resource_version="1")):
        with pytest.raises(RefusedError, match="in the precondition") as refused:
            api.delete(PODS, NS, "p", DeleteOptions(preconditions=preconditions))
        assert code(refused) == (409, "Conflict")
    preconditions = Preconditions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    api.delete(PODS, NS, "p", DeleteOptions(preconditions=preconditions))
    with pytest.raises(RefusedError) as refused:
        api.delete(PODS, NS, "p", DeleteOptions())
    assert code(refused) == (404, "NotFound")


def test_a_namespace_is_deleted_when_it_is_empty(api: Api) -> None:
    api.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    api.create(MAPS, "n", {"metadata": {"name": "m", "finalizers": ["berth.dev/f"]}})
    api.create(MAPS, "n", {"metadata": {"name": "o"}})
    api.delete(NAMESPACES, "", "n", DeleteOptions())
    api.patch(NAMESPACES, "", "n", {"metadata": {"labels": {"a": "b"}}}, MERGE, "")
    assert api.store.get(NAMESPACES, "", "n")["status"] == {"phase": "Terminating"}
    list(api.end_contents("n"))
    assert [stored.document["metadata"]["name"] for stored in api.store.list(MAPS, "n")] == ["m"]
    with pytest.raises(RefusedError, match='configmaps "p" is forbidden: unable to') as refused:
        api.create(MAPS, "n", {"metadata": {"name": "p"}})
    assert code(refused) == (403, "Forbidden")
    api.patch(MAPS, "n", "m", {"metadata": {"finalizers": None}}, MERGE, "")
    assert api.store.find(NAMESPACES, "", "n") is None
    with pytest.raises(RefusedError, match='namespaces "n" not found'):
        api.create(MAPS, "n", {"metadata": {"name": "p"}})
    with pytest.raises(RefusedError, match="may not be deleted"):
        api.delete(NAMESPACES, "", NS, DeleteOptions())


JOB: Document = {
    "metadata": {"name": "j"},
    "spec": {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        }
    },
}


@pytest.mark.parametrize(
    ("kind", "have", "options", "finalizers"),
    [
        (MAPS, [], DeleteOptions(), None),
        (MAPS, [], DeleteOptions(propagation_policy="Background"), None),
        (MAPS, [], DeleteOptions(propagation_policy="Foreground"), ["foregroundDeletion"]),
        (MAPS, ["x/y"], DeleteOptions(propagation_policy="Orphan"), ["x/y", "orphan"]),
        (MAPS, [], DeleteOptions(orphan_dependents=True), ["orphan"]),
        (MAPS, ["orphan"], DeleteOptions(orphan_dependents=False), None),
        (MAPS, ["orphan"], DeleteOptions(), ["orphan"]),
        (MAPS, ["orphan"], DeleteOptions(propagation_policy="Background"), None),
        (
            MAPS,
            ["orphan"],
            DeleteOptions(propagation_policy="Foreground"),
            ["foregroundDeletion"],
        ),
        (JOBS, [], DeleteOptions(), ["orphan"]),
        (JOBS, [], DeleteOptions(propagation_policy="Background"), None),
        (JOBS, ["foregroundDeletion"], DeleteOptions(), ["foregroundDeletion"]),
        (EVENTS, [], DeleteOptions(propagation_policy="Foreground"), None),
    ],
)
def test_a_deletion_that_concerns_dependents_waits(
    api: Api, kind: Kind, have: list[str], options: DeleteOptions, finalizers: list[str] | None
) -> None:
    document = JOB if kind == JOBS else {"metadata": {"name": "j"}}
    if kind == EVENTS:
        document = {**document, "involvedObject": {"namespace": NS}}
    metadata = {**document["metadata"], "finalizers": have}
    api.create(kind, NS, {**document, "metadata": metadata})
    api.delete(kind, NS, "j", options)
    left = api.store.find(kind, NS, "j")
    assert (left and left["metadata"]["finalizers"]) == finalizers


def test_a_second_deletion_decides_anew_about_the_dependents(api: Api) -> None:
    api.create(MAPS, NS, {"metadata": {"name": "o"}})
    for policy, finalizer in (("Orphan", "orphan"), ("Foreground", "foregroundDeletion")):
        api.delete(MAPS, NS, "o", DeleteOptions(propagation_policy=policy))
        assert api.store.get(MAPS, NS, "o")["metadata"]["finalizers"] == [finalizer]
    api.delete(MAPS, NS, "o", DeleteOptions(propagation_policy="Background"))
    assert api.store.find(MAPS, NS, "o") is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            DeleteOptions(propagation_policy="x"),
            'Unsupported value: "x": supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        (
            DeleteOptions(propagation_policy="Orphan", orphan_dependents=True),
            'Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
    ],
)
def test_invalid_propagation_is_refused(api: Api, options: DeleteOptions, problem: str) -> None:
    api.create(MAPS, NS, {"metadata": {"name": "o"}})
    with pytest.raises(RefusedError) as refused:
        api.delete(MAPS, NS, "o", options)
    message = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {problem}'
    assert (refused.value.code, str(refused.value)) == (422, message)


# -- binding


def test_a_binding_places_the_pod(api: Api) -> None:
    uid = create(api)["metadata"]["uid"]
    patch(api, {"status": {"nominatedNodeName": "n0"}}, "status")
    bind(api, uid=uid)
    assert current(api)["spec"]["nodeName"] == "n1"
    (condition,) = current(api)["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert "nominatedNodeName" not in current(api)["status"]


def test_a_gated_pod_keeps_its_condition_until_another_is_written(api: Api) -> None:
    gated = image(pod(schedulingGates=[{"name": "g"}]))
    claimed = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
    api.store.outside.wall = lambda: BEGAN
    status = api.create(PODS, NS, {**gated, "status": claimed}).document["status"]
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    assert status == {"phase": "Pending", "qosClass": "BestEffort", "conditions": [condition]}
    patch(api, {"spec": {"schedulingGates": None}})
    assert current(api)["status"]["conditions"] == [condition], (
        "removing the gates must leave the condition to the scheduler"
    )
    untold = {"lastProbeTime": None, "lastTransitionTime": None}
    ready = {**untold, "type": "PodReadyToStartContainers", "status": "False"}
    patch(api, {"status": {"conditions": [condition, ready]}}, "status")
    api.store.outside.wall = lambda: BEGAN + timedelta(seconds=9)
    bind(api)
    bound = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    assert current(api)["status"]["conditions"] == [
        {**bound, "lastTransitionTime": "2026-01-01T00:00:09Z"},
        ready,
    ]


def test_a_binding_of_a_bound_gated_deleted_or_replaced_pod_is_refused(api: Api) -> None:
    create(api)
    create(api, "gated", schedulingGates=[{"name": "g"}])
    refusals = [
        ("p", "other", "UID in precondition: other"),
        ("gated", "", "non-empty .spec.schedulingGates"),
    ]
    for name, uid, why in refusals:
        with pytest.raises(RefusedError, match=why) as refused:
            bind(api, name, uid)
        assert code(refused) == (409, "Conflict")
        assert "nodeName" not in current(api, name)["spec"]
    bind(api)
    with pytest.raises(RefusedError, match='already assigned to node "n1"') as refused:
        bind(api, node="n2")
    assert code(refused) == (409, "Conflict")
    create(api, "ending")
    api.patch(PODS, NS, "ending", {"metadata": {"finalizers": ["berth.dev/f"]}}, MERGE, "")
    api.delete(PODS, NS, "ending", DeleteOptions())
    with pytest.raises(RefusedError, match="is being deleted"):
        bind(api, "ending")
    with pytest.raises(RefusedError) as refused:
        bind(api, "nobody")
    assert code(refused) == (404, "NotFound")
    for body in (
        {"target": "x"},
        {"target": {"name": 1}},
        {"metadata": [], "target": {"name": "n"}},
    ):
        with pytest.raises(RefusedError, match="Binding: Expected") as refused:
            api.bind(NS, "gated", body)
        assert code(refused) == (400, "BadRequest")


def test_only_a_binding_sets_the_node_name(api: Api) -> None:
    create(api)
    with pytest.raises(
        RefusedError, match=r"spec: Forbidden: pod updates may not change"
    ) as refused:
        patch(api, {"spec": {"nodeName": "n1"}})
    assert code(refused) == (422, "Invalid")


# -- scale


def test_a_scale_reads_and_writes_the_replicas_of_a_workload(api: Api) -> None:
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": None, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    api.create(DEPLOYMENTS, NS, {"metadata": {"name": "d"}, "spec": spec})
    scale = api.scale_of(DEPLOYMENTS, NS, "d")
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 1},
        {"replicas": 0, "selector": "app=x"},
    )
    api.rescale(DEPLOYMENTS, NS, "d", {**scale, "spec": {"replicas": 4}})
    assert api.store.get(DEPLOYMENTS, NS, "d")["spec"]["replicas"] == 4
    api.patch(DEPLOYMENTS, NS, "d", {"spec": {"replicas": 5}}, MERGE, "scale")
    assert api.scale_of(DEPLOYMENTS, NS, "d")["spec"] == {"replicas": 5}
    for body, expected in (
        ({**scale, "spec": {"replicas": 6}}, 409),
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": "x"}}, 400),
        ({"spec": {"replicas": True}}, 400),
    ):
        with pytest.raises(RefusedError) as refused:
            api.rescale(DEPLOYMENTS, NS, "d", body)
        assert refused.value.code == expected


# -- admission


def test_a_pod_gets_the_priority_of_its_class(api: Api) -> None:
    api.create(CLASSES, "", {"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"})
    api.create(CLASSES, "", {"metadata": {"name": "none"}})
    spec = create(api, "high", priorityClassName="high")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    spec = create(api, "plain")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in spec
    assert create(api, "none", priorityClassName="none")["spec"]["priority"] == 0
    api.create(CLASSES, "", {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True})
    spec = create(api, "usual")["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (3, "usual")
    for spec, why in (
        (
            {"priorityClassName": "nope"},
            '^pods "refused" is forbidden: no PriorityClass with name nope was found$',
        ),
        (
            {"priorityClassName": "high", "priority": 9},
            '^pods "refused" is forbidden: the integer value of priority .9. must not be provided',
        ),
        (
            {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            "string value of PreemptionPolicy",
        ),
    ):
        with pytest.raises(RefusedError, match=why) as refused:
            create(api, "refused", **spec)
        assert code(refused) == (403, "Forbidden")


def test_one_priority_class_is_the_default(api: Api) -> None:
    def default(name: str) -> Document:
        return {"metadata": {"name": name}, "value": 3, "globalDefault": True}

    api.create(CLASSES, "", default("usual"))
    api.create(CLASSES, "", {"metadata": {"name": "other"}, "value": 3})
    why = "PriorityClass usual is already marked as default. Only one default can exist"
    with pytest.raises(RefusedError, match=why) as refused:
        api.create(CLASSES, "", default("second"))
    assert code(refused) == (403, "Forbidden")
    with pytest.raises(RefusedError, match=why):
        api.update(CLASSES, "", "other", default("other"), "")
    api.update(CLASSES, "", "usual", {**default("usual"), "description": "d"}, "")


def test_the_priority_classes_of_the_system_stay(api: Api) -> None:
    api.create(CLASSES, "", {"metadata": {"name": "mine"}, "value": 3})
    why = '"system-node-critical" is forbidden: this is a system priority class and cannot be'
    with pytest.raises(RefusedError, match=why) as refused:
        api.delete(CLASSES, "", "system-node-critical", DeleteOptions())
    assert code(refused) == (403, "Forbidden")
    api.delete(CLASSES, "", "mine", DeleteOptions())


def test_a_pod_gets_the_overhead_and_the_node_selector_of_its_runtime_class(api: Api) -> None:
    scheduling = {
        "nodeSelector": {"vm": "yes"},
        "tolerations": [{"key": "vm", "operator": "Exists"}],
    }
    overhead = {"podFixed": {"cpu": "250m"}}
    document = {
        "metadata": {"name": "vm"},
        "handler": "vm",
        "overhead": overhead,
        "scheduling": scheduling,
    }
    api.create(RUNTIME_CLASSES, "", document)
    api.create(RUNTIME_CLASSES, "", {"metadata": {"name": "plain"}, "handler": "plain"})
    spec = create(api, "a", runtimeClassName="vm", nodeSelector={"disk": "ssd"})["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"disk": "ssd", "vm": "yes"}
    assert spec["tolerations"][-1] == {"key": "vm", "operator": "Exists"}
    create(api, "b", runtimeClassName="vm", overhead={"cpu": "0.25"})
    for spec, why in (
        ({"runtimeClassName": "nope"}, 'RuntimeClass "nope" not found'),
        (
            {"runtimeClassName": "vm", "overhead": {"cpu": "1"}},
            "doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"runtimeClassName": "plain", "overhead": {"cpu": "1"}},
            "without corresponding RuntimeClass",
        ),
        ({"overhead": {"cpu": "1"}}, "without corresponding RuntimeClass"),
        ({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}, "conflict"),
    ):
        with pytest.raises(RefusedError, match=why) as refused:
            create(api, "refused", **spec)
        assert code(refused) == (403, "Forbidden")


def test_every_pod_tolerates_unreachable_nodes_for_a_while(api: Api) -> None:
    def tolerated(name: str, *own: Document) -> list[tuple[str, int | None]]:
        tolerations = create(api, name, tolerations=list(own))["spec"]["tolerations"]
        return [(t.get("key", ""), t.get("tolerationSeconds")) for t in tolerations]

    not_ready, unreachable = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
    assert tolerated("a") == [(not_ready, 300), (unreachable, 300)]
    assert tolerated("b", {"operator": "Exists"}) == [("", None)]
    own = {"key": not_ready, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    assert tolerated("c", own) == [(not_ready, 5), (unreachable, 300)]
    assert tolerated("d", {**own, "effect": "NoSchedule", "tolerationSeconds": None})[
        1:
    ] == tolerated("e")


def test_a_claim_without_a_class_gets_the_default_class(api: Api) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    metadata = {"name": "usual", "annotations": annotations}
    api.create(STORAGE_CLASSES, "", {"metadata": metadata, "provisioner": "berth.dev/none"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    usual = api.create(CLAIMS, NS, {"metadata": {"name": "a"}, "spec": spec}).document
    none = api.create(
        CLAIMS, NS, {"metadata": {"name": "b"}, "spec": {**spec, "storageClassName": ""}}
    ).document
    assert (usual["spec"]["storageClassName"], none["spec"]["storageClassName"]) == ("usual", "")


def test_a_claim_gets_the_newest_default_class(api: Api) -> None:
    for name, days in (("a", 1), ("b", 3), ("c", 2)):
        api.store.outside.wall = partial(BEGAN.__add__, timedelta(days=days))
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        metadata = {"name": name, "annotations": annotations}
        api.create(STORAGE_CLASSES, "", {"metadata": metadata, "provisioner": "berth.dev/none"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = api.create(CLAIMS, NS, {"metadata": {"name": "c"}, "spec": spec}).document
    assert claim["spec"]["storageClassName"] == "b"


def test_storage_kinds_get_their_defaults(api: Api) -> None:
    driver = BY_KIND["storage.k8s.io/v1", "CSIDriver"]
    driver_spec = api.create(driver, "", {"metadata": {"name": "d"}, "spec": {}}).document["spec"]
    assert (driver_spec["attachRequired"], driver_spec["storageCapacity"]) == (True, False)
    assert driver_spec["volumeLifecycleModes"] == ["Persistent"]
    volumes = BY_KIND["v1", "PersistentVolume"]
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d", "volumeHandle": "h"},
    }
    volume = api.create(volumes, "", {"metadata": {"name": "v"}, "spec": spec}).document
    assert volume["status"]["phase"] == "Pending"
    assert volume["spec"]["volumeMode"] == "Filesystem"
    bound = {**volume, "status": {"phase": "Bound"}}
    assert api.update(volumes, "", "v", bound, "").document["status"] == volume["status"]
    assert api.update(volumes, "", "v", bound, "status").document["status"] == {"phase": "Bound"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}, "Burstable"),
        ({"requests": {"cpu": "1000m"}, "limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_the_quality_of_service_follows_the_resources(
    api: Api, resources: Document, expected: str
) -> None:
    containers = [{"name": "c", "image": "i", "resources": resources}]
    document = {"metadata": {"name": "q"}, "spec": {"containers": containers}}
    assert api.create(PODS, NS, document).document["status"]["qosClass"] == expected


@pytest.mark.parametrize("own", [None, {}, {"requests": {}}, {"limits": {}}])
@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_empty_resources_of_a_pod_leave_the_quality_to_its_containers(
    api: Api, own: Document | None, resources: Document, expected: str
) -> None:
    """As ComputePodQOS since Kubernetes 1.37 (kubernetes#137150). In 1.36 such a pod is BestEffort,
    whatever its containers request.
    """
    containers = [{"name": "c", "image": "i", "resources": resources}]
    spec = {"containers": containers} | ({} if own is None else {"resources": own})
    document = {"metadata": {"name": "q"}, "spec": spec}
    assert api.create(PODS, NS, document).document["status"]["qosClass"] == expected


# -- managedFields


def managers(api: Api) -> list[tuple[str, str]]:
    stored = api.store.stored(PODS, NS, "p")
    entries = [] if stored.entries is None else stored.entries.listed()
    return [(entry["manager"], entry.get("subresource", "")) for entry in entries]


def test_the_managers_of_an_object_are_kept_cleared_and_begin_with_an_apply(api: Api) -> None:
    tracked = Api(api.store, manager="m")
    create(tracked)
    bind(tracked)
    tracked.patch(PODS, NS, "p", {"status": {"phase": "Running"}}, MERGE, "status")
    assert managers(api) == [("m", ""), ("m", "status")]
    api.patch(PODS, NS, "p", {"metadata": {"labels": {"a": "b"}}}, MERGE, "")
    assert managers(api) == [("m", ""), ("m", "status")], "a write without a manager"
    tracked.patch(PODS, NS, "p", {"metadata": {"managedFields": [{}]}}, MERGE, "")
    assert managers(api) == []
    tracked.patch(PODS, NS, "p", {"metadata": {"labels": {"a": "c"}}}, MERGE, "")
    assert managers(api) == [], "an object that nobody tracks"
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"x": "y"}}}
    tracked.apply(PODS, NS, "p", applied, "")
    assert managers(api) == [("m", ""), ("before-first-apply", "")]


def test_an_object_whose_items_have_no_key_is_refused_and_not_tracked(api: Api) -> None:
    tracked = Api(api.store, manager="m")
    document = documents.pod("p")
    document["spec"]["imagePullSecrets"] = [{}]
    stored = tracked.create(PODS, NS, document)
    assert stored.entries is None
    applied = {**document, "apiVersion": "v1", "kind": "Pod"}
    with pytest.raises(RefusedError, match="omits all key fields"):
        tracked.apply(PODS, NS, "q", {**applied, "metadata": {"name": "q"}}, "")
