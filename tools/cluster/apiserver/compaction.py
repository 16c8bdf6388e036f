"""Compaction by time: the events that are older than an interval are dropped, as kube-apiserver
has etcd drop them every five minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...kubernetes.api.store import Store


@asynccontextmanager
async def compacted(store: Store, seconds: float | None) -> AsyncIterator[None]:
    """During the block, after each interval, the events before it are dropped; None never does."""
    if seconds is None:
        yield
        return
    compacting = asyncio.create_task(_compact(store, seconds))
    try:
        yield
    finally:
        compacting.cancel()


async def _compact(store: Store, seconds: float) -> None:
    while True:
        revision = store.revision
        await asyncio.sleep(seconds)
        store.compact_to(revision)
