"""The handle: a plugin's access to the scheduler, and the scope of its tasks.

Protocols alone: the scheduler, explanations and tests each implement them. Mirrors the framework's
Handle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import msgspec

from ..kube.core import Pod
from ..kube.kinds import WatchedKind
from ..kube.meta import HasMetadata
from ..model.pod_info import PodInfo
from .logger import Logger
from .measuring import PluginMeasures
from .status import Status

T = TypeVar("T", bound=HasMetadata)
# The kind, the namespace ("" for an object without one) and the name of an object.
ObjectKey = tuple[type[HasMetadata], str, str]
NO_LABELS: Mapping[str, str] = MappingProxyType({})


class PluginScope(Protocol):
    """The tasks of a plugin, from its `start` to its `close`.

    A task ends with the scheduler at the latest. With `leading`, it runs only while this process
    holds the lease. If it raises, the log names the plugin, and the scheduler goes on.
    """

    def run(self, work: Callable[[], Awaitable[object]], *, leading: bool = False) -> None:
        """Runs a task until it returns. If it raises, it is called again after a backoff."""
        ...

    def every(
        self, seconds: float, work: Callable[[], Awaitable[object] | None], *, leading: bool = False
    ) -> None:
        """Calls a function now, and again so many seconds after each of its ends."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Waits by the scheduler's clock, which in a test may be virtual."""
        ...


class ApiHandle(Protocol):
    """Requests to the API server, for PreBind, Bind and the plugin's tasks.

    `kind` is the type of a kind that a plugin can look up, or any other kind as a WatchedKind. A
    refusal, or a missing answer, is a Status with code ERROR. Without the lease, nothing is
    written. Requests count for the rate of the scheduler's client.
    """

    def with_rate(self, qps: float, burst: int) -> ApiHandle:
        """Returns a handle whose requests have a rate of their own, and do not count for that of
        the scheduler's client.
        """
        ...

    def list(
        self,
        kind: type[T] | WatchedKind,
        namespace: str = "",
        labels: Mapping[str, str] = NO_LABELS,
    ) -> Awaitable[tuple[T, ...] | Status]:
        """Returns the objects of a namespace, "" for all, that have these labels. Objects that
        cannot be read are left out.
        """
        ...

    def bind(self, namespace: str, name: str, uid: str, node: str) -> Awaitable[Status]:
        """Binds a pod to a node."""
        ...

    def get(
        self, kind: type[T] | WatchedKind, name: str, namespace: str = ""
    ) -> Awaitable[T | Status]:
        """Returns the object; NotFound if there is none, or another status if the request fails."""
        ...

    def create(
        self, kind: type[T] | WatchedKind, body: Mapping[str, Any], namespace: str = ""
    ) -> Awaitable[T | Status]:
        """Creates an object; `body` is the object in JSON, which needs no apiVersion and kind."""
        ...

    def delete(
        self, kind: type[HasMetadata] | WatchedKind, name: str, namespace: str = "", uid: str = ""
    ) -> Awaitable[Status]:
        """Deletes an object; with `uid`, only if the object still has this uid."""
        ...

    def evict(self, name: str, namespace: str, uid: str = "") -> Awaitable[Status]:
        """Evicts a pod, unless a PodDisruptionBudget forbids it; with `uid`, only if the pod still
        has this uid.
        """
        ...

    def update(
        self,
        kind: type[T] | WatchedKind,
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
    ) -> Awaitable[T | Status]:
        """Replaces an object, or its `subresource`, such as "status", with the whole `body`."""
        ...

    def patch(
        self,
        kind: type[T] | WatchedKind,
        name: str,
        changes: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
    ) -> Awaitable[T | Status]:
        """Sends a JSON merge patch. With a metadata.resourceVersion it is refused if the object has
        changed since. It keeps fields that berth does not read; `update` deletes them.
        """
        ...


class Objects(Protocol):
    """The objects of the kinds in the plugin's `lookups`, nodes and pods, as the API server last
    sent them.

    It is for PreEnqueue, hints, Reserve and PreBind. A decision reads `snapshot.objects` instead,
    which does not change meanwhile and has the assumed objects. Look-ups raise UnlistedError for a
    kind that the API server has not listed.
    """

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None: ...

    def every(self, kind: type[T]) -> Iterable[T]:
        """Returns all objects of a kind, as they are now."""
        ...

    def select(
        self, kind: type[T], namespace: str = "", labels: Mapping[str, str] = NO_LABELS
    ) -> Sequence[T]:
        """Returns the objects of a namespace, "" for all, that have these labels. It looks at the
        objects with the first of these labels; without labels, at every object of the kind.
        """
        ...

    def assume(self, item: HasMetadata) -> None:
        """Makes `snapshot.objects` show this version of an object from the next decision on, until
        the API server has a newer one.

        It is ignored if the API server has a newer version already. An object of a kind that only
        the scheduler has exists until `restore`.
        """
        ...

    def restore(self, item: HasMetadata) -> None:
        """Ends the assumption of an object, if it is of this version."""
        ...

    def wait_for(
        self, check: Callable[[], Status | Sequence[ObjectKey]], seconds: float
    ) -> Awaitable[Status | None]:
        """Returns the first status that `check` returns; None if it returns none within these
        seconds.

        `check` is called now. As long as it returns the keys of objects, it is called again after
        each change of one of them.
        """
        ...


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod that is reserved on a node and waits until Permit plugins allow it."""

    info: PodInfo
    node: str
    plugins: tuple[str, ...]


class WaitingPods(Protocol):
    """The pods that wait on Permit. If a Permit plugin makes a pod wait, the pod is here before
    Permit runs for the next pod.

    An answer is final: a pod that was allowed or rejected here cannot be decided again.
    """

    def each(self) -> tuple[WaitingPod, ...]:
        """Returns the waiting pods, in the order in which they began to wait."""
        ...

    def get(self, uid: str) -> WaitingPod | None: ...

    def allow(self, uid: str, plugin: str) -> bool:
        """Allows a pod on behalf of `plugin`; True if no other plugin holds the pod up."""
        ...

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """Rejects a waiting pod as unschedulable by `plugin`; False if the pod does not wait."""
        ...

    def preempt(self, uid: str, plugin: str, reason: str) -> bool:
        """Stops a pod that waits or is in PreBind, so that it is tried again; returns False if the
        pod must be deleted instead.
        """
        ...


class PluginCounter(Protocol):
    def inc(self, *labels: str, by: float = 1) -> None:
        """Adds to the number with these label values."""
        ...


class PluginGauge(Protocol):
    def set(self, value: float, *labels: str) -> None: ...

    def inc(self, *labels: str, by: float = 1) -> None: ...


class PluginHistogram(Protocol):
    def observe(self, value: float, *labels: str) -> None: ...


class OwnMetrics(Protocol):
    """The metrics of a plugin, which /metrics shows beside the scheduler's.

    The plugin chooses the names, with its own prefix. Asked for again, a name gives the same
    metric. Raises ValueError for a name that is invalid, or taken. Of label values, a metric keeps
    1,000 combinations; others count as "unexpected". The constructor is the place to ask.
    """

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> PluginCounter: ...

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> PluginGauge: ...

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), buckets: Sequence[float] = ...
    ) -> PluginHistogram: ...


class Handle(Protocol):
    """A plugin's access to the scheduler, given to its constructor."""

    @property
    def log(self) -> Logger:
        """The scheduler's log; each line has the plugin's name as `plugin`."""
        ...

    @property
    def metrics(self) -> OwnMetrics: ...

    @property
    def api(self) -> ApiHandle: ...

    @property
    def objects(self) -> Objects: ...

    @property
    def waiting(self) -> WaitingPods: ...

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """Every gate of `berth.config.feature_gates` with its value."""
        ...

    @property
    def measures(self) -> PluginMeasures:
        """The counts of kube-scheduler that in-tree plugins keep."""
        ...

    def now(self) -> float:
        """Returns monotonic seconds; only their differences have a meaning."""
        ...

    def wall(self) -> datetime:
        """Returns the time of day, in UTC."""
        ...

    def event(
        self,
        about: PodInfo | HasMetadata,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        action: str = "Scheduling",
    ) -> None:
        """Writes an event about a pod, or another object of a kind that plugins look up. Equal
        events are counted, as the scheduler's own. Without the lease, it is dropped. `reason` is a
        word in CamelCase; raises ValueError for any other.
        """
        ...

    def activate(self, *pods: PodInfo | Pod | str) -> None:
        """Has pods (or their keys, namespace/name) tried again now, even before the end of their
        backoff. A pod that is activated again and again and not placed backs off all the same.
        """
        ...

    def allow(self, pod: PodInfo | Pod) -> bool:
        """Allows a pod that this plugin made wait in Permit; True if no other plugin holds it."""
        ...

    def reject(self, pod: PodInfo | Pod, reason: str) -> bool:
        """Rejects a pod that waits in Permit, as unschedulable by this plugin; False if it does not
        wait.
        """
        ...


class Handles(Handle, Protocol):
    """A handle that is made for each plugin."""

    def for_plugin(self, name: str, module: str) -> Handle:
        """Returns the handle of a plugin, whose lines in the log are those of `module`."""
        ...
