"""Regular files that are read again while the process serves."""

from __future__ import annotations

import errno
from pathlib import Path


def stamp(path: Path) -> tuple[int, ...]:
    """Returns values that change with a file; () if there is none."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def content(path: Path) -> bytes:
    """Returns the content of a regular file. Raises OSError, also for a pipe or a device: their end
    may never come, and health checks would wait for it.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "expected a regular file", str(path))
    return path.read_bytes()
