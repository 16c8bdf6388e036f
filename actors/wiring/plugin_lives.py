"""The lives of plugins: each is started once the objects are listed, its tasks run while it is in
use, and it is closed.

A plugin that fails to start is started again after a backoff; pods are scheduled meanwhile, as a
plugin is not needed for most of them. What a plugin raises ends none of its other tasks. Tasks that
are to run only with the lease run inside `lead`, which is one of the gated parts, so that they have
ended before the lease is released.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from ..runtime.race import race
from ..runtime.supervisor import BACKOFF, CANCELLED
from ..scheduling.decision.failures import CRASHES, Point, failure_status, is_unawaited
from ..scheduling.decision.overruns import calls_plugins
from ..scheduling.decision.timed_steps import timed_wait
from ..scheduling.framework.interface import Plugin
from ..scheduling.framework.logger import get_logger

log = get_logger(__name__)

START = Point("Start", 'starting plugin "{}": ', "")
TASK = Point("Task", 'running a task of plugin "{}": ', "")
CLOSE = Point("Close", 'closing plugin "{}": ', "")
# The decisions wait as long for a plugin to start, and the end of the process for it to close.
START_SECONDS, CLOSE_SECONDS = 10.0, 5.0
SHORTEST_REPEAT = 0.01  # seconds, between two calls of what is called from time to time
SHORTEST_REST = 1.0  # seconds, while it is the turn of another plugin

Work = Callable[[], Awaitable[object] | None]


def check_rest(seconds: float) -> None:
    """Raises ValueError for a rest between two calls in which nothing else would have its turn."""
    if not seconds >= SHORTEST_REPEAT:
        raise ValueError(f"expected {SHORTEST_REPEAT} seconds or more, got {seconds!r}")


def lives(plugin: Plugin) -> bool:
    """True if a plugin has something to start or to close."""
    kind = type(plugin)
    return kind.start is not Plugin.start or kind.close is not Plugin.close


def _is_cancelled_by_scope() -> bool:
    return anyio.current_effective_deadline() == CANCELLED


def _is_cancelled() -> bool:
    """True if this task is, and not only something that it waited for."""
    task = asyncio.current_task()
    by_hand = task is not None and task.cancelling() > 0
    return by_hand or _is_cancelled_by_scope()


async def told(
    plugin: Plugin,
    point: Point,
    work: Work,
    is_cancelled: Callable[[], bool] = _is_cancelled,
) -> bool:
    """Calls a function of a plugin, and tells what it raises. False if it failed. A cancellation of
    the task passes. A step that holds everybody up counts for the plugin's breaker; a failure does
    not, as nobody waits for it.
    """
    breaker = plugin.breaker
    is_in_time = True

    def note(seconds: float) -> None:
        nonlocal is_in_time
        if breaker is not None and seconds > breaker.limits.call_seconds:
            is_in_time = breaker.took(None, point.name, seconds, "", breaker.now(), None)

    try:
        if breaker is None:
            await _called(work)
        else:
            await timed_wait(_called(work), breaker.now, note)
    except CRASHES as exception:
        if isinstance(exception, asyncio.CancelledError) and is_cancelled():
            raise
        if is_unawaited(exception):
            raise
        failure_status(plugin, point, exception)
        return False
    if breaker is not None and is_in_time:
        breaker.succeeded(point.name, breaker.now())
    return True


@calls_plugins
async def _called(work: Work) -> None:
    result = work()
    if inspect.isawaitable(result):
        await result


async def _while_switched_off(plugin: Plugin, point: Point, clock: Clock) -> None:
    """Waits while a plugin is switched off for what it did at this point."""
    breaker = plugin.breaker
    while breaker is not None and breaker.point == point.name:
        now = breaker.now()
        if breaker.admits(now):
            return
        await clock.sleep(max(breaker.rest(now), SHORTEST_REST))


async def _told_in_scope(plugin: Plugin, point: Point, work: Work) -> bool:
    """Does what `told` does in a task that only a scope cancels: a plugin that cancels it by hand
    has failed.
    """
    went_well = await told(plugin, point, work, _is_cancelled_by_scope)
    task = asyncio.current_task()
    while task is not None and task.cancelling() and not _is_cancelled_by_scope():
        task.uncancel()
    return went_well


class _Task:
    """A task of a plugin. With `seconds`, it is called again and again."""

    def __init__(
        self, plugin: Plugin, work: Work, seconds: float | None, clock: Clock, rng: Rng
    ) -> None:
        self._plugin = plugin
        self._work = work
        self._seconds = seconds
        self._clock = clock
        self._rng = rng
        self._scopes: dict[anyio.CancelScope, anyio.Event] = {}
        self.name = f"a task of plugin {plugin.name}"
        self._is_over = False

    async def run(self) -> None:
        if self._is_over:
            return
        scope, gone = anyio.CancelScope(), anyio.Event()
        self._scopes[scope] = gone
        try:
            with scope:
                await self._go_on()
        finally:
            del self._scopes[scope]
            gone.set()

    async def _go_on(self) -> None:
        failures = 0
        while True:
            await _while_switched_off(self._plugin, TASK, self._clock)
            went_well = await _told_in_scope(self._plugin, TASK, self._work)
            failures = 0 if went_well else failures + 1
            if self._seconds is not None:
                await self._clock.sleep(self._seconds)
            elif went_well:
                return
            else:
                await self._clock.sleep(BACKOFF.delay(failures, self._rng))

    def cancel(self) -> list[anyio.Event]:
        """Cancels the task for good. Returns what is set once it has ended."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()
        return list(self._scopes.values())


class _Life:
    """A plugin that is in use, and its PluginScope."""

    def __init__(self, plugin: Plugin, lives: PluginLives) -> None:
        self.plugin = plugin
        self.tried = anyio.Event()  # its first start has returned or failed
        self.leading: list[_Task] = []
        self.is_over = False
        self._tasks: list[_Task] = []
        self._lives = lives

    # ------------------------------------------------------------------------------- for the plugin

    def run(self, work: Callable[[], Awaitable[object]], *, leading: bool = False) -> None:
        self._add(work, None, leading=leading)

    def every(self, seconds: float, work: Work, *, leading: bool = False) -> None:
        check_rest(seconds)
        self._add(work, seconds, leading=leading)

    async def sleep(self, seconds: float) -> None:
        await self._lives.clock.sleep(seconds)

    # -------------------------------------------------------------------------------- for the lives

    def _add(self, work: Work, seconds: float | None, *, leading: bool) -> None:
        if self.is_over:
            raise RuntimeError(f"the plugin {self.plugin.name} is closed")
        task = _Task(self.plugin, work, seconds, self._lives.clock, self._lives.rng)
        self._tasks.append(task)
        if leading:
            self.leading.append(task)
        self._lives.begin(task, leading=leading)

    async def start(self) -> None:
        """Starts the plugin; again after a backoff if that fails."""
        failures = 0
        while not await _told_in_scope(self.plugin, START, lambda: self.plugin.start(self)):
            await self._end_tasks()
            self.tried.set()
            failures += 1
            await self._lives.clock.sleep(BACKOFF.delay(failures, self._lives.rng))
            await _while_switched_off(self.plugin, START, self._lives.clock)
        self.tried.set()

    async def close(self) -> None:
        """Ends the tasks, and closes the plugin."""
        self.is_over = True
        await self._end_tasks()
        await _told_in_scope(self.plugin, CLOSE, self.plugin.close)

    async def _end_tasks(self) -> None:
        tasks, self._tasks, self.leading = self._tasks, [], []
        for gone in [event for task in tasks for event in task.cancel()]:
            await gone.wait()


class PluginLives:
    """The plugins in use that have a life; `in_use` returns all that are in use."""

    def __init__(self, in_use: Callable[[], Iterable[Plugin]], clock: Clock, rng: Rng) -> None:
        self.clock = clock
        self.rng = rng
        self._in_use = in_use
        self._lives: dict[int, _Life] = {}
        self._starting: dict[int, anyio.CancelScope] = {}
        self._group: TaskGroup | None = None
        self._leading: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Starts the plugins, and closes them when it is cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                await self.start(self._in_use())
                task_status.started()
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await self.close([life.plugin for life in self._lives.values()])
                self._group = None
                group.cancel_scope.cancel()

    async def lead(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Runs the tasks that need the lease, until it is cancelled."""
        async with anyio.create_task_group() as group:
            self._leading = group
            try:
                for life in self._lives.values():
                    for task in life.leading:
                        group.start_soon(task.run, name=task.name)
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._leading = None

    async def start(self, plugins: Iterable[Plugin]) -> None:
        """Starts those of the plugins that are not in use yet. Returns once they have started or
        failed, or after START_SECONDS.
        """
        new = [plugin for plugin in plugins if lives(plugin) and id(plugin) not in self._lives]
        begun = [_Life(plugin, self) for plugin in new]
        if not begun or self._group is None:
            return
        for life in begun:
            self._lives[id(life.plugin)] = life
            self._group.start_soon(self._start, life)

        async def all_tried() -> None:
            for life in begun:
                await life.tried.wait()

        await race(all_tried, lambda: self.clock.sleep(START_SECONDS))
        for life in begun:
            if not life.tried.is_set():
                fields = {"plugin": life.plugin.name, "after_seconds": START_SECONDS}
                log.warning("plugin has not started yet; pods are scheduled meanwhile", **fields)

    async def _start(self, life: _Life) -> None:
        with anyio.CancelScope() as scope:
            self._starting[id(life.plugin)] = scope
            try:
                await life.start()
            finally:
                self._starting.pop(id(life.plugin), None)

    async def keep(self, plugins: Iterable[Plugin]) -> None:
        """Closes the plugins that are not among these."""
        kept = {id(plugin) for plugin in plugins}
        await self.close([life.plugin for key, life in self._lives.items() if key not in kept])

    async def close(self, plugins: Iterable[Plugin]) -> None:
        """Closes plugins, in reverse order, each within CLOSE_SECONDS."""
        for plugin in reversed(list(plugins)):
            life = self._lives.pop(id(plugin))
            starting = self._starting.get(id(plugin))
            if starting is not None:
                starting.cancel()
            await self._close(life)

    async def _close(self, life: _Life) -> None:
        """Closes a plugin in a task of its own, as its end may ignore that it is cancelled."""
        assert self._group is not None  # the life has begun
        scope, closed = anyio.CancelScope(shield=True), anyio.Event()

        async def close() -> None:
            try:
                with scope:
                    await life.close()
            finally:
                closed.set()

        self._group.start_soon(close, name=f"the end of plugin {life.plugin.name}")
        with anyio.move_on_after(CLOSE_SECONDS) as limit:
            await closed.wait()
        if limit.cancelled_caught:
            fields = {"plugin": life.plugin.name, "after_seconds": CLOSE_SECONDS}
            log.warning("plugin is not closed; it is left to itself", **fields)
            scope.cancel()

    def begin(self, task: _Task, *, leading: bool) -> None:
        """Runs a task. One that needs the lease waits for it."""
        group = self._leading if leading else self._group
        if group is not None:
            group.start_soon(task.run, name=task.name)
