"""A cluster over HTTP on loopback, in real time, for other programs: in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio

from ..cluster.apiserver.app import serve
from ..cluster.apiserver.faulty_wire import FaultyWire
from ..cluster.apiserver.kubeconfig import kubeconfig
from ..cluster.apiserver.streams.script_files import read_scripts
from ..cluster.faults.vocabulary import Fault
from ..kubernetes.kubelet.scripts.script_rules import Scripts
from .cluster import Cluster, Objects
from .configuration import refuse_text

T = TypeVar("T")
START_SECONDS = 30.0


class ServedCluster:
    """A cluster for the duration of a `with`, with the arguments of Cluster. Other programs reach
    it at `url`, and by the file `kubeconfig`. If a part of it fails, the `with` raises its error.
    `scripts` is a file of what containers log, and what their commands print. Raises ScriptError.
    """

    url: str
    kubeconfig: Path

    def __init__(self, *objects: Objects, scripts: Path | None = None, **arguments: Any) -> None:
        refuse_text(scripts, "None")
        self.cluster = Cluster(*objects, **arguments)
        self._scripts = Scripts(() if scripts is None else read_scripts(scripts))
        self._started: Future[str] = Future()
        self._failure: BaseException | None = None
        self._calls, self._takes_calls = threading.RLock(), False
        self._thread = threading.Thread(target=self._run, name="berth cluster", daemon=True)

    def __enter__(self) -> Self:
        if self._thread.ident is not None:
            raise RuntimeError("a cluster begins once: make another one")
        self._folder = TemporaryDirectory(prefix="berth-")
        self._thread.start()
        try:
            self.url = self._started.result(START_SECONDS)
        except BaseException:
            self._folder.cleanup()
            raise
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"
        self.kubeconfig.write_text(kubeconfig(self.url), encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._folder.cleanup()
        is_cancelled = isinstance(error, CancelledError)  # by the end of the loop
        if self._failure is not None and (error is None or is_cancelled):
            raise self._failure

    def call(self, work: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine of the cluster in its thread, and returns its result:
        `served.call(lambda cluster: cluster.add(pod("web")))`. Raises what it raises; the error of
        a part of the cluster that has failed; RuntimeError outside of the `with`, and in that
        thread, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("this is the cluster's own thread: await its methods instead")
        future = None
        with self._calls:
            if self._takes_calls:
                future = asyncio.run_coroutine_threadsafe(work(self.cluster), self._loop)
        if future is not None:
            return future.result()
        if self._started.done():  # and ended since, or about to
            self._thread.join()
        raise self._failure or RuntimeError("the cluster is not running: use it in `with`")

    def add_faults(self, *faults: Fault) -> None:
        """Puts faults in force, for the parts of the cluster and for the other programs. Raises
        FaultError.
        """

        async def add(cluster: Cluster) -> None:
            cluster.faults.add(*faults)

        self.call(add)

    def report(self) -> str:
        """Returns the cluster in a few lines."""
        return self.call(_report)

    def _run(self) -> None:
        try:
            # not asyncio's: this tells sniffio the library, where it is installed
            anyio.run(self._live)
        except BaseException as error:  # noqa: BLE001 - raised at the start, or else at the end
            if self._started.done():
                self._failure = error
            else:
                self._started.set_exception(error)

    async def _live(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with self.cluster as cluster:
            wire = FaultyWire(cluster.parts.store_faults, self._loop.time)
            async with serve(
                store=cluster.store,
                kubelets=cluster.parts.metrics,
                faults=wire,
                scripts=self._scripts,
            ) as url:
                self._takes_calls = True
                self._started.set_result(url)
                try:
                    await self._end.wait()
                finally:
                    with self._calls:
                        self._takes_calls = False
                    # the calls of until now become tasks, which end with the loop
                    with anyio.CancelScope(shield=True):
                        await asyncio.sleep(0)


async def _report(cluster: Cluster) -> str:
    return cluster.report()
