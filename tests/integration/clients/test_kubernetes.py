"""The official client: objects, watches, apply, informer and leader election."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from berth.testing import ServedCluster
from tests.integration.clients.histories import forget_history
from tests.kit.kubectl import until

pytestmark = pytest.mark.full("waits")
SECONDS = 30


@pytest.fixture
def api(served: ServedCluster) -> Iterator[client.CoreV1Api]:
    config.load_kube_config(str(served.kubeconfig))
    yield client.CoreV1Api()
    client.Configuration.set_default(None)


def settings(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def test_objects_are_written_and_read(api: client.CoreV1Api, namespace: str) -> None:
    created = api.create_namespaced_config_map(namespace, settings("a", color="blue"))
    with pytest.raises(ApiException, match="AlreadyExists") as twice:
        api.create_namespaced_config_map(namespace, settings("a"))
    assert twice.value.status == 409
    patched = api.patch_namespaced_config_map("a", namespace, {"data": {"size": "1"}})
    assert patched.data == {"color": "blue", "size": "1"}
    created.data = {"color": "red"}
    with pytest.raises(ApiException, match="the object has been modified"):
        api.replace_namespaced_config_map("a", namespace, created)
    patched.data = {"color": "red"}
    assert api.replace_namespaced_config_map("a", namespace, patched).data == {"color": "red"}
    listed = api.list_namespaced_config_map(namespace, field_selector="metadata.name=a")
    assert [each.metadata.name for each in listed.items] == ["a"]
    api.delete_namespaced_config_map("a", namespace)
    with pytest.raises(ApiException, match='configmaps \\\\"a\\\\" not found'):
        api.read_namespaced_config_map("a", namespace)


def test_long_lists_come_in_parts(api: client.CoreV1Api, namespace: str) -> None:
    for number in range(7):
        api.create_namespaced_config_map(namespace, settings(f"a{number}"))
    names, token = [], None
    while token != "":
        part = api.list_namespaced_config_map(namespace, limit=3, _continue=token)
        names += [each.metadata.name for each in part.items]
        token = part.metadata._continue or ""
    assert names == [*(f"a{number}" for number in range(7)), "kube-root-ca.crt"]


def test_a_watch_goes_on_where_it_ended(api: client.CoreV1Api, namespace: str) -> None:
    began = api.list_namespaced_config_map(namespace).metadata.resource_version
    api.create_namespaced_config_map(namespace, settings("a"))
    seen: list[tuple[str, str]] = []
    watching = watch.Watch()

    def read(version: str, timeout: int) -> str:
        """Reads until the server ends the watch. Returns where it ended."""
        listing = api.list_namespaced_config_map
        for event in watching.stream(
            listing, namespace, resource_version=version, timeout_seconds=timeout
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                watching.stop()
        return str(watching.resource_version)

    version = read(began, 1)
    api.patch_namespaced_config_map("a", namespace, {"data": {"x": "1"}})
    api.delete_namespaced_config_map("a", namespace)
    read(version, SECONDS)
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_version_that_is_gone_is_refused(
    api: client.CoreV1Api, namespace: str, served: ServedCluster
) -> None:
    forget_history(served)
    with pytest.raises(ApiException) as gone:
        for _ in watch.Watch().stream(
            api.list_namespaced_config_map, namespace, resource_version="1", timeout_seconds=5
        ):
            pass
    assert (gone.value.status, "Expired" in str(gone.value.reason)) == (410, True)


def test_a_pod_runs(api: client.CoreV1Api, namespace: str) -> None:
    container = client.V1Container(name="c", image="i")
    body = client.V1Pod(
        metadata=client.V1ObjectMeta(generate_name="p-"),
        spec=client.V1PodSpec(containers=[container]),
    )
    name = api.create_namespaced_pod(namespace, body).metadata.name
    watching = watch.Watch()
    for event in watching.stream(api.list_namespaced_pod, namespace, timeout_seconds=SECONDS):
        if event["object"].status.phase == "Running":
            watching.stop()
    assert api.read_namespaced_pod(name, namespace).status.phase == "Running"
    assert {each.status.node_info.kubelet_version for each in api.list_node().items} == {"v1.36.2"}


def test_apply_has_owners(api: client.CoreV1Api, namespace: str) -> None:
    kinds = DynamicClient(api.api_client).resources.get(api_version="v1", kind="ConfigMap")

    def apply(manager: str, *, force: bool = False, **data: str) -> dict[str, Any]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
        applied = kinds.server_side_apply(
            body, name="a", namespace=namespace, field_manager=manager, force_conflicts=force
        )
        found: dict[str, Any] = applied.to_dict().get("data") or {}
        return found

    assert apply("one", color="blue", size="1") == {"color": "blue", "size": "1"}
    with pytest.raises(ApiException, match="conflict with"):
        apply("two", color="red")
    assert apply("two", force=True, color="red") == {"color": "red", "size": "1"}
    assert apply("one") == {"color": "red"}


def test_an_informer_keeps_a_copy(api: client.CoreV1Api, namespace: str) -> None:
    api.create_namespaced_config_map(namespace, settings("a"))
    informer = SharedInformer(api.list_namespaced_config_map, namespace=namespace)
    seen: list[tuple[str, str]] = []
    for sort in (ADDED, MODIFIED, DELETED):
        informer.add_event_handler(
            sort, lambda each, sort=sort: seen.append((sort, each.metadata.name))
        )
    informer.start()
    try:
        until(lambda: (ADDED, "a") in seen)
        api.patch_namespaced_config_map("a", namespace, {"data": {"x": "1"}})
        until(lambda: (MODIFIED, "a") in seen)
        assert informer.cache.get_by_key(f"{namespace}/a").data == {"x": "1"}
        api.delete_namespaced_config_map("a", namespace)
        until(lambda: (DELETED, "a") in seen)
        assert informer.cache.get_by_key(f"{namespace}/a") is None
    finally:
        informer.stop()


@pytest.mark.parametrize("lock", [ConfigMapLock, LeaseLock])
def test_one_of_two_leads(api: client.CoreV1Api, namespace: str, lock: type[Any]) -> None:
    """The first candidate leads until somebody else holds the lock."""
    started, stopped = threading.Event(), threading.Event()

    def run() -> None:
        held = lock("leader", namespace, "one")
        wanted = electionconfig.Config(held, 4, 3, 1, started.set, stopped.set)
        leaderelection.LeaderElection(wanted).run()

    candidate = threading.Thread(target=run)
    candidate.start()
    assert started.wait(SECONDS)
    other = lock("leader", namespace, "two")
    _, record = other.get("leader", namespace)
    assert record.holder_identity == "one"
    for _ in range(100):  # a renewal may come between
        _, record = other.get("leader", namespace)
        record.holder_identity = "two"
        if other.update("leader", namespace, record):
            break
    assert stopped.wait(SECONDS)
    candidate.join(SECONDS)
