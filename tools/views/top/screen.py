"""The screen of `berth top`, which shows the log of the process as news."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from io import TextIOBase

import anyio

from berth.actors.telemetry.logs import configure_logs

from .app import Top
from .cluster_model import ClusterModel
from .view_source import ViewSource

END_SECONDS = 5.0


class NewsWriter(TextIOBase):
    """A stream whose lines become news of a cluster."""

    def __init__(self, cluster: ClusterModel, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now

    def write(self, text: str) -> int:
        for line in text.splitlines():
            self._cluster.tell(line, self._now())
        return len(text)


async def look(watched: ViewSource, notes: Sequence[str] = ()) -> str:
    """Shows a cluster until the user quits. If there was never a connection, returns the reason,
    otherwise "".

    The log of the process is shown as news, because it would write over the screen.
    """
    cluster = ClusterModel()
    top = Top(watched, cluster, notes)
    try:
        with redirect_stderr(NewsWriter(cluster, time.time)):
            configure_logs(quiet=True)
            await _run(top)
    finally:
        configure_logs(quiet=True)
    return top.problem


async def _run(top: Top) -> None:
    """Runs the application until its user quits. Cancellation ends it in the same way, so that the
    terminal is restored.
    """
    running = anyio.CancelScope(shield=True)

    async def exit_if_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            running.deadline = anyio.current_time() + END_SECONDS
            top.exit()

    async with anyio.create_task_group() as group:
        group.start_soon(exit_if_cancelled)
        with running:
            await top.run_async()
        group.cancel_scope.cancel()
