"""Deleted namespaces end a while later: their pods first, then the rest."""

from __future__ import annotations

import asyncio

import anyio.lowlevel
import pytest

from berth.tools.cluster.apiserver.long_requests import PIECE
from berth.tools.cluster.apiserver.namespace_controller import GRACE_SECONDS, end_namespaces
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import Document
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.deletion import check_deletion
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import pod
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time

NAMESPACES, PODS = BY_KIND["v1", "Namespace"], BY_KIND["v1", "Pod"]
MAPS = BY_KIND["v1", "ConfigMap"]


def there(store: Store, kind: Kind, name: str) -> bool:
    return store.find(kind, "n" if kind.namespaced else "", name) is not None


def held(name: str) -> Document:
    """A pod that stays until its finalizer is taken away."""
    waiting = pod(name, containers=[{"name": "c", "image": "i"}])
    waiting["metadata"] = {"name": name, "finalizers": ["example.com/wait"]}
    return waiting


@in_virtual_time
async def test_what_a_pod_needs_outlives_it() -> None:
    store = fresh_store()
    api = Api(store)
    api.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    api.create(PODS, "n", held("p"))
    api.create(MAPS, "n", {"metadata": {"name": "m"}})
    ending = asyncio.create_task(end_namespaces(store))
    await anyio.lowlevel.checkpoint()
    api.delete(NAMESPACES, "", "n", DeleteOptions())
    await anyio.sleep(GRACE_SECONDS + 1)
    assert "deletionTimestamp" in store.get(PODS, "n", "p")["metadata"]
    assert there(store, MAPS, "m")
    api.patch(PODS, "n", "p", {"metadata": {"finalizers": None}}, MERGE, "")
    await anyio.sleep(1)
    assert not there(store, MAPS, "m")
    assert not there(store, NAMESPACES, "n")
    ending.cancel()


@in_virtual_time
async def test_a_full_namespace_ends_in_pieces() -> None:
    store = fresh_store()
    api = Api(store)
    api.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    for number in range(3 * PIECE):
        api.create(MAPS, "n", {"metadata": {"name": f"m{number}"}})
    ending = asyncio.create_task(end_namespaces(store))
    await anyio.lowlevel.checkpoint()
    api.delete(NAMESPACES, "", "n", DeleteOptions())
    await anyio.sleep(GRACE_SECONDS)
    left = set()
    while there(store, NAMESPACES, "n"):
        await anyio.lowlevel.checkpoint()
        left.add(store.count(MAPS))
    assert len(left) >= 3
    ending.cancel()


@in_virtual_time
async def test_pods_that_take_their_time_are_deleted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = fresh_store()
    api = Api(store)
    api.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    for number in range(20):
        api.create(PODS, "n", held(f"p{number}"))
    deleted: list[str] = []

    def counted(kind: Kind, document: Document, options: DeleteOptions) -> None:
        deleted.append(kind.kind)
        check_deletion(kind, document, options)

    monkeypatch.setattr("berth.tools.kubernetes.api.writes.registry.check_deletion", counted)
    ending = asyncio.create_task(end_namespaces(store))
    await anyio.lowlevel.checkpoint()
    api.delete(NAMESPACES, "", "n", DeleteOptions())
    await anyio.sleep(GRACE_SECONDS + 1)
    for number in range(20):
        assert there(store, NAMESPACES, "n")
        api.patch(PODS, "n", f"p{number}", {"metadata": {"finalizers": None}}, MERGE, "")
        await anyio.sleep(1)
    assert not there(store, NAMESPACES, "n")
    assert deleted.count("Pod") == 20
    ending.cancel()
