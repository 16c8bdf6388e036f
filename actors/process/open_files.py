"""The limit of open files, which a process raises at its start, as Go programs do."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_limit() -> None:
    """Raises this process's limit of open files to the most that it may have.

    Login shells and systemd set a low one for the sake of `select`, which berth does not use.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS refuses a limit of infinity
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def limit() -> int:
    """Returns how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft
