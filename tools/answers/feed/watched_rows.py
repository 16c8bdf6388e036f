"""The rows of objects that a watch delivers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import anyio.lowlevel
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed, WatchUpdate
from berth.actors.scheduling.kube.meta import HasMetadata

from .feed_source import Change

T = TypeVar("T", bound=HasMetadata | dict[str, Any])
PAUSE_EVERY = 200  # objects of a list, between which others have their turn


async def put_rows(
    updates: AsyncIterator[WatchUpdate[T]],
    name: Callable[[T], str],
    row: Callable[[T], Change | None],
    gone: Callable[[str], Change],
    put: Callable[[Change], None],
    *,
    task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
) -> None:
    """Puts the rows of objects, and the names of deleted ones; objects that cannot be read are left
    out. Started means that the rows of all present objects are put.
    """
    names: set[str] = set()
    started = False

    def place(item: T) -> None:
        shown = row(item)
        put(gone(name(item)) if shown is None else shown)

    async for update in updates:
        match update:
            case ObjectsListed(items):
                listed = set(map(name, items))
                for each in names - listed:
                    put(gone(each))
                names = listed
                for number, item in enumerate(items):
                    if number % PAUSE_EVERY == 0:
                        await anyio.lowlevel.checkpoint()
                    place(item)
                if not started:
                    task_status.started()
                    started = True
            case ObjectChanged(item):
                names.add(name(item))
                place(item)
            case ObjectDeleted(item):
                names.discard(name(item))
                put(gone(name(item)))
