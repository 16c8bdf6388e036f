"""A process that plays scenarios for `berth simulate`: it reads a scenario from each line of its
input, and writes a story to each line of its output. It ends with its input, also in the middle of
a story, so that it does not outlive whoever started it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread
from types import FrameType, TracebackType
from typing import Self

import msgspec

from berth.actors.telemetry.logs import configure_logs

from ..virtual_time import StandStillError, VirtualLoop
from .chance import drawn
from .scenario import Scenario
from .short_stories import drawn_short
from .simulation import Story, play

TURN_SECONDS = 10.0  # of CPU, after two of which a turn of the loop is ended
MOST_CALLS = 5  # that are named
OBJECTS = 300_000, 20, 20  # new ones between two looks for garbage, as in gc.set_threshold


class Seed(msgspec.Struct, frozen=True):
    """A scenario that is to be drawn from a seed; without `seconds`, a short story."""

    seed: int
    seconds: float | None = None

    def drawn(self) -> Scenario:
        """Returns the scenario of the seed."""
        return drawn_short(self.seed) if self.seconds is None else drawn(self.seed, self.seconds)


class Crash(msgspec.Struct, frozen=True, tag=True):
    """A part of the simulated cluster failed; `trace` is the traceback."""

    trace: str


class Told(msgspec.Struct, frozen=True, tag=True):
    """A story that was played, and the seconds of CPU that it took."""

    story: Story
    cpu: float


class Worker:
    """A process that plays scenarios, one after the other."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(  # noqa: S603 - this module
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def play(self, what: Seed | Scenario) -> Told | Crash:
        """Plays a scenario. Raises ConnectionError if the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        field = "seed" if isinstance(what, Seed) else "scenario"
        self._process.stdin.write(msgspec.json.encode({field: what}) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ConnectionError("a process of the simulation has ended")
        return msgspec.json.decode(line, type=Told | Crash)


class TurnWatch:
    """Ends a story one of whose turns of the loop takes too much CPU: it raises StandStillError in
    what runs. It works in the main thread alone.
    """

    def __init__(self, seconds: float = TURN_SECONDS) -> None:
        self._seconds = seconds
        self._last: tuple[VirtualLoop, float, int] | None = None

    def begin(self) -> None:
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, self._seconds, self._seconds)

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def _look(self, _number: int, frame: FrameType | None) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if isinstance(loop, VirtualLoop):
            # with the loop, as each story begins at the same time
            last, self._last = self._last, (loop, loop.time(), loop.turns)
            if last == self._last:
                calls = traceback.extract_stack(frame, MOST_CALLS)
                raise StandStillError(loop.time(), " > ".join(call.name for call in calls))


class _Order(msgspec.Struct, frozen=True):
    seed: Seed | None = None
    scenario: Scenario | None = None


def _answer(line: bytes) -> Told | Crash:
    order = msgspec.json.decode(line, type=_Order)
    before = os.times()
    try:
        if order.seed is not None:
            scenario = order.seed.drawn()
        else:
            assert order.scenario is not None
            scenario = order.scenario
        story = play(scenario)
        gc.collect(0)  # a short story ends before its cluster is looked at for garbage
    except Exception:  # noqa: BLE001 - the one who asked decides what a failure means
        return Crash(traceback.format_exc())
    after = os.times()
    return Told(story, after.user + after.system - before.user - before.system)


def _lines() -> Iterator[bytes]:
    """Yields the lines of the input. Once it ends, so does the process: nobody would hear of the
    story that is played.
    """
    lines: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        os._exit(0)

    Thread(target=read, daemon=True).start()
    while True:
        yield lines.get()


def main() -> None:
    """Answers until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # nobody's, as the logs of simulated schedulers
    configure_logs(quiet=True)
    TurnWatch().begin()
    gc.freeze()  # what is imported is never garbage
    gc.set_threshold(*OBJECTS)
    for line in _lines():
        answers.write(msgspec.json.encode(_answer(line)) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
