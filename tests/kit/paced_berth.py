"""`berth` in a loop whose time can run faster than real time. It runs as this module instead of
`berth.actors` in a process of tests/kit/forks.py: faster from SIGUSR1 to SIGUSR2.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import anyio

from berth.actors.cli import main
from berth.actors.runtime.clock import SystemClock
from tests.kit.paced_loop import PacedLoop

FASTER = 10.0


def run() -> None:
    began, loop, run_loop = time.time(), PacedLoop(speed=1.0), anyio.run

    def seconds() -> float:
        return round(began + loop.time(), 6)  # as a datetime has it

    def run_paced(work: Callable[..., Awaitable[Any]], *args: Any, backend_options: object) -> Any:
        return run_loop(work, *args, backend_options={"loop_factory": lambda: loop})

    vars(anyio)["run"] = run_paced
    SystemClock.now = staticmethod(loop.time)
    SystemClock.wall = lambda self: datetime.fromtimestamp(seconds(), UTC)  # type: ignore[method-assign]
    for number, speed in ((signal.SIGUSR1, FASTER), (signal.SIGUSR2, 1.0)):
        signal.signal(number, lambda *_, speed=speed: loop.pace(speed))
    main(prog_name="berth")


if __name__ == "__main__":
    run()
