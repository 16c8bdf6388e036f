"""kubernetes_asyncio: objects, watches and leader election."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.leaderelection import electionconfig
from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock

from berth.testing import ServedCluster
from tests.integration.clients.histories import forget_history

pytestmark = pytest.mark.full("waits")
SECONDS = 30


@pytest.fixture
async def connection(served: ServedCluster) -> AsyncIterator[ApiClient]:
    settings = client.Configuration()
    await config.load_kube_config(str(served.kubeconfig), client_configuration=settings)
    async with ApiClient(settings) as connected:
        yield connected


def settings(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


async def test_objects_are_written_and_read(connection: ApiClient, namespace: str) -> None:
    api = client.CoreV1Api(connection)
    await api.create_namespaced_config_map(namespace, settings("a", color="blue"))
    patched = await api.patch_namespaced_config_map("a", namespace, {"data": {"size": "1"}})
    assert patched.data == {"color": "blue", "size": "1"}
    listed = await api.list_namespaced_config_map(namespace, label_selector="!x")
    assert {each.metadata.name for each in listed.items} == {"a", "kube-root-ca.crt"}
    await api.delete_namespaced_config_map("a", namespace)
    with pytest.raises(ApiException) as missing:
        await api.read_namespaced_config_map("a", namespace)
    assert missing.value.status == 404


async def test_apply_has_owners(connection: ApiClient, namespace: str) -> None:
    api = client.CoreV1Api(connection)

    async def apply(manager: str, *, force: bool, **data: str) -> dict[str, str]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}
        applied = await api.patch_namespaced_config_map(
            "a",
            namespace,
            body,
            field_manager=manager,
            force=force,
            _content_type="application/apply-patch+yaml",
        )
        return applied.data or {}

    assert await apply("one", force=False, color="blue", size="1") == {"color": "blue", "size": "1"}
    with pytest.raises(ApiException, match="conflict with"):
        await apply("two", force=False, color="red")
    assert await apply("two", force=True, color="red") == {"color": "red", "size": "1"}
    assert await apply("one", force=False) == {"color": "red"}


async def test_a_watch_goes_on_where_it_ended(connection: ApiClient, namespace: str) -> None:
    api = client.CoreV1Api(connection)
    version = (await api.list_namespaced_config_map(namespace)).metadata.resource_version
    await api.create_namespaced_config_map(namespace, settings("a"))
    seen: list[str] = []
    for timeout in (1, SECONDS):
        async with watch.Watch() as watching:
            async for event in watching.stream(
                api.list_namespaced_config_map,
                namespace,
                resource_version=version,
                timeout_seconds=timeout,
                allow_watch_bookmarks=True,
            ):
                version = event["object"].metadata.resource_version
                if event["type"] != "BOOKMARK":
                    seen.append(event["type"])
                if event["type"] == "DELETED":
                    break
        if timeout == 1:
            await api.patch_namespaced_config_map("a", namespace, {"data": {"x": "1"}})
            await api.delete_namespaced_config_map("a", namespace)
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_version_that_is_gone_is_refused(
    connection: ApiClient, namespace: str, served: ServedCluster
) -> None:
    forget_history(served)
    api = client.CoreV1Api(connection)
    async with watch.Watch() as watching:
        events = watching.stream(
            api.list_namespaced_config_map, namespace, resource_version="1", timeout_seconds=5
        )
        with pytest.raises(ApiException) as gone:
            await anext(events)
    assert gone.value.status == 410


async def test_one_of_two_leads(connection: ApiClient, namespace: str) -> None:
    """The second candidate leads once the first has gone."""
    led = {name: asyncio.Event() for name in ("one", "two")}

    def candidate(name: str) -> LeaderElection:
        async def start() -> None:
            led[name].set()
            await asyncio.sleep(3600)

        async def stop() -> None:
            led[name].clear()

        lock = LeaseLock("leader", namespace, name, connection)
        return LeaderElection(electionconfig.Config(lock, 4, 3, 1, start, stop))

    async with asyncio.timeout(SECONDS):
        first = asyncio.create_task(candidate("one").run())
        await led["one"].wait()
        second = asyncio.create_task(candidate("two").run())
        lease = await client.CoordinationV1Api(connection).read_namespaced_lease(
            "leader", namespace
        )
        assert lease.spec.holder_identity == "one"
        assert not led["two"].is_set()
        first.cancel()
        await led["two"].wait()
        second.cancel()
        await asyncio.wait((first, second))
