"""Tasks that run beside a block, and are cancelled at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio

Function = Callable[..., Coroutine[Any, Any, Any]]


@asynccontextmanager
async def started(*functions: Function) -> AsyncIterator[None]:
    """Starts these functions in their order: each says when the next may start."""
    async with anyio.create_task_group() as group:
        for function in functions:
            await group.start(function)
        yield
        group.cancel_scope.cancel()


@asynccontextmanager
async def beside(*functions: Function) -> AsyncIterator[None]:
    """Runs these functions as soon as the block waits."""
    async with anyio.create_task_group() as group:
        for function in functions:
            group.start_soon(function)
        yield
        group.cancel_scope.cancel()
