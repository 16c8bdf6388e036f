"""ResourceQuotas in a namespace: what they refuse, and the sums in their status."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tools.cluster.apiserver.journal import Journal
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.types.amounts import Sums
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes import resource_quotas
from berth.tools.kubernetes.api.writes.quota_usage import object_usage
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.api.writes.resource_quotas import DEVICE_CLASSES, EXTENDED_CLAIM, QUOTAS
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

PODS, CLAIMS = BY_KIND["v1", "Pod"], BY_KIND["v1", "PersistentVolumeClaim"]
SERVICES, MAPS = BY_KIND["v1", "Service"], BY_KIND["v1", "ConfigMap"]
DEVICES = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
NS = "default"
NOW = DeleteOptions(grace_period_seconds=0)


def seeded() -> Api:
    api = Api(fresh_store())
    api.seed()
    return api


def limit(api: Api, hard: Document, name: str = "q", **spec: Any) -> None:
    api.create(QUOTAS, NS, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})


def pod(name: str, cpu: str = "1", **spec: Any) -> Document:
    resources = {"requests": {"cpu": cpu}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def config_map(name: str) -> Document:
    return {"metadata": {"name": name}}


def device_claim(name: str, count: int, **metadata: Any) -> Document:
    exactly = {"deviceClassName": "gpu", "count": count}
    requests = [{"name": "r", "exactly": exactly}]
    return {"metadata": {"name": name, **metadata}, "spec": {"devices": {"requests": requests}}}


def used(api: Api, name: str = "q") -> Document:
    amounts: Document = api.store.get(QUOTAS, NS, name)["status"]["used"]
    return amounts


def refusal(api: Api, kind: Kind, document: Document) -> str:
    revision = api.store.revision
    with pytest.raises(RefusedError) as refused:
        api.create(kind, NS, document)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert api.store.revision == revision, "a refusal must leave no trace"
    return str(refused.value)


def test_pods_are_charged_until_the_quota_is_used_up(api: Api) -> None:
    limit(api, {"pods": "3", "requests.cpu": "1500m"})
    assert used(api) == {"pods": "0", "requests.cpu": "0"}
    api.create(PODS, NS, pod("a"))
    assert refusal(api, PODS, pod("b")) == (
        'pods "b" is forbidden: exceeded quota: q, '
        "requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m"
    )
    api.create(PODS, NS, pod("b", "500m"))
    assert used(api) == {"pods": "2", "requests.cpu": "1500m"}
    api.delete(PODS, NS, "a", NOW)
    assert used(api) == {"pods": "1", "requests.cpu": "500m"}


def test_a_pod_must_specify_what_is_limited(api: Api) -> None:
    limit(api, {"limits.memory": "1Gi", "requests.cpu": "1"})
    problem = "failed quota: q: must specify limits.memory for: c"
    assert refusal(api, PODS, pod("p")) == f'pods "p" is forbidden: {problem}'


def test_a_finished_pod_gives_back_all_but_its_count(api: Api) -> None:
    limit(api, {"pods": "1", "count/pods": "2"})
    document = api.create(PODS, NS, pod("a")).document
    finished = {**document, "status": {**document["status"], "phase": "Succeeded"}}
    api.update(PODS, NS, "a", finished, "status")
    assert used(api) == {"pods": "0", "count/pods": "1"}
    api.create(PODS, NS, pod("b"))
    assert "exceeded quota: q, requested: count/pods=1,pods=1" in refusal(api, PODS, pod("c"))


def test_a_pod_that_outlives_its_grace_period_makes_room(api: Api) -> None:
    limit(api, {"pods": "1"})
    api.create(PODS, NS, pod("a", terminationGracePeriodSeconds=5))
    api.bind(NS, "a", {"target": {"name": "n"}})
    api.delete(PODS, NS, "a", DeleteOptions())
    assert "exceeded quota" in refusal(api, PODS, pod("b"))
    document = api.store.get(PODS, NS, "a")
    long_ago = {**document["metadata"], "deletionTimestamp": "2020-01-01T00:00:00Z"}
    api.store.update(PODS, {**document, "metadata": long_ago})
    api.create(PODS, NS, pod("b"))
    assert used(api) == {"pods": "1"}
    api.delete(PODS, NS, "a", NOW)
    assert used(api) == {"pods": "1"}, "nothing is given back twice"


def test_a_resize_is_charged_for_what_it_adds(api: Api) -> None:
    limit(api, {"requests.cpu": "3"})
    api.create(PODS, NS, pod("a"))
    api.update(PODS, NS, "a", pod("a", "2"), "resize")
    assert used(api) == {"requests.cpu": "2"}
    with pytest.raises(RefusedError, match=r"requested: requests\.cpu=2"):
        api.update(PODS, NS, "a", pod("a", "4"), "resize")
    api.update(PODS, NS, "a", pod("a", "500m"), "resize")
    assert used(api) == {"requests.cpu": "500m"}


def test_a_pod_that_gets_a_deadline_moves_to_another_quota(api: Api) -> None:
    limit(api, {"pods": "1"}, "ending", scopes=["Terminating"])
    limit(api, {"pods": "5"}, "lasting", scopes=["NotTerminating"])
    first, second = (api.create(PODS, NS, pod(name)).document for name in ("a", "b"))
    assert (used(api, "ending"), used(api, "lasting")) == ({"pods": "0"}, {"pods": "2"})

    def with_deadline(document: Document) -> Document:
        return {**document, "spec": {**document["spec"], "activeDeadlineSeconds": 60}}

    api.update(PODS, NS, "a", with_deadline(first), "")
    assert (used(api, "ending"), used(api, "lasting")) == ({"pods": "1"}, {"pods": "1"})
    with pytest.raises(RefusedError, match="exceeded quota: ending"):
        api.update(PODS, NS, "b", with_deadline(second), "")


def test_objects_services_and_storage_are_counted(api: Api) -> None:
    limit(
        api,
        {
            "configmaps": "2",  # each namespace has kube-root-ca.crt
            "count/configmaps": "9",
            "resourcequotas": "1",
            "services.nodeports": "1",
            "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
        },
    )
    api.create(MAPS, NS, config_map("a"))
    assert refusal(api, MAPS, config_map("b")) == (
        'configmaps "b" is forbidden: exceeded quota: q, '
        "requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
    )
    another = {"metadata": {"name": "r"}, "spec": {"hard": {"pods": "1"}}}
    assert "requested: resourcequotas=1" in refusal(api, QUOTAS, another)
    service = {
        "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 1}]},
    }
    created = api.create(SERVICES, NS, service).document
    ports = [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]
    with pytest.raises(RefusedError, match=r"requested: services\.nodeports=1"):
        api.update(SERVICES, NS, "s", {**created, "spec": {**created["spec"], "ports": ports}}, "")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gold",
        "resources": {"requests": {"storage": "2Gi"}},
    }
    assert "limited: gold.storage" in refusal(
        api, CLAIMS, {"metadata": {"name": "c"}, "spec": spec}
    )


def test_a_quota_counts_what_was_there_before_it_and_never_takes_it_away(api: Api) -> None:
    for name in ("a", "b"):
        api.create(PODS, NS, pod(name))
    limit(api, {"pods": "1", "count/widgets.example.com": "1"})
    assert used(api) == {"pods": "2"}
    labelled = {**pod("a"), "metadata": {"name": "a", "labels": {"x": "y"}}}
    api.update(
        PODS, NS, "a", {**api.store.get(PODS, NS, "a"), "metadata": labelled["metadata"]}, ""
    )
    quota = api.store.get(QUOTAS, NS, "q")
    api.update(QUOTAS, NS, "q", {**quota, "spec": {"hard": {"cpu": "9"}}}, "")
    assert api.store.get(QUOTAS, NS, "q")["status"] == {"hard": {"cpu": "9"}, "used": {"cpu": "2"}}
    api.delete(QUOTAS, NS, "q", NOW)
    api.create(PODS, NS, pod("c", "100"))
    assert api.store.ledgers == {}


def test_a_status_keeps_its_limits_but_not_its_sums(api: Api) -> None:
    limit(api, {"pods": "5"})
    api.create(PODS, NS, pod("a"))
    quota = api.store.get(QUOTAS, NS, "q")
    status = {"hard": {"pods": "1", "cpu": "1"}, "used": {"pods": "0"}}
    api.update(QUOTAS, NS, "q", {**quota, "status": status}, "status")
    assert api.store.get(QUOTAS, NS, "q")["status"]["used"] == {"pods": "1", "cpu": "1"}
    assert "exceeded quota" in refusal(api, PODS, pod("b"))


def test_the_same_status_again_is_no_write(api: Api) -> None:
    limit(api, {"pods": "5"})
    api.create(PODS, NS, pod("a"))
    revision = api.store.revision
    api.update(QUOTAS, NS, "q", api.store.get(QUOTAS, NS, "q"), "status")
    assert api.store.revision == revision


def test_a_write_does_not_count_the_other_objects_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(api, {"pods": "50"})
    for i in range(20):
        api.create(PODS, NS, pod(f"p{i}"))
    counted: list[str] = []

    def count(kind: Kind, document: Document, now: datetime) -> Sums:
        counted.append(document["metadata"]["name"])
        return object_usage(kind, document, now)

    monkeypatch.setattr(resource_quotas, "object_usage", count)
    api.create(PODS, NS, pod("new"))
    api.delete(PODS, NS, "p0", NOW)
    assert set(counted) == {"new"}
    api.create(PODS, "kube-system", pod("elsewhere"))
    assert "elsewhere" not in counted


def test_a_quota_without_a_spec_limits_nothing(api: Api) -> None:
    api.create(QUOTAS, NS, {"metadata": {"name": "q"}})
    api.update(QUOTAS, NS, "q", {"metadata": {"name": "q", "labels": {"a": "b"}}}, "")
    api.create(PODS, NS, pod("a"))
    assert used(api) == {}


def test_other_namespaces_are_not_limited(api: Api) -> None:
    limit(api, {"pods": "0"})
    api.create(PODS, "kube-system", pod("a"))
    assert list(api.store.ledgers) == [NS]


def test_a_dry_run_is_refused_but_not_charged(api: Api) -> None:
    limit(api, {"pods": "1"})
    Api(api.store.fork()).create(PODS, NS, pod("a"))
    api.create(PODS, NS, pod("a"))
    with pytest.raises(RefusedError, match="exceeded quota"):
        Api(api.store.fork()).create(PODS, NS, pod("b"))
    assert used(api) == {"pods": "1"}


def test_a_name_that_is_taken_is_not_charged(api: Api) -> None:
    limit(api, {"pods": "5"})
    api.create(PODS, NS, pod("a"))
    with pytest.raises(RefusedError, match="already exists"):
        api.create(PODS, NS, pod("a"))
    assert used(api) == {"pods": "1"}


def test_sums_survive_a_restart(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        api = Api(journal.store)
        api.seed()
        limit(api, {"pods": "2"})
        api.create(PODS, NS, pod("a"))
    with Journal(tmp_path / "j") as journal:
        api = Api(journal.store)
        api.seed()
        api.create(PODS, NS, pod("b"))
        assert "used: pods=2" in refusal(api, PODS, pod("c"))


def test_a_namespace_with_quotas_can_be_deleted(api: Api) -> None:
    namespaces = BY_KIND["v1", "Namespace"]
    api.create(namespaces, "", {"metadata": {"name": "n"}})
    hard = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}}}
    api.create(QUOTAS, "n", hard)
    api.create(PODS, "n", pod("a"))
    api.delete(namespaces, "", "n", DeleteOptions())
    list(api.end_pods("n"))
    list(api.end_contents("n"))
    assert api.store.find(namespaces, "", "n") is None
    assert api.store.ledgers == {}


def test_devices_are_limited_by_their_class(api: Api) -> None:
    limit(api, {"gpu.deviceclass.resource.k8s.io/devices": "3"})
    api.create(DEVICES, NS, device_claim("a", 2))
    name = "gpu.deviceclass.resource.k8s.io/devices"
    assert refusal(api, DEVICES, device_claim("b", 2)) == (
        'resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, '
        f"requested: {name}=2, used: {name}=2, limited: {name}=3"
    )


def test_the_claim_for_a_pods_extended_resource_is_not_charged_twice(api: Api) -> None:
    device_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/g"}}
    api.create(DEVICE_CLASSES, "", device_class)
    limit(api, {"requests.example.com/g": "3"})
    amounts = {"example.com/g": "2"}
    resources = {"requests": amounts, "limits": amounts}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    document = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    owner = api.create(PODS, NS, document).document["metadata"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["uid"]}
    made = {
        "annotations": {EXTENDED_CLAIM: "true"},
        "ownerReferences": [{**reference, "controller": True}],
    }
    api.create(DEVICES, NS, device_claim("a", 2, **made))
    assert used(api) == {"requests.example.com/g": "2"}
    assert "requested: requests.example.com/g=2" in refusal(
        api, DEVICES, device_claim("b", 2, **made)
    ), "only the first claim of a pod is free"
    api.delete(PODS, NS, "p", NOW)
    assert used(api) == {"requests.example.com/g": "2"}, "the claim still has the devices"
    api.delete(DEVICES, NS, "a", NOW)
    assert used(api) == {"requests.example.com/g": "0"}


def test_a_device_class_changes_what_claims_use(api: Api) -> None:
    limit(api, {"requests.example.com/g": "3"})
    api.create(DEVICES, NS, device_claim("a", 2))
    assert used(api) == {"requests.example.com/g": "0"}
    device_class = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/g"}}
    api.create(DEVICE_CLASSES, "", device_class)
    with pytest.raises(RefusedError, match=r"used: requests\.example\.com/g=2"):
        api.create(DEVICES, NS, device_claim("b", 2))


ACTIONS = st.tuples(
    st.sampled_from(("create", "delete", "finish", "resize", "status", "limit")),
    st.integers(0, 4),
    st.integers(1, 4),
)


def act(api: Api, action: str, which: int, number: int) -> None:
    name, cpu = f"p{which}", str(number)
    match action:
        case "create":
            deadline = {"activeDeadlineSeconds": 5} if which % 2 else {}
            api.create(PODS, NS, pod(name, cpu, **deadline))
        case "delete":
            api.delete(PODS, NS, name, DeleteOptions())
        case "resize":
            api.update(PODS, NS, name, pod(name, cpu), "resize")
        case "finish":
            document = api.store.get(PODS, NS, name)
            status = {**document["status"], "phase": "Failed"}
            api.update(PODS, NS, name, {**document, "status": status}, "status")
        case "status":
            quota = api.store.get(QUOTAS, NS, "q")
            status = {**quota["status"], "used": {"pods": cpu}}
            api.update(QUOTAS, NS, "q", {**quota, "status": status}, "status")
        case "limit":
            quota = api.store.get(QUOTAS, NS, "q")
            spec = {"hard": {"pods": cpu, "requests.cpu": "6"}}
            api.update(QUOTAS, NS, "q", {**quota, "spec": spec}, "")


@given(st.lists(ACTIONS, max_size=25))
def test_sums_are_what_a_count_finds_and_never_grow_beyond_a_limit(
    actions: list[tuple[str, int, int]],
) -> None:
    api = seeded()
    limit(api, {"pods": "3", "requests.cpu": "6"})
    limit(api, {"count/pods": "4", "cpu": "5"}, "ending")
    limit(api, {"pods": "2"}, "scoped", scopes=["Terminating"])
    for action, which, number in actions:
        before = used(api)
        try:
            act(api, action, which, number)
        except RefusedError:
            assert used(api) == before
        hard = api.store.get(QUOTAS, NS, "q")["status"]["hard"]
        after = int(used(api)["pods"])
        assert after <= max(int(hard["pods"]), int(before["pods"]))
    kept = {name: used(api, name) for name in ("q", "ending", "scoped")}
    counted = Api(api.store.fork())
    for name in kept:
        quota = counted.store.get(QUOTAS, NS, name)
        counted.update(
            QUOTAS, NS, name, {**quota, "status": {"hard": quota["spec"]["hard"]}}, "status"
        )
    assert {name: used(counted, name) for name in kept} == kept
