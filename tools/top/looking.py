"""The view, with what its process logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from io import TextIOBase

from berth.actors.telemetry.logs import configure_logs

from .app import Top
from .model import Cluster
from .watched import Watched


class NewsWriter(TextIOBase):
    """A stream whose lines become news of a cluster."""

    def __init__(self, cluster: Cluster, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self._cluster.tell(line, self._now())
        return len(text)


async def look(watched: Watched, notes: Sequence[str] = ()) -> str:
    """Shows a cluster until the user quits. If there was never a connection, returns the reason,
    otherwise "".

    The log of the process is shown as news, because it would write over the screen.
    """
    cluster = Cluster()
    top = Top(watched, cluster, notes)
    try:
        with redirect_stderr(NewsWriter(cluster, time.time)):
            configure_logs(quiet=True)
            await top.run_async()
    finally:
        configure_logs(quiet=True)
    return top.problem
