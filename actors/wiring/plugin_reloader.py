"""The reloader of plugins: takes the changed file of a `--plugin`, or of a module that it imports
from beside it, into use between two pods.

A file that cannot be imported, or whose plugin cannot be made, changes nothing: the class of before
stays in use, and the log has the reason. What it imports is not known then, so it is tried again
when any module beside it changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from ..configuration.plugin_files import files_behind, files_offered, loaded_again
from ..runtime.clock import Clock
from ..scheduling.decision.registry import RegistryError
from ..scheduling.framework.logger import get_logger

log = get_logger(__name__)

LOOK_SECONDS = 0.5


class PluginReloader:
    """A follower of the files of plugins and of the modules beside them that they import, which
    calls `swap` once a new class is offered.

    `problem` is why a present file is not in use, "" if all are.
    """

    def __init__(self, swap: Callable[[], Awaitable[object]], clock: Clock) -> None:
        self._swap = swap
        self._clock = clock
        self._problems: dict[str, str] = {}  # by FILE:CLASS
        self._missing: set[str] = set()  # whose file could not be read at the last look
        self._seen = {text: self._content(text, file) for text, file in files_offered().items()}

    @property
    def problem(self) -> str:
        return next(iter(self._problems.values()), "")

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for text, file in files_offered().items():
                content = self._content(text, file)
                is_gone = content is None
                # An editor that replaces a file leaves none for a moment.
                if content == self._seen.get(text) or (is_gone and text not in self._missing):
                    (self._missing.add if is_gone else self._missing.discard)(text)
                    continue
                await self._reload(text, file)
                self._seen[text] = self._content(text, file)  # with the modules that it imports now

    async def _reload(self, text: str, file: Path) -> None:
        self._problems.pop(text, None)
        problem = ""
        try:
            with loaded_again(text):
                await self._swap()
        except RegistryError as invalid:
            problem = str(invalid)
        if problem:
            self._problems[text] = f"{file} is not in use: {problem}"
            log.error("plugin not reloaded", file=str(file), error=problem)
        else:
            log.info("plugin reloaded", file=str(file))

    def _content(self, text: str, file: Path) -> dict[Path, bytes] | None:
        """Returns the content of a file and of those that it imports, or if it is not in use of all
        that it may import; None if it cannot be read.
        """
        beside = sorted(file.parent.glob("*.py")) if text in self._problems else ()
        contents: dict[Path, bytes] = {}
        for each in dict.fromkeys((*files_behind(file), *beside)):
            with suppress(OSError):
                contents[each] = each.read_bytes() if each.is_file() else b""  # such as a pipe
        return contents if contents.get(file) else None  # nor is one that is being written
