"""The handle of plugins while an answer is computed: nothing is written, and no object changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import TypeVar, cast

from berth.actors.binding.state import PodsInBinding
from berth.actors.client.objects import ApiObjects
from berth.actors.client.rest import ConnectionFailedError
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.framework.handle import ObjectKey
from berth.actors.scheduling.framework.measuring import NO_MEASURES
from berth.actors.scheduling.framework.status import Status
from berth.actors.scheduling.kube.meta import HasMetadata
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
        return cast("Iterable[T]", self._held.get(kind, {}).values())

    def assume(self, item: HasMetadata) -> None:
        """Does nothing: no decision follows."""

    def restore(self, item: HasMetadata) -> None:
        """Does nothing: no object was assumed."""

    async def wait_for(
        self, check: Callable[[], Status | Sequence[ObjectKey]], seconds: float
    ) -> Status | None:
        status = check()
        return status if isinstance(status, Status) else None


class ReadOnlyHandle:
    """The handle of plugins that decide for an answer.

    `passed` is added to the clock, in seconds: the answer does not wait between decisions, and in
    that time plugins would earn steps for long searches.
    """

    measures = NO_MEASURES
    wall = staticmethod(partial(datetime.now, UTC))

    def __init__(
        self, feature_gates: Mapping[str, bool] = DEFAULTS, objects: HeldObjects | None = None
    ) -> None:
        self.feature_gates = feature_gates
        self.passed = 0.0
        self.api = ApiObjects(_NoCalls(), SystemClock(), Random())
        self.objects = HeldObjects() if objects is None else objects
        self.waiting = PodsInBinding()

    def now(self) -> float:
        return time.monotonic() + self.passed
