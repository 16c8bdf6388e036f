"""The memory limit of the process that answers what-ifs."""

from __future__ import annotations

import resource
from pathlib import Path

PROCESS = Path("/proc/self")
MARGIN = 32 << 20  # bytes in which a question is given up in order, and the answer is made


def data_bytes(process: Path = PROCESS) -> int:
    """Returns the bytes of a process that RLIMIT_DATA limits."""
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:"))


def check_memory() -> None:
    """Raises MemoryError if the limit is near. At the limit itself, the interpreter may fail."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit != resource.RLIM_INFINITY and PROCESS.is_dir() and data_bytes() > limit - MARGIN:
        raise MemoryError
