"""The log of a container over HTTP: what its script has written, and what it adds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from ....kubernetes.api.store import Store
from ....kubernetes.api.types.api_documents import Document, RefusedError
from ....kubernetes.api.types.resources import BY_KIND
from ....kubernetes.kubelet.scripts.container_states import ContainerRun, container_of, run_of_log
from ....kubernetes.kubelet.scripts.log_options import LogOptions
from ....kubernetes.kubelet.scripts.logs import (
    LogLine,
    LogWriter,
    first_lines,
    lines_of,
    new_lines,
    next_time,
)
from ....kubernetes.kubelet.scripts.script_rules import Scripts
from ....kubernetes.kubelet.scripts.small_programs import Surroundings, own_outcome
from ..next_write import next_write

POLL_SECONDS = 0.1  # of a function that makes a log
POD = BY_KIND["v1", "Pod"]


class ContainerLog(msgspec.Struct, frozen=True):
    """The log of a container of a pod, as a request shows it."""

    store: Store
    scripts: Scripts
    pod: Document
    container: str
    options: LogOptions

    def check(self) -> None:
        """Raises RefusedError with 400 if the container has no log yet."""
        run_of_log(self.pod, self.container, previous=self.options.previous)

    async def write_to(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Sends the log. With `follow`, sends what is added until the container ends."""
        run = run_of_log(self.pod, self.container, previous=self.options.previous)
        writer = LogWriter(self.options)
        lines, _ = self._lines(self.pod, run)
        shown, written = first_lines(lines, self.options, self._now())
        if data := writer.bytes_of(shown):
            await send(data)
        if not self.options.follow or self.options.previous:
            return
        read, now_run, polled = self.pod, run, True
        while not writer.is_full:
            now_pod = self._current()
            if now_pod is None:
                return
            if now_pod is not read or polled:  # most writes are of other pods
                current = _current_run(now_pod, self.container)
                if current is None or current.started != run.started:
                    return
                read, now_run = now_pod, current
                lines, polled = self._lines(now_pod, now_run)
            added = new_lines(lines, written, self._now())
            written += len(added)
            if data := writer.bytes_of(added):
                await send(data)
            elif now_run.ended is not None:
                return
            else:
                await self._wait(next_time(lines, written), polled=polled)

    def _lines(self, pod: Document, run: ContainerRun) -> tuple[list[LogLine], bool]:
        """Returns the lines of a run, and if they come from a function."""
        script = self.scripts.logs(pod, self.container, previous=self.options.previous)
        if script == "":
            return self._own_lines(run), False
        if isinstance(script, str):
            return lines_of(script, run), False
        return lines_of(script(pod, self.container, self.options.previous), run), True

    def _own_lines(self, run: ContainerRun) -> list[LogLine]:
        """Returns what the container's own process prints, if that needs no script."""
        started = datetime.fromtimestamp(run.started, UTC)
        spec = container_of(self.pod, self.container)
        does = own_outcome(Surroundings(self.pod, spec, started))
        printed = does.stdout.splitlines() if does is not None else ()
        return [LogLine(run.started, line) for line in printed]

    async def _wait(self, until: float | None, *, polled: bool) -> None:
        """Waits for a write of a pod, the time of a line, or the next look at a function."""
        if polled:
            await asyncio.sleep(POLL_SECONDS)
            return
        seconds = None if until is None else max(until - self._now(), 0.001)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await next_write(self.store, POD)

    def _current(self) -> Document | None:
        metadata = self.pod["metadata"]
        pod = self.store.find(POD, metadata["namespace"], metadata["name"])
        return pod if pod is not None and pod["metadata"]["uid"] == metadata["uid"] else None

    def _now(self) -> float:
        return self.store.outside.wall().timestamp()


def _current_run(pod: Document, container: str) -> ContainerRun | None:
    try:
        return run_of_log(pod, container_of(pod, container)["name"], previous=False)
    except RefusedError:
        return None
