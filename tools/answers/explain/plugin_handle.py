"""The handle of plugins while an answer is computed: nothing is written, and no object changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from random import Random
from typing import Any, TypeVar, cast

from berth.actors.binding.state import PodsInBinding
from berth.actors.client.objects import ApiObjects
from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import SYSTEM_CLOCK, Connection, ConnectionFailedError
from berth.actors.informer.listers import selected
from berth.actors.runtime.clock import Clock, SystemClock
from berth.actors.scheduling.framework.handle import (
    NO_LABELS,
    Handle,
    ObjectKey,
    Objects,
    OwnMetrics,
)
from berth.actors.scheduling.framework.handle_values import (
    check_assumed,
    checked_note,
    key_of,
    uid_of,
)
from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.scheduling.framework.measuring import NO_MEASURES
from berth.actors.scheduling.framework.status import Code, NotFound, Status
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.kinds import WatchedKind, type_of
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.telemetry.measures import Registry
from berth.actors.telemetry.plugin_metrics import PluginMetrics
from berth.config.feature_gates import DEFAULTS

T = TypeVar("T", bound=HasMetadata)
A = TypeVar("A")


class _NoCalls:
    async def call(
        self,
        method: str,
        path: str,
        answer: type[A],
        body: object | None = None,
        content_type: str = "",
    ) -> A:
        raise ConnectionFailedError("nothing is requested here")

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        raise ConnectionFailedError("nothing is bound here")

    async def patch(self, path: str, body: object, answer: type[A], kind: str = "") -> A:
        raise ConnectionFailedError("nothing is written here")


class HeldObjects:
    """The objects of a cluster, in which nothing else changes."""

    def __init__(self) -> None:
        self._held: dict[type[HasMetadata], dict[tuple[str, str], HasMetadata]] = {}

    def clear(self) -> None:
        self._held.clear()

    def hold(self, items: Iterable[HasMetadata]) -> None:
        for item in items:
            place = item.metadata.namespace, item.metadata.name
            self._held.setdefault(type(item), {})[place] = item

    def drop(self, item: HasMetadata) -> None:
        self._held[type(item)].pop((item.metadata.namespace, item.metadata.name), None)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        return cast("T | None", self._held.get(kind, {}).get((namespace, name)))

    def every(self, kind: type[T]) -> Iterable[T]:
        return cast("tuple[T, ...]", tuple(self._held.get(kind, {}).values()))

    def select(
        self, kind: type[T], namespace: str = "", labels: Mapping[str, str] = NO_LABELS
    ) -> Sequence[T]:
        return selected(self.every(kind), namespace, labels)

    def assume(self, item: HasMetadata) -> None:
        """Does nothing more: no decision follows."""
        check_assumed(item)

    def restore(self, item: HasMetadata) -> None:
        """Does nothing more: no object was assumed."""
        check_assumed(item)

    async def wait_for(
        self, check: Callable[[], Status | Sequence[ObjectKey]], seconds: float
    ) -> Status | None:
        status = check()
        return status if isinstance(status, Status) else None


class HeldApi(ApiObjects):
    """Requests that read the held objects, or of other kinds those of a live cluster. Nothing is
    written.
    """

    def __init__(self, objects: Objects) -> None:
        super().__init__(_NoCalls(), SystemClock(), Random())
        self._objects = objects
        self._live: ApiObjects | None = None

    def reads_from(self, connection: Connection) -> None:
        """Reads the kinds that plugins do not look up from a live cluster."""
        self._live = ApiObjects(_LiveReads(connection), SystemClock(), Random())

    def with_rate(self, qps: float, burst: int) -> HeldApi:
        return self

    async def get(self, kind: type[T] | WatchedKind, name: str, namespace: str = "") -> T | Status:
        if not self._holds(kind) and self._live is not None:
            return await self._live.get(kind, name, namespace)
        if not self._holds(kind):
            return await super().get(kind, name, namespace)
        item: Any = self._objects.get(type_of(kind), name, namespace)
        return NotFound(Code.ERROR, (f'"{name}" not found',)) if item is None else item

    async def list(
        self,
        kind: type[T] | WatchedKind,
        namespace: str = "",
        labels: Mapping[str, str] = NO_LABELS,
    ) -> tuple[T, ...] | Status:
        if not self._holds(kind) and self._live is not None:
            return await self._live.list(kind, namespace, labels)
        if not self._holds(kind):
            return await super().list(kind, namespace, labels)
        held: Any = self._objects.select(type_of(kind), namespace, labels)
        return tuple(held)

    def _holds(self, kind: type[HasMetadata] | WatchedKind) -> bool:
        return self.kind_of(type_of(kind)) is not None


class _LiveReads(_NoCalls):
    """The reads of a live cluster, each by a connection of its own: there are few."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def call(
        self,
        method: str,
        path: str,
        answer: type[A],
        body: object | None = None,
        content_type: str = "",
    ) -> A:
        async with ReadOnlyClient(self._connection) as client:
            return await client.call(method, path, answer, body)


class _Passed:
    seconds = 0.0


class ReadOnlyHandle:
    """The handle of plugins that decide for an answer.

    `passed` is added to the clock, in seconds: the answer does not wait between decisions, and in
    that time plugins would earn steps for long searches. What plugins log is shown; their events,
    activations and metrics go nowhere.
    """

    measures = NO_MEASURES
    plugin = ""
    log = get_logger(__name__)

    def __init__(
        self,
        feature_gates: Mapping[str, bool] = DEFAULTS,
        objects: Objects | None = None,
        clock: Clock = SYSTEM_CLOCK,
        api: ApiObjects | None = None,
    ) -> None:
        self.feature_gates = feature_gates
        self._clock = clock
        self._passed = _Passed()
        self._metrics = PluginMetrics(Registry())
        self.objects: Objects = HeldObjects() if objects is None else objects
        self.api = HeldApi(self.objects) if api is None else api
        self.waiting = PodsInBinding()

    @property
    def passed(self) -> float:
        return self._passed.seconds

    @passed.setter
    def passed(self, seconds: float) -> None:
        self._passed.seconds = seconds

    def for_plugin(self, name: str, module: str) -> Handle:
        handle = copy(self)
        handle.plugin, handle.log = name, get_logger(module).bind(plugin=name)
        return handle

    @property
    def metrics(self) -> OwnMetrics:
        return self._metrics.of(self.plugin)

    def now(self) -> float:
        return self._clock.now() + self.passed

    def wall(self) -> datetime:
        return self._clock.wall()

    def event(
        self,
        about: PodInfo | HasMetadata,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        action: str = "Scheduling",
    ) -> None:
        checked_note(reason, action, note)

    def activate(self, *pods: PodInfo | Pod | str) -> None:
        for pod in pods:
            key_of(pod)

    def allow(self, pod: PodInfo | Pod) -> bool:
        return self.waiting.allow(uid_of(pod), self.plugin)

    def reject(self, pod: PodInfo | Pod, reason: str) -> bool:
        return self.waiting.reject(uid_of(pod), self.plugin, reason)
