"""Runs the what-ifs of a sweep in processes of this machine.

Each worker has a connection of its own: if a worker dies, it is clear which cell it had.
"""

from __future__ import annotations

import signal
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

import msgspec

from berth.actors.telemetry.logs import configure_logs

from ...explain.slow_answer import progress_reports
from .cell import Failed, Outcome, WhatIfs
from .plan import Cell

MOST_DEATHS = 3  # of workers with the same cell
_SPAWN = get_context("spawn")


def outcomes(plan: bytes, cells: Sequence[Cell], jobs: int) -> Generator[Outcome, None, None]:
    """Yields the outcome of each cell as soon as it is known. If a worker dies, another one does
    its cell again.
    """
    left = deque(cells)
    deaths: Counter[int] = Counter()
    workers: dict[Connection, _Worker] = {}
    try:
        while left or workers:
            new = [_Worker(left.popleft()) for _ in range(min(jobs - len(workers), len(left)))]
            for worker in new:
                workers[worker.connection] = worker
                worker.send(plan)
            for connection in wait(list(workers)):
                assert isinstance(connection, Connection)
                worker = workers[connection]
                outcome = worker.outcome()
                if outcome is not None:
                    yield outcome
                    if left:
                        worker.take(left.popleft())
                        continue
                else:
                    cell = worker.cell
                    deaths[cell.number] += 1
                    if deaths[cell.number] < MOST_DEATHS:
                        left.appendleft(cell)
                    else:
                        yield Failed(cell, died(worker.ended()))
                worker.close()
                del workers[connection]
    finally:
        for worker in workers.values():
            worker.stop()


def died(how: str) -> str:
    return f"its worker died {MOST_DEATHS} times: {how}"


class _Worker:
    """A process, and the cell that it works on."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        with _interrupts_ignored():
            self._process.start()
        theirs.close()

    def send(self, plan: bytes) -> None:
        """Sends the plan and the cell."""
        try:
            self.connection.send_bytes(plan)
        except OSError:  # It is dead, as outcome() tells.
            return
        self.take(self.cell)

    def take(self, cell: Cell) -> None:
        self.cell = cell
        try:
            self.connection.send_bytes(msgspec.json.encode(cell))
        except OSError:  # It is dead, as outcome() tells.
            return

    def outcome(self) -> Outcome | None:
        """Returns the outcome of the cell; None if the process is dead."""
        try:
            outcome: Outcome = self.connection.recv()
        except (EOFError, OSError):
            return None
        return outcome

    def ended(self) -> str:
        """Waits for the process, and returns in words how it ended."""
        self._process.join()
        code = self._process.exitcode or 0
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """Lets the process end."""
        self.connection.close()
        self._process.join()

    def stop(self) -> None:
        """Ends the process."""
        self._process.terminate()
        self.close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Lets processes that start now ignore interrupts, which the parent handles."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(connection: Connection) -> None:
    """Computes the cells that the parent sends, until the parent closes the connection or ends."""
    configure_logs(quiet=True)
    try:
        what_ifs = WhatIfs(connection.recv_bytes())
        with progress_reports(of_plugins=True):
            while True:
                cell = msgspec.json.decode(connection.recv_bytes(), type=Cell)
                connection.send(what_ifs.outcome(cell))
    except (EOFError, OSError):
        return
