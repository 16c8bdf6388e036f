"""What a write of a status changes besides: labels, annotations, finalizers and owners."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.types.api_documents import RefusedError, StoredObject
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document

NS = "default"
DEPLOYMENTS, PODS = BY_KIND["apps/v1", "Deployment"], BY_KIND["v1", "Pod"]
SETS, CRON_JOBS = BY_KIND["apps/v1", "ReplicaSet"], BY_KIND["batch/v1", "CronJob"]
ATTACHMENTS = BY_KIND["storage.k8s.io/v1", "VolumeAttachment"]
NODES = BY_KIND["v1", "Node"]
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
SELECTED = {
    "selector": {"matchLabels": {"app": "x"}},
    "template": {"metadata": {"labels": {"app": "x"}}, "spec": CONTAINERS},
}
JOB = {"template": {"spec": {**CONTAINERS, "restartPolicy": "Never"}}}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}
SENT = {
    "metadata": {
        "labels": {"sent": "yes"},
        "annotations": {"sent": "yes"},
        "ownerReferences": [OWNER],
        "finalizers": ["example.com/sent"],
    }
}
ALL = {"labels", "annotations", "ownerReferences", "finalizers"}


def made(api: Api, kind: Kind, spec: Document) -> Document:
    namespace = NS if kind.namespaced else ""
    document = {"metadata": {"name": "o", "labels": {"app": "x"}}, "spec": spec}
    return api.create(kind, namespace, document).document


def patched(api: Api, kind: Kind, change: Any) -> StoredObject:
    return api.patch(kind, NS if kind.namespaced else "", "o", change, MERGE, "status")


@pytest.mark.parametrize(
    ("kind", "spec", "written"),
    [
        (SETS, SELECTED, ALL),
        (CRON_JOBS, {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}, ALL),
        (DEPLOYMENTS, SELECTED, ALL - {"labels"}),
        (PODS, CONTAINERS, ALL - {"ownerReferences"}),
        (ATTACHMENTS, {"attacher": "a", "nodeName": "n", "source": {}}, set()),
    ],
    ids=lambda each: each.kind if isinstance(each, Kind) else "",
)
def test_which_metadata_a_kind_takes_with_its_status(
    api: Api, kind: Kind, spec: Document, written: set[str]
) -> None:
    if kind is ATTACHMENTS:
        spec = {**spec, "source": {"persistentVolumeName": "v"}}
    before = made(api, kind, spec)["metadata"]
    after = patched(api, kind, SENT).document["metadata"]
    assert written == {name for name in ALL if after.get(name) != before.get(name)}
    assert after["uid"] == before["uid"]


def test_a_replaced_status_takes_labels_away(api: Api) -> None:
    stored = made(api, SETS, SELECTED)
    bare = {name: value for name, value in stored["metadata"].items() if name != "labels"}
    sent = {**stored, "metadata": {**bare, "annotations": {"a": "b", "c": None}}}
    after = api.update(SETS, NS, "o", sent, "status").document["metadata"]
    assert "labels" not in after
    assert after["annotations"] == {"a": "b", "c": ""}


def test_conditions_have_the_fields_that_go_writes(api: Api) -> None:
    made(api, PODS, CONTAINERS)
    patched(api, PODS, {"status": {"conditions": [{"message": "m"}, {"type": "Ready"}]}})
    conditions = api.store.get(PODS, NS, "o")["status"]["conditions"]
    untimed = {"lastProbeTime": None, "lastTransitionTime": None}
    assert conditions == [
        {**untimed, "type": "", "status": "", "message": "m"},
        {**untimed, "type": "Ready", "status": ""},
    ]
    api.bind(NS, "o", {"target": {"kind": "Node", "name": "n"}})
    node = {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready"}]}}
    (condition,) = api.create(NODES, "", node).document["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "")


def test_what_is_sent_is_checked(api: Api) -> None:
    made(api, SETS, SELECTED)
    with pytest.raises(RefusedError, match=r"metadata.labels: Invalid value"):
        patched(api, SETS, {"metadata": {"labels": {"a": "-"}}})


def test_the_writer_owns_what_it_sent(api: Api) -> None:
    made(Api(api.store, manager="maker"), DEPLOYMENTS, SELECTED)
    change = {"metadata": {"labels": {"b": "c"}, "annotations": {"a": "b"}}}
    after = patched(Api(api.store, manager="writer"), DEPLOYMENTS, change)
    assert after.entries is not None
    (entry,) = (each for each in after.entries.listed() if each["manager"] == "writer")
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}}


def test_an_object_that_is_deleted_goes_with_its_last_finalizer(api: Api) -> None:
    metadata = {"name": "o", "finalizers": ["example.com/wait"]}
    api.create(SETS, NS, {"metadata": metadata, "spec": SELECTED})
    api.delete(SETS, NS, "o", DeleteOptions())
    patched(api, SETS, {"metadata": {"finalizers": None}})
    assert api.store.find(SETS, NS, "o") is None
