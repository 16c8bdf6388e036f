"""The way to an API server in the same process."""

from __future__ import annotations

from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from berth.actors.client.rest import ApiError, IgnoredAnswer
from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed, Unreadable
from berth.actors.scheduling.kube.core import Pod
from berth.tools.cluster.controllers.cluster_access import LEASES, Changes, Heartbeat, Renewed
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit import documents
from tests.kit.stores import fresh_store

PODS = "/api/v1/namespaces/default/pods"
NODES = BY_KIND["v1", "Node"]
WRITER: ContextVar[str] = ContextVar("writer", default="")


@pytest.fixture
def store() -> Store:
    store = fresh_store()
    Api(store).seed()
    Api(store).create(NODES, "", hollow_node(1))
    return store


def pod(name: str, **labels: str) -> dict[str, Any]:
    return documents.pod(name, labels=labels)


def _name(change: object) -> str:
    assert isinstance(change, ObjectChanged | ObjectDeleted)
    name: str = change.object.metadata.name
    return name


async def test_requests_have_the_rules_of_the_server(store: Store) -> None:
    access = EmbeddedAccess(store)
    created = await access.call("POST", PODS, Pod, pod("a"))
    assert created.spec.termination_grace_period_seconds == 30
    await access.bind("default", "a", created.metadata.uid, "node-1")
    patch = {"metadata": {"labels": {"app": "web"}}}
    assert (await access.patch(f"{PODS}/a", patch, Pod)).metadata.labels == {"app": "web"}
    selected = await access.call("GET", f"{PODS}?labelSelector=app%3Dweb", dict)
    assert [item["spec"]["nodeName"] for item in selected["items"]] == ["node-1"]
    with pytest.raises(ApiError, match="already exists") as refused:
        await access.call("POST", PODS, dict, pod("a"))
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")
    await access.call("DELETE", f"{PODS}/a", IgnoredAnswer, {"gracePeriodSeconds": 0})
    with pytest.raises(ApiError, match="not found"):
        await access.call("GET", f"{PODS}/a", dict)


async def test_what_a_client_sent_is_not_what_the_server_stores(store: Store) -> None:
    sent = pod("a")
    await EmbeddedAccess(store).call("POST", PODS, dict, sent)
    sent["spec"]["containers"].clear()
    assert (
        len((await EmbeddedAccess(store).call("GET", f"{PODS}/a", dict))["spec"]["containers"]) == 1
    )


async def test_a_watch_tells_what_enters_and_leaves_the_selection(store: Store) -> None:
    access = EmbeddedAccess(store)
    await access.call("POST", PODS, dict, pod("a", app="web"))
    await access.call("POST", PODS, dict, pod("b"))
    followed = access.follow("/api/v1/pods", Pod, "labelSelector=app%3Dweb")
    async with aclosing(followed.changes()) as changes:
        match await anext(changes):
            case ObjectsListed(items):
                assert [item.metadata.name for item in items] == ["a"]
            case other:
                raise AssertionError(other)
        await access.patch(f"{PODS}/b", {"metadata": {"labels": {"app": "web"}}}, dict)
        await access.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "other"}}}, dict)
        await access.call("DELETE", f"{PODS}/a", dict, {"gracePeriodSeconds": 0})
        await access.call("DELETE", f"{PODS}/b", dict, {"gracePeriodSeconds": 0})
        told = [await anext(changes) for _ in range(3)]
    assert [(type(change), _name(change)) for change in told] == [
        (ObjectChanged, "b"),
        (ObjectDeleted, "a"),
        (ObjectDeleted, "b"),
    ]


async def test_a_late_reader_gets_a_list_again() -> None:
    store = fresh_store(history=4)
    Api(store).seed()
    access = EmbeddedAccess(store)
    async with aclosing(access.follow("/api/v1/pods", Pod).changes()) as changes:
        assert await anext(changes) == ObjectsListed([], [], str(store.revision))
        for number in range(6):
            await access.call("POST", PODS, dict, pod(f"p{number}"))
        again = await anext(changes)
        assert isinstance(again, ObjectsListed)
        assert len(again.items) == 6


async def test_an_object_that_cannot_be_read_is_told_as_such(store: Store) -> None:
    access = EmbeddedAccess(store)
    await access.call("POST", PODS, dict, pod("a"))
    stored = store.get(BY_KIND["v1", "Pod"], "default", "a")
    store.update(BY_KIND["v1", "Pod"], {**stored, "spec": {**stored["spec"], "nodeName": 5}})
    async with aclosing(access.follow("/api/v1/pods", Pod).changes()) as changes:
        listed = await anext(changes)
    assert isinstance(listed, ObjectsListed)
    (item,) = listed.unreadable
    assert isinstance(item, Unreadable)
    assert item.part.metadata.name == "a"
    assert "nodeName" in item.problem


async def test_leases_are_renewed_together(store: Store) -> None:
    lease = {"metadata": {"name": "node-1"}, "spec": {"leaseDurationSeconds": 40}}
    Api(store).create(LEASES, "kube-node-lease", lease)
    before = store.revision
    missing = await EmbeddedAccess(store).renew("kube-node-lease", ["node-1", "node-2"], "now")
    assert missing == ["node-2"]
    assert store.revision == before + 1
    renewed = store.get(LEASES, "kube-node-lease", "node-1")
    assert renewed["spec"] == {"leaseDurationSeconds": 40, "renewTime": "now"}
    assert renewed["metadata"]["resourceVersion"] == str(store.revision)


def _heartbeats(node: dict[str, Any]) -> dict[str, str]:
    return {
        each["type"]: each["lastHeartbeatTime"]
        for each in node["status"]["conditions"]
        if each.get("lastHeartbeatTime")
    }


async def test_a_heartbeat_changes_times_alone_and_is_told_as_such(store: Store) -> None:
    access = EmbeddedAccess(store)
    status = {"conditions": [{"type": "Network", "status": "True"}]}
    before = await access.patch("/api/v1/nodes/node-1/status", {"status": status}, dict)
    async with aclosing(access.follow("/api/v1/nodes", dict).changes()) as changes:
        assert isinstance(await anext(changes), ObjectsListed)
        after = await access.heartbeat(before, ("Ready", "DiskPressure"), "2026-01-01T00:00:00Z")
        assert await anext(changes) == Heartbeat(after)
        await access.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": True}}, dict)
        assert type(await anext(changes)) is ObjectChanged
    assert _heartbeats(after) == {"Ready": "2026-01-01T00:00:00Z"}
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert len(after["status"]["conditions"]) == len(before["status"]["conditions"]) == 2
    with pytest.raises(ApiError, match="has been modified") as refused:
        await access.heartbeat(before, ("Ready",), "2026-01-01T00:05:00Z")
    assert refused.value.code == 409


async def test_a_heartbeat_that_changes_nothing_is_not_written(store: Store) -> None:
    access, time = EmbeddedAccess(store), "2026-01-01T00:00:00Z"
    node = await access.heartbeat(store.get(NODES, "", "node-1"), ("Ready",), time)
    revision = store.revision
    assert await access.heartbeat(node, ("Ready",), time) == node
    assert store.revision == revision


async def test_admission_policies_are_asked_about_heartbeats(store: Store) -> None:
    group = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["nodes/status"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "no news, please"}],
    }
    api = Api(store)
    policy = {"metadata": {"name": "quiet"}, "spec": spec}
    api.create(BY_KIND[group, "ValidatingAdmissionPolicy"], "", policy)
    binding = {
        "metadata": {"name": "quiet"},
        "spec": {"policyName": "quiet", "validationActions": ["Deny"]},
    }
    api.create(BY_KIND[group, "ValidatingAdmissionPolicyBinding"], "", binding)
    with pytest.raises(ApiError, match="no news, please"):
        await EmbeddedAccess(store).heartbeat(
            store.get(NODES, "", "node-1"), ("Ready",), "2026-01-01T00:00:00Z"
        )


async def test_renewals_are_told_together_and_in_the_order_of_the_writes(store: Store) -> None:
    access = EmbeddedAccess(store)
    soon, later = (f"2026-01-01T00:00:{seconds}.000000Z" for seconds in (10, 20))
    for name in ("node-1", "node-2"):
        lease = {"metadata": {"name": name}, "spec": {"leaseDurationSeconds": 40}}
        Api(store).create(LEASES, "kube-node-lease", lease)
    async with aclosing(access.follow_leases()) as changes:
        assert isinstance(await anext(changes), ObjectsListed)
        await access.renew("kube-node-lease", ["node-1", "node-2"], soon)
        path = LEASES.path("kube-node-lease", "node-1")
        await access.patch(path, {"metadata": {"labels": {"a": "b"}}}, dict)
        await access.renew("kube-node-lease", ["node-1"], later)
        first, change, last = [await anext(changes) for _ in range(3)]
    assert isinstance(first, Renewed)
    times = {key: lease.document["spec"]["renewTime"] for key, lease in first.leases.items()}
    assert times == {("kube-node-lease", "node-1"): soon, ("kube-node-lease", "node-2"): soon}
    assert isinstance(change, ObjectChanged)
    assert (change.object.spec.renew_time, change.object.metadata.labels) == (soon, {"a": "b"})
    assert isinstance(last, Renewed)
    (renewed,) = (stored.document for stored in last.leases.values())
    assert (renewed["spec"]["renewTime"], renewed["metadata"]["labels"]) == (later, {"a": "b"})
    assert renewed["metadata"]["resourceVersion"] == str(store.revision)


async def test_a_review_is_refused_as_it_has_no_name(store: Store) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    with pytest.raises(ApiError, match="name or generateName is required"):
        await EmbeddedAccess(store).call("POST", path, dict, {"spec": {"namespace": "n"}})


async def test_a_kind_that_the_version_lacks_has_no_objects(store: Store) -> None:
    rules = "/apis/resource.k8s.io/v1/devicetaintrules"
    async with aclosing(EmbeddedAccess(store).follow(rules, dict).changes()) as changes:
        assert await anext(changes) == ObjectsListed([], [], str(store.revision))


async def test_the_fields_that_a_program_writes_are_tracked_under_its_name() -> None:
    store = fresh_store()
    Api(store).seed()
    access = EmbeddedAccess(store)
    await access.named("kube-controller-manager").call("POST", PODS, dict, pod("a"))
    body = {"status": {"phase": "Running"}}
    await access.named("kubelet").patch(f"{PODS}/a/status", body, dict)
    entries = store.stored(BY_KIND["v1", "Pod"], "default", "a").whole["metadata"]["managedFields"]
    managers = [(entry["manager"], entry.get("subresource", "")) for entry in entries]
    assert managers == [("kube-controller-manager", ""), ("kubelet", "status")]


async def test_a_watch_of_nothing_begins_with_the_first_object(store: Store) -> None:
    access, read = EmbeddedAccess(store), list[str]()

    async def tell(watch: Changes[Pod]) -> None:
        async for change in watch.changes():
            read.append(f"{_name(change)}{WRITER.get()}")

    async with anyio.create_task_group() as group:
        assert not access.follow_later(group, "/api/v1/nodes", Pod, tell)
        assert not access.follow_later(group, "/apis/none/v1/things", Pod, tell)
        assert access.follow_later(group, "/api/v1/pods", Pod, tell)
        WRITER.set(" of the writer")
        for name in ("a", "b"):
            await access.call("POST", PODS, dict, pod(name))
        await anyio.wait_all_tasks_blocked()
        await access.call("DELETE", f"{PODS}/a", IgnoredAnswer, {"gracePeriodSeconds": 0})
        await anyio.wait_all_tasks_blocked()
        assert read == ["a", "b", "a"]
        group.cancel_scope.cancel()


async def test_no_watch_begins_in_a_group_that_has_ended(store: Store) -> None:
    access, begun = EmbeddedAccess(store), list[object]()

    async def begin(watch: Changes[Pod]) -> None:
        begun.append(watch)

    async with anyio.create_task_group() as group:
        access.follow_later(group, "/api/v1/pods", Pod, begin)
        group.cancel_scope.cancel()
    await access.call("POST", PODS, dict, pod("a"))
    await anyio.wait_all_tasks_blocked()
    assert not begun
