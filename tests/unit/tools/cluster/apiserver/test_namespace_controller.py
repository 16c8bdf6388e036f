"""Deleted namespaces end a while later: their pods first, then the rest."""

from __future__ import annotations

import asyncio

import anyio.lowlevel

from berth.tools.cluster.apiserver.namespace_controller import GRACE_SECONDS, end_namespaces
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND, Kind
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import pod
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time

NAMESPACES, PODS = BY_KIND["v1", "Namespace"], BY_KIND["v1", "Pod"]
MAPS = BY_KIND["v1", "ConfigMap"]


def there(store: Store, kind: Kind, name: str) -> bool:
    return store.find(kind, "n" if kind.namespaced else "", name) is not None


@in_virtual_time
async def test_what_a_pod_needs_outlives_it() -> None:
    store = fresh_store()
    api = Api(store)
    api.create(NAMESPACES, "", {"metadata": {"name": "n"}})
    waiting = pod("p", containers=[{"name": "c", "image": "i"}])
    waiting["metadata"] = {"name": "p", "finalizers": ["example.com/wait"]}
    api.create(PODS, "n", waiting)
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
