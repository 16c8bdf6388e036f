"""The reloader: reads the configuration file again, and swaps the profiles.

It reads at SIGHUP, and when the content of the file has changed. It looks at the content and not at
the file, because a ConfigMap changes by a swapped symbolic link. A file with a problem changes
nothing, and a pipe or a device is not read again. Fields that only a restart can change are named
in the log and kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import TaskStatus

from berth.config.load import ConfigError
from berth.config.types import KubeSchedulerConfiguration

from ..configuration.file import ConfigurationFile, warnings_of
from ..configuration.plugin_packages import changed_since
from ..process.signals import RELOAD, each_signal
from ..runtime.clock import Clock
from ..scheduling.decision.registry import RegistryError
from ..scheduling.framework.logger import get_logger
from .swap import SwapResult

log = get_logger(__name__)

LOOK_SECONDS = 5.0
IRREGULAR = "expected a regular file: a pipe or a device is read only at the start"


class Reloader:
    """A follower of the configuration file, which calls `swap` with each new configuration.

    Without a file, it only logs at SIGHUP that there is none. `problem` is why the present content
    of the file is not in use, "" if it is.
    """

    def __init__(
        self,
        file: ConfigurationFile | None,
        swap: Callable[[KubeSchedulerConfiguration], Awaitable[SwapResult]],
        clock: Clock,
    ) -> None:
        self._file = file
        self._swap = swap
        self._clock = clock
        self._started = clock.wall().timestamp()
        self._seen: bytes | str = b""  # the content, or why it cannot be read
        self.problem = ""
        self._lock = anyio.Lock()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            await group.start(each_signal, RELOAD, self._reload_on_signal)
            task_status.started()
            file = self._file
            if file is None:
                return
            self._seen = file.parsed or await self._look(file)
            while True:
                await self._clock.sleep(LOOK_SECONDS)
                if await self._look(file) not in (self._seen, IRREGULAR):
                    await self._reload(file)

    async def _reload_on_signal(self) -> None:
        if self._file is None:
            log.warning("configuration not reloaded", error="there is no configuration file")
        else:
            await self._reload(self._file)

    @staticmethod
    async def _look(file: ConfigurationFile) -> bytes | str:
        try:
            content = await file.read_again()
        except ConfigError as problem:
            return str(problem)
        return IRREGULAR if content is None else content

    async def _reload(self, file: ConfigurationFile) -> None:
        async with self._lock:
            self._seen = content = await self._look(file)
            problem = content if isinstance(content, str) else await self._swap_to(file, content)
            unused = problem not in ("", IRREGULAR)
            self.problem = f"{file.path} is not in use: {problem}" if unused else ""
        if problem:
            log.error("configuration not reloaded", file=file.path, error=problem)
        with suppress(OSError):  # such as too many open files
            for line in changed_since(self._started):
                log.warning("configuration", file=file.path, warning=line)

    async def _swap_to(self, file: ConfigurationFile, content: bytes) -> str:
        """Swaps to the profiles of this content. Returns why that is impossible, or ""."""
        try:
            swapped = await self._swap(file.parse(content))
        except (ConfigError, RegistryError) as problem:
            return str(problem)
        configuration = swapped.configuration
        names = {
            "profiles": [profile.scheduler_name for profile in configuration.profiles],
            "changed": sorted(swapped.changed),
            "added": sorted(swapped.added),
            "gone": sorted(swapped.gone),
            "until_restart": swapped.until_restart,
        }
        for warning in warnings_of(configuration, content):
            log.warning("configuration", file=file.path, warning=warning)
        fields = {field: ",".join(values) for field, values in names.items() if values}
        log.info("configuration reloaded", file=file.path, **fields)
        return ""
