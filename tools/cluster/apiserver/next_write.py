"""A wait for the next write to a store."""

from __future__ import annotations

import asyncio

from ...kubernetes.api.store import Store
from ...kubernetes.api.types.resources import Kind


async def next_write(store: Store, kind: Kind) -> None:
    """Returns after the next write of an object of this kind."""
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not written.done():
            written.set_result(None)

    store.at_next_write(kind, wake)
    try:
        await written
    finally:
        store.call_off(kind, wake)
