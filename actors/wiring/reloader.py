"""The reloader: reads the configuration file again, and has the profiles swapped.

It reads at SIGHUP, and when the content of the file has changed; a ConfigMap changes by a swapped
symbolic link, so the content is looked at and not the file. A file with a problem changes nothing.
What only a restart can change is named in the log and kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import anyio
import msgspec
from anyio.abc import TaskStatus

from berth.config.extenders import without_ignored_resources
from berth.config.load import ConfigError
from berth.config.types import (
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
)

from ..configuration.file import ConfigurationFile
from ..process.signals import RELOAD, each_signal
from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from ..runtime.logger import get_logger
from ..runtime.supervisor import Child, Supervisor
from ..scheduling.decision.registry import RegistryError

log = get_logger(__name__)

LOOK_SECONDS = 5.0
# The fields that are swapped with the profiles.
LIVE = (
    "profiles",
    "percentage_of_nodes_to_score",
    "pod_initial_backoff_seconds",
    "pod_max_backoff_seconds",
)


class Swapped(msgspec.Struct, frozen=True):
    """The scheduler names whose profiles a swap changed, took away and added."""

    changed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()


def effective(configuration: KubeSchedulerConfiguration) -> Mapping[str, KubeSchedulerProfile]:
    """The profiles by scheduler name, with what they have from the rest of the configuration."""
    whole = without_ignored_resources(configuration)
    return {
        profile.scheduler_name: msgspec.structs.replace(
            profile,
            percentage_of_nodes_to_score=(
                whole.percentage_of_nodes_to_score
                if profile.percentage_of_nodes_to_score is None
                else profile.percentage_of_nodes_to_score
            ),
        )
        for profile in whole.profiles
    }


def with_live_fields(
    running: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> tuple[KubeSchedulerConfiguration, tuple[str, ...]]:
    """The running configuration with the fields of the new one that can be swapped, and the names
    of the other fields that differ.
    """
    live = {name: getattr(new, name) for name in LIVE}
    kept = tuple(
        field.encode_name
        for field in msgspec.structs.fields(running)
        if field.name not in live and getattr(running, field.name) != getattr(new, field.name)
    )
    return msgspec.structs.replace(running, **live), kept


class Reloader:
    """`running` returns the configuration in use, and `swap` changes it. Without a file, it only
    says at SIGHUP that there is none.
    """

    def __init__(
        self,
        file: ConfigurationFile | None,
        running: Callable[[], KubeSchedulerConfiguration],
        swap: Callable[[KubeSchedulerConfiguration], Awaitable[Swapped]],
        clock: Clock,
    ) -> None:
        self._file = file
        self._running = running
        self._swap = swap
        self._clock = clock
        self._seen: bytes | str = b""  # the content, or why it cannot be read
        self._lock = anyio.Lock()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            await group.start(each_signal, RELOAD, self._asked)
            task_status.started()
            file = self._file
            if file is None:
                return
            self._seen = file.parsed or self._look(file)
            while True:
                await self._clock.sleep(LOOK_SECONDS)
                if self._look(file) != self._seen:
                    await self._reload(file)

    async def _asked(self) -> None:
        if self._file is None:
            log.warning("configuration not reloaded", error="there is no configuration file")
        else:
            await self._reload(self._file)

    @staticmethod
    def _look(file: ConfigurationFile) -> bytes | str:
        try:
            return file.read()
        except ConfigError as problem:
            return str(problem)

    async def _reload(self, file: ConfigurationFile) -> None:
        async with self._lock:
            self._seen = found = self._look(file)
            problem = found if isinstance(found, str) else await self._use(file, found)
        if problem:
            log.error("configuration not reloaded", file=file.path, error=problem)

    async def _use(self, file: ConfigurationFile, content: bytes) -> str:
        """Go on with the profiles of this content; returns why that is impossible, or ""."""
        try:
            new, kept = with_live_fields(self._running(), file.parse(content))
            swapped = await self._swap(new)
        except (ConfigError, RegistryError) as problem:
            return str(problem)
        names = {
            "profiles": [profile.scheduler_name for profile in new.profiles],
            "changed": sorted(swapped.changed),
            "added": sorted(swapped.added),
            "gone": sorted(swapped.gone),
            "until_restart": kept,
        }
        for warning in file.warnings(new):
            log.warning("configuration", file=file.path, warning=warning)
        given = {name: ",".join(found) for name, found in names.items() if found}
        log.info("configuration reloaded", file=file.path, **given)
        return ""


class Extra:
    """Runs children that are found to be needed while the others run."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._wanted: list[tuple[tuple[Child, ...], anyio.Event]] = []
        self._asked = anyio.Event()

    async def start(self, children: tuple[Child, ...]) -> None:
        """Returns once the children have started."""
        if not children:
            return
        started = anyio.Event()
        self._wanted.append((children, started))
        self._asked.set()
        await started.wait()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async with anyio.create_task_group() as group:
            task_status.started()
            while True:
                await self._asked.wait()
                self._asked = anyio.Event()
                wanted, self._wanted = self._wanted, []
                for children, started in wanted:
                    group.start_soon(self._run, children, started)

    async def _run(self, children: tuple[Child, ...], started: anyio.Event) -> None:
        async with anyio.create_task_group() as group:
            await group.start(Supervisor(children, self._clock, self._rng).run)
            started.set()
