"""The lives of plugins while answers are computed, in which time stands still.

Each plugin is started once, and what it calls from time to time is called once for each cluster
that is read, before the decisions. Its other tasks run meanwhile, and stop in between. Nothing
waits for tasks: what an answer needs belongs into `start` or into `every`. Tasks that need the
lease do not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from weakref import finalize

from berth.actors.scheduling.framework.interface import Plugin
from berth.actors.wiring.plugin_lives import (
    CLOSE,
    CLOSE_SECONDS,
    START,
    START_SECONDS,
    TASK,
    Work,
    check_rest,
    lives,
    told,
)


class _Life:
    """A plugin that has been started, and its PluginScope."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self.repeated: list[Work] = []
        self.tasks: list[asyncio.Task[bool]] = []

    def run(self, work: Callable[[], Awaitable[object]], *, leading: bool = False) -> None:
        if not leading:
            self.tasks.append(asyncio.ensure_future(told(self.plugin, TASK, work)))

    def every(self, seconds: float, work: Work, *, leading: bool = False) -> None:
        check_rest(seconds)
        if not leading:
            self.repeated.append(work)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class TriedLives:
    """The plugins with a life, in an event loop of their own. They are closed when this object is
    no longer in use.
    """

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._lives = [_Life(plugin) for plugin in plugins if lives(plugin)]
        self._loop: asyncio.AbstractEventLoop | None = None

    def refresh(self) -> None:
        """Starts the plugins if they have not started, and calls what they repeat. A plugin that
        takes more than START_SECONDS is left to itself.
        """
        if not self._lives:
            return
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            finalize(self, _close, self._loop, self._lives)
            _run(self._loop, _start(self._lives))
        _run(self._loop, _repeat(self._lives))


async def _start(started: list[_Life]) -> None:
    for life in started:
        start = told(life.plugin, START, partial(life.plugin.start, life))
        await _within(START_SECONDS, start)


async def _repeat(started: list[_Life]) -> None:
    for life in started:
        for work in life.repeated:
            await _within(START_SECONDS, told(life.plugin, TASK, work))


async def _within(seconds: float, work: Coroutine[Any, Any, bool]) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.wait((task,), timeout=seconds)
    task.cancel()


def _close(loop: asyncio.AbstractEventLoop, started: list[_Life]) -> None:
    async def close() -> None:
        for life in reversed(started):
            for task in life.tasks:
                task.cancel()
            if life.tasks:
                await asyncio.wait(life.tasks, timeout=CLOSE_SECONDS)
            await _within(CLOSE_SECONDS, told(life.plugin, CLOSE, life.plugin.close))

    _run(loop, close())
    loop.close()


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Runs the loop until the work is done; in a thread of its own if this one has a loop."""
    if not _has_loop():
        loop.run_until_complete(work)
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(loop.run_until_complete, work).result()


def _has_loop() -> bool:
    """True if this thread has one. Apart from the work, whose errors would else name this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
