"""An event loop in virtual time, for parts that talk by calls or through sockets in one process.

When no task can run and no socket has data, the loop's time jumps to its next timer. A pause or a
time-out of any length costs a few real milliseconds and takes its exact length in the loop's time,
however busy the machine is.

Both ends of every socket must be in the same loop. The loop waits for a thread only if
`run_in_executor` started it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)  # the time of day at 0 seconds
# The time that data may take through the kernel, from one socket of the loop to another.
TRANSIT_SECONDS = 0.001
# Real seconds without any progress, after which the loop ends with an error.
MOST_SECONDS = 60.0
# Turns of the loop before a stand-still of which what runs is told, and how much of it.
TOLD_TURNS = 100
MOST_TURNS = 1_000_000  # of a test's loop at one instant: eight real seconds; few need 1,000
MOST_NAMED = 5


class StandStillError(SystemExit):
    """Virtual time stands still at `at` seconds while tasks run; the message names what ran. It
    ends the loop, as nothing in it can be relied on to end.
    """

    def __init__(self, at: float, ran: str) -> None:
        super().__init__(f"no time passes while these run: {ran}")
        self.at = at


class _Selector(selectors.DefaultSelector):
    def __init__(self, transit: float) -> None:
        super().__init__()
        self.now = 0.0
        self.turns = 0  # of the loop at this instant
        self.in_threads = 0
        self._transit = transit

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        if timeout is not None and timeout <= 0:
            return super().select(0) if self._transit or self.in_threads else []
        if timeout is None or self.in_threads:
            ready = super().select(MOST_SECONDS)
            assert ready, "no task can run, and no timer or thread will wake one"
            return ready
        ready = super().select(self._transit) if self._transit else []
        if not ready:
            self.now += timeout
            self.turns = 0
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, which starts at 0 seconds.

    `transit` is the time that data may take through the kernel; 0 if no part uses sockets. After
    `most_turns` of the loop at one instant, it raises StandStillError.
    """

    def __init__(self, transit: float = TRANSIT_SECONDS, most_turns: int | None = None) -> None:
        self._virtual = _Selector(transit)
        self._most_turns = most_turns
        self._ran: Counter[str] = Counter()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def stand_still(self, seconds: float) -> None:
        """Lets time pass in which no task of the loop runs."""
        self._virtual.now += seconds

    @property
    def turns(self) -> int:
        """The number of turns of the loop since time has passed."""
        return self._virtual.turns

    def _run_once(self) -> None:
        """Runs a turn of the loop, as asyncio does; overridden to count turns without time."""
        super()._run_once()  # type: ignore[misc]
        most, turns = self._most_turns, self._virtual.turns
        if most is not None and turns > most - TOLD_TURNS:
            self._ran.update(map(_name_of, self._ready))  # type: ignore[attr-defined]
            if turns >= most:
                self._virtual.turns = 0  # the tasks may still end
                ran = ", ".join(name for name, _ in self._ran.most_common(MOST_NAMED))
                raise StandStillError(self.time(), ran)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        self._virtual.in_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Waits without a limit: the limit of a runner would be over in virtual time at once."""
        await super().shutdown_default_executor()

    def _thread_ended(self, _: object) -> None:
        self._virtual.in_threads -= 1


def _name_of(handle: asyncio.Handle) -> str:
    """Returns the name of the task, or of the function, that a handle will run."""
    function = getattr(handle, "_callback", None)
    task = getattr(function, "__self__", None)
    if isinstance(task, asyncio.Task):
        return task.get_name()
    return str(getattr(function, "__qualname__", function))


class LoopClock:
    """The time of a loop, by default the running one, as a clock for actors and clients."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.now: Callable[[], float] = _running_time if loop is None else loop.time
        self._second, self._wall = 0.0, BEGAN

    def wall(self) -> datetime:
        now = self.now()
        if now != self._second:
            self._second, self._wall = now, BEGAN + timedelta(seconds=now)
        return self._wall

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def _running_time() -> float:
    return asyncio.get_running_loop().time()


def loop_of_cluster() -> asyncio.AbstractEventLoop:
    """Returns the running loop. Raises RuntimeError without one of asyncio, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "a Cluster needs a running event loop of asyncio: use a ServedCluster under trio, and"
            " a BlockingCluster without any loop"
        ) from None


def refuse_running_loop(what: str) -> None:
    """Raises RuntimeError if a loop runs in this thread already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"{what} runs a loop of its own, and cannot be used inside of another, as in a coroutine or"
        " in Jupyter: use `async with Cluster(...)` there, or a ServedCluster"
    )


def virtual_loop() -> VirtualLoop:
    """Returns a loop in virtual time whose parts do not talk through sockets, and in which a task
    that never waits ends the test.
    """
    return VirtualLoop(transit=0.0, most_turns=MOST_TURNS)


def run_virtually(
    story: Callable[[], Coroutine[Any, Any, T]],
    loop: Callable[[], asyncio.AbstractEventLoop] = virtual_loop,
) -> T:
    """Runs a story in the time of a loop. Raises RuntimeError inside of another loop, as in a
    coroutine or in Jupyter, and what the story raises.
    """
    refuse_running_loop("run_virtually")
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(story())
