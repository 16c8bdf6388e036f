"""Runs the what-ifs of a sweep on a Ray cluster. Ray is an extra of the package."""

from __future__ import annotations

import os
import socket
from collections import Counter, deque
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Any

from ...explain.cluster_source import SourceError
from .cell import Failed, Outcome, WhatIfs
from .plan import Cell
from .process_pool import MOST_DEATHS, died

EXTRA = "berth-scheduler[ray]"
CONNECT_SECONDS = 10.0
MOST_SUBMITTED = 1_000  # cells at a time; so many tell an autoscaler what to add


def outcomes(plan: bytes, cells: Sequence[Cell], address: str) -> Generator[Outcome, None, None]:
    """Yields the outcome of each cell as soon as it is known.

    A cell whose worker or machine dies is done again. Without an address, Ray runs on this machine.
    Raises SourceError.
    """
    try:
        import ray
    except ModuleNotFoundError as missing:
        raise SourceError(
            f"--engine ray needs the extra ray: pip install '{EXTRA}' ({missing})"
        ) from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        _check(address)
        ray.init(address=address or None, log_to_driver=False, logging_level="warning")
    except (OSError, ValueError, RuntimeError) as problem:
        raise SourceError(f"--engine-address {address}: {problem}") from None
    try:
        yield from _outcomes(ray, plan, cells)
    finally:
        ray.shutdown()


def _check(address: str) -> None:
    """Raises OSError if nothing listens at the address. Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()


def _outcomes(ray: Any, plan: bytes, cells: Sequence[Cell]) -> Generator[Outcome, None, None]:
    task = ray.remote(num_cpus=1, max_retries=0)(_outcome)
    shared = [ray.put(plan)]  # A worker gets what is in the list once, not with each task.
    left = deque(cells)
    deaths: Counter[int] = Counter()
    submitted: dict[Any, Cell] = {}
    while left or submitted:
        while left and len(submitted) < MOST_SUBMITTED:
            cell = left.popleft()
            submitted[task.remote(shared, cell)] = cell
        ready, _ = ray.wait(list(submitted))
        for reference in ready:
            cell = submitted.pop(reference)
            try:
                yield ray.get(reference)
            except ray.exceptions.RayError as problem:
                deaths[cell.number] += 1
                if deaths[cell.number] < MOST_DEATHS:
                    left.appendleft(cell)
                else:
                    yield Failed(cell, died(str(problem).strip().rpartition("\n")[2]))


def _outcome(shared: list[Any], cell: Cell) -> Outcome:
    return _what_ifs(shared[0]).outcome(cell)


@lru_cache(maxsize=1)
def _what_ifs(plan: Any) -> WhatIfs:
    """Returns the what-ifs of a plan, which this worker gets from the cluster the first time."""
    import ray

    return WhatIfs(ray.get(plan))
