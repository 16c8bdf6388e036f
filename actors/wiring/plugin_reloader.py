"""The reloader of plugins: takes the changed file of a `--plugin` into use, between two pods.

A file that cannot be imported, or whose plugin cannot be made, changes nothing: the class of before
stays in use, and the log has the reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from ..configuration.plugin_files import files_offered, loaded_again
from ..runtime.clock import Clock
from ..scheduling.decision.registry import RegistryError
from ..scheduling.framework.logger import get_logger

log = get_logger(__name__)

LOOK_SECONDS = 0.5


class PluginReloader:
    """A follower of the files of plugins, which calls `swap` once a new class is offered."""

    def __init__(self, swap: Callable[[], Awaitable[object]], clock: Clock) -> None:
        self._swap = swap
        self._clock = clock
        self._seen = {text: _content(file) for text, file in files_offered().items()}

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for text, file in files_offered().items():
                content = _content(file)
                if content is not None and content != self._seen.get(text):
                    self._seen[text] = content
                    await self._reload(text, file)

    async def _reload(self, text: str, file: Path) -> None:
        problem = ""
        try:
            with loaded_again(text):
                await self._swap()
        except RegistryError as invalid:
            problem = str(invalid)
        if problem:
            log.error("plugin not reloaded", file=str(file), error=problem)
        else:
            log.info("plugin reloaded", file=str(file))


def _content(file: Path) -> bytes | None:
    """Returns the content of a file; None if it cannot be read, as while an editor replaces it."""
    try:
        return file.read_bytes()
    except OSError:
        return None
