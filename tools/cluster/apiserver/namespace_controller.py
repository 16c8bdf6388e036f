"""Ends deleted namespaces: a while later their pods are deleted, then what else is in them, and
with it the namespace.

Mirrors Kubernetes' namespace controller. It waits, too: so a client that deletes a namespace and
then what is in it, in one go, finds that still there.
"""

from __future__ import annotations

import asyncio

from ...kubernetes.api.store import Store
from ...kubernetes.api.writes.admission import NAMESPACES
from ...kubernetes.api.writes.evictions import PODS
from ...kubernetes.api.writes.registry import Api
from .long_requests import in_pieces
from .next_write import next_write

GRACE_SECONDS = 5.0


async def end_namespaces(store: Store) -> None:
    """Deletes the contents of deleted namespaces. Never returns."""
    begun: set[str] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            ending = {
                metadata["uid"]: metadata["name"]
                for stored in store.list(NAMESPACES)
                if "deletionTimestamp" in (metadata := stored.document["metadata"])
            }
            for uid, name in ending.items():
                if uid not in begun:
                    group.create_task(_end_namespace(store, uid, name))
            begun = set(ending)
            await next_write(store, NAMESPACES)


async def _end_namespace(store: Store, uid: str, name: str) -> None:
    await asyncio.sleep(GRACE_SECONDS)
    api = Api(store)
    if _is_there(store, uid, name):
        (await in_pieces(api.end_pods(name)))()
    while _is_there(store, uid, name) and any(store.list(PODS, name)):
        await next_write(store, PODS)
    if _is_there(store, uid, name):
        (await in_pieces(api.end_contents(name)))()


def _is_there(store: Store, uid: str, name: str) -> bool:
    namespace = store.find(NAMESPACES, "", name)
    return namespace is not None and namespace["metadata"]["uid"] == uid
