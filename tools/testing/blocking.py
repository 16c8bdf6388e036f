"""A cluster for tests without asyncio: its methods return when they are done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from ..cluster.faults.faults_in_force import Faults
from .cluster import Cluster, Objects, Seconds
from .pods import Pods
from .recorded_calls import PluginCall
from .virtual_time import refuse_running_loop, virtual_loop

T = TypeVar("T")
Document = dict[str, Any]


class BlockingCluster:
    """A cluster for the duration of a `with`, in virtual time, which stands still between calls.

    It has the arguments of Cluster. `cluster` is that cluster, whose answers need no loop.
    """

    def __init__(self, *objects: Objects, **arguments: Any) -> None:
        self.cluster = Cluster(*objects, **arguments)
        self._runner = asyncio.Runner(loop_factory=virtual_loop)
        self._life: asyncio.Task[None] | None = None  # while the cluster lives, and after

    def __enter__(self) -> Self:
        refuse_running_loop("a BlockingCluster")
        if self._life is not None:
            raise RuntimeError("a cluster begins once: make another one")
        self._runner.__enter__()
        loop = self._runner.get_loop()
        self._end, started = asyncio.Event(), loop.create_future()
        self._life = loop.create_task(self._live(started))
        try:
            self.run(_of(started))
        except BaseException:
            self._runner.close()
            raise
        return self

    async def _live(self, started: asyncio.Future[None]) -> None:
        try:
            async with self.cluster:
                started.set_result(None)
                await self._end.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
                return
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._life is not None
        self._end.set()
        try:
            self._runner.run(_of(self._life))
        finally:
            self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the cluster until the work is done, or a part of the cluster has failed. Returns
        what the work returns, and raises what it raises; RuntimeError outside of the `with`, and
        inside of another loop.
        """
        life = self._life
        if life is None or life.done():
            work.close()
            raise RuntimeError(f"the cluster has {'not begun' if life is None else 'ended'}")

        async def first() -> T:
            task = asyncio.create_task(work)
            try:
                await asyncio.wait((task, life), return_when=asyncio.FIRST_COMPLETED)
            finally:
                task.cancel()  # if it is not done: it must not go on in the next call
            if task.done():
                return task.result()
            await life
            raise RuntimeError("the cluster has ended")

        return self._runner.run(first())

    def add(self, *objects: Objects) -> None:
        """Creates objects, as Cluster.add."""
        self.run(self.cluster.add(*objects))

    def patch(
        self,
        kind: str,
        name: str,
        body: Document,
        namespace: str = "default",
        subresource: str = "",
    ) -> Document:
        """Applies a strategic merge patch, and returns the object."""
        return self.run(self.cluster.patch(kind, name, body, namespace, subresource))

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Deletes an object as kubectl does."""
        self.run(self.cluster.delete(kind, name, namespace))

    def scale(self, kind: str, name: str, replicas: int, namespace: str = "default") -> Document:
        """Sets the replicas of a workload."""
        return self.run(self.cluster.scale(kind, name, replicas, namespace))

    def evict(self, name: str, namespace: str = "default") -> None:
        """Evicts a pod as a drain does."""
        self.run(self.cluster.evict(name, namespace))

    def run_for(self, time: Seconds) -> None:
        """Lets this time pass."""
        self.run(self.cluster.run_for(time))

    def until(self, condition: Callable[[], object], limit: Seconds = "10m") -> None:
        """Runs until a condition holds. Raises NotReachedError after the limit."""
        self.run(self.cluster.until(condition, limit))

    def settled(self, limit: Seconds = "1h", still: Seconds | None = None) -> None:
        """Runs until nothing is left to do. Raises NotReachedError after the limit."""
        self.run(self.cluster.settled(limit, still))

    def get(self, kind: str, name: str, namespace: str = "default") -> Document:
        """Returns an object, which must not be changed. Raises LookupError without it."""
        return self.cluster.get(kind, name, namespace)

    def all(self, kind: str, namespace: str = "") -> list[Document]:
        """Returns the objects of a kind, by default of all namespaces; not to be changed."""
        return self.cluster.all(kind, namespace)

    @property
    def now(self) -> float:
        """The seconds since the cluster began."""
        return self.cluster.now

    @property
    def faults(self) -> Faults:
        """The faults in force between the cluster's parts and its API server."""
        return self.cluster.faults

    def pod(self, name: str, namespace: str = "default") -> Pods:
        """Returns the pod of this name, or else the pods of the workload of this name."""
        return self.cluster.pod(name, namespace)

    def pods(self, namespace: str = "default", **labels: str) -> Pods:
        """Returns the pods of a namespace with these labels."""
        return self.cluster.pods(namespace, **labels)

    def devices_of(self, name: str, namespace: str = "default") -> list[str]:
        """Returns the devices that the claims of a pod were given, as pool/device."""
        return self.cluster.devices_of(name, namespace)

    def events(self, reason: str = "") -> list[str]:
        """Returns the events, oldest first."""
        return self.cluster.events(reason)

    def calls(self, plugin: str, method: str) -> list[PluginCall]:
        """Returns the calls of a method of a plugin that this cluster was given, oldest first."""
        return self.cluster.calls(plugin, method)

    def report(self) -> str:
        """Returns the cluster in a few lines."""
        return self.cluster.report()


async def _of(future: asyncio.Future[T]) -> T:
    return await future
