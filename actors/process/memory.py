"""The memory of the process, and its orderly end shortly before the limit of its container.

The kernel ends a process that exceeds the limit of its control group without a word: bindings under
way are cut off, what the log and the recorder hold is lost, and nobody schedules before the lease
runs out. An end in order releases the lease, so that another replica goes on at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from ..runtime.clock import Clock

EVERY_SECONDS = 1.0
SPARE_SHARE, SPARE_BYTES = 0.05, 32 << 20  # of the limit, and at least, for what the end takes
NO_LIMIT = 1 << 60  # version 1 of control groups writes a number near 2^63 for none
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
STATUS = Path("/proc/self/status")


class MemoryUsedUpError(Exception):
    """The process has nearly all the memory that it may have."""


def limit() -> int:
    """Returns how many bytes the control groups of this process allow it; NO_LIMIT for none, also
    where there are no control groups.
    """
    return min(filter(None, _limits()), default=NO_LIMIT)


def _limits() -> Iterator[int]:
    with suppress(OSError):
        for line in OWN_GROUPS.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                root, name = GROUPS, "memory.max"
            elif "memory" in controllers.split(","):
                root, name = GROUPS / controllers, "memory.limit_in_bytes"
            else:
                continue
            # In a container, the path may be that on the host, where only the root is mounted.
            own = root / path.strip("/")
            for group in (own, *own.parents):
                if group.is_relative_to(root):
                    with suppress(OSError, ValueError):  # no such group; "max"
                        yield min(int((group / name).read_text(encoding="ascii")), NO_LIMIT)


def used() -> int:
    """Returns the bytes of memory of this process that are no copy of a file; 0 where there is no
    /proc.
    """
    with suppress(OSError):
        for line in STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


class Memory:
    """The watch over the memory of the process, which may use so many bytes."""

    def __init__(self, clock: Clock, limit: int, used: Callable[[], int] = used) -> None:
        self._clock = clock
        self._limit = limit
        self._most = limit - max(SPARE_SHARE * limit, SPARE_BYTES)
        self._used = used

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watches until cancelled. Raises MemoryUsedUpError shortly before the limit."""
        task_status.started()
        if self._limit >= NO_LIMIT:
            await anyio.sleep_forever()
        while self._used() < self._most:
            await self._clock.sleep(EVERY_SECONDS)
        mebibytes = f"{self._used() >> 20} MiB of the container's limit of {self._limit >> 20} MiB"
        raise MemoryUsedUpError(f"{mebibytes} are in use: it ends, so that another replica goes on")
