"""A handle for tests of a plugin alone: it records what it is given, and answers as the test says.

Nothing runs: time stands still until the test moves it, requests are answered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar, cast

import msgspec

from berth.actors.client.objects import AnyKind, ApiObjects
from berth.actors.client.rest import ApiError
from berth.actors.scheduling.framework.handle import Handle
from berth.actors.scheduling.framework.handle_values import checked_note, key_of, uid_of
from berth.actors.scheduling.framework.logger import DEBUG, Fields, Logger
from berth.actors.scheduling.framework.status import NotFound
from berth.actors.scheduling.kube.kinds import BY_KIND, WatchedKind
from berth.actors.scheduling.kube.meta import HasMetadata, key
from berth.actors.scheduling.kube.reading import Reader
from berth.config.feature_gates import DEFAULTS
from berth.plugin import Code, Pod, PodInfo, Status

from ...answers.explain.document_cluster import decoded
from ...answers.explain.plugin_handle import HeldObjects, ReadOnlyHandle
from ...kubernetes.api.types.defaults import defaulted
from ...kubernetes.api.types.resources import BY_KIND as SERVED
from ..virtual_time import BEGAN

T = TypeVar("T", bound=HasMetadata)
Document = dict[str, Any]
PODS = SERVED["v1", "Pod"]


class RecordedRequest(msgspec.Struct, frozen=True):
    """A request of the plugin: the verb (get, list, create, update, patch, delete, evict or bind),
    the kind, the object, and what it sent.
    """

    verb: str
    kind: str
    name: str = ""
    namespace: str = ""
    body: Any = None


class RecordedEvent(msgspec.Struct, frozen=True):
    """An event that the plugin wrote about an object (namespace/name)."""

    about: str
    reason: str
    note: str
    warning: bool = False


def pod_info(document: Document) -> PodInfo:
    """Returns a pod as hooks get it. Raises msgspec.ValidationError."""
    full = {"apiVersion": "v1", "kind": "Pod", **document}
    return PodInfo(Reader(Pod).convert(defaulted(PODS, full)))


class _RecordedLog(Logger):
    __slots__ = ("_lines",)

    def __init__(self, fields: Fields, lines: list[Fields]) -> None:
        super().__init__("", fields)
        self._lines = lines

    def bind(self, **fields: object) -> Logger:
        return _RecordedLog({**self._fields, **fields}, self._lines)

    def shows(self, verbosity: int) -> bool:
        return verbosity <= DEBUG

    def _tell(self, level: str, event: str, fields: Fields) -> None:
        self._lines.append({**self._fields, **fields, "event": event, "level": level})


class _Time:
    """The clock of a handle, which the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return BEGAN + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.seconds += max(seconds, 0.0)


class _AnsweredCalls:
    """Calls that nobody should make, as the API below answers by itself."""

    async def call(self, method: str, path: str, *_: Any, **__: Any) -> Any:
        raise ApiError(404, "NotFound", f"{method} {path}: the test gave no answer")

    async def bind(self, *_: Any) -> None:
        return None

    async def patch(self, path: str, *_: Any, **__: Any) -> Any:
        raise ApiError(404, "NotFound", f"PATCH {path}: the test gave no answer")


class FakeApi(ApiObjects):
    """Requests, which are recorded in `requests`, and answered by the objects that are held."""

    def __init__(self, held: HeldObjects, time: _Time) -> None:
        super().__init__(_AnsweredCalls(), time, Random(1))
        self.requests: list[RecordedRequest] = []
        self._held = held
        self._answers: dict[tuple[str, str], Any] = {}

    def answers(self, verb: str, kind: str, answer: Any) -> None:
        """Answers the requests of this verb for this kind, such as ("patch", "Pod"), from now on:
        an object, a Status, or a function that takes the RecordedRequest and returns one.
        """
        self._answers[verb, kind] = answer

    def with_rate(self, qps: float, burst: int) -> FakeApi:
        return self

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
        answer = self._answer(RecordedRequest("bind", "Pod", name, namespace, node))
        return await super().bind(namespace, name, uid, node) if answer is None else answer

    async def get(self, kind: type[T] | WatchedKind, name: str, namespace: str = "") -> T | Status:
        watched = self._watched(kind)
        answer = self._answer(RecordedRequest("get", watched.kind, name, namespace))
        if answer is None:
            answer = self._held.get(watched.type, name, namespace)
        return NotFound(Code.ERROR, (_missing(name),)) if answer is None else cast("T", answer)

    async def list(
        self,
        kind: type[T] | WatchedKind,
        namespace: str = "",
        labels: Mapping[str, str] = {},
    ) -> tuple[T, ...] | Status:
        watched = self._watched(kind)
        answer = self._answer(RecordedRequest("list", watched.kind, "", namespace, dict(labels)))
        if answer is None:
            answer = tuple(self._held.select(watched.type, namespace, labels))
        return cast("tuple[T, ...] | Status", answer)

    async def _call(
        self, method: str, path: str, answer: type[Any], body: object | None = None
    ) -> Any:
        """Answers a write, which changes the objects that are held."""
        verb = {"POST": "create", "PUT": "update", "DELETE": "delete"}[method]
        return self._written(verb, path, body)

    async def _patch(self, path: str, body: object, answer: type[Any]) -> Any:
        return self._written("patch", path, body)

    def _written(self, verb: str, path: str, body: Any) -> Any:
        kind, namespace, name = self._place(path)
        sent = body.get("metadata") or {}
        if path.endswith("/eviction"):
            verb = "evict"
        if verb == "create":
            name = sent.get("name", "")
        request = RecordedRequest(verb, kind.kind, name, namespace, body)
        answer = self._answer(request)
        if answer is not None:
            if isinstance(answer, Status):
                raise ApiError(500, "InternalError", answer.message)
            return answer
        name = name or f"{sent.get('generateName', '')}{len(self.requests)}"
        item: Any = self._held.get(kind.type, name, namespace)
        if item is None and verb != "create":
            raise ApiError(404, "NotFound", _missing(name))
        if item is not None:
            _refuse(verb, body, item)
        if verb in ("delete", "evict"):
            self._held.drop(item)
            return None
        document = body if verb != "patch" else _merged(msgspec.to_builtins(item), body)
        metadata = {"name": name, "namespace": namespace, **(document.get("metadata") or {})}
        written = Reader(kind.type).convert({**document, "metadata": metadata})
        self._held.hold([cast("HasMetadata", written)])
        return written

    def _answer(self, request: RecordedRequest) -> Any:
        self.requests.append(request)
        answer = self._answers.get((request.verb, request.kind))
        return answer(request) if callable(answer) else answer

    def _place(self, path: str) -> tuple[WatchedKind, str, str]:
        """Returns the kind, the namespace and the name of an object by its path."""
        for kind in self._kinds.values():
            base, _, plural = kind.path.rpartition("/")
            rest = path.removeprefix(f"{base}/")
            if rest == path:
                continue
            namespace = ""
            if rest.startswith("namespaces/") and rest.count("/") > 1:
                _, namespace, rest = rest.split("/", 2)
            if rest == plural or rest.startswith(f"{plural}/"):
                return kind, namespace, rest.removeprefix(plural).strip("/").partition("/")[0]
        raise ApiError(404, "NotFound", f"{path}: no such kind")

    def _watched(self, kind: AnyKind) -> WatchedKind:
        if isinstance(kind, WatchedKind):
            self.add_kinds([kind])
        return super()._watched(kind)


class FakeHandle(ReadOnlyHandle):
    """The handle of a plugin in a test. `objects` are documents or typed objects that it looks up,
    `plugin` the plugin or its name; documents of kinds that the plugin declares need the plugin.

    `events`, `activated` (namespace/name), `lines` of the log, `allowed` and `rejected` (by
    namespace/name) and `requests` are what it was given. `seconds` is the time of its clock.
    """

    def __init__(
        self,
        *objects: Document | HasMetadata,
        plugin: type[Any] | str = "",
        feature_gates: Mapping[str, bool] = DEFAULTS,
    ) -> None:
        time = self._time = _Time()
        held = HeldObjects()
        self.fake_api = FakeApi(held, time)
        super().__init__(feature_gates, held, clock=time, api=self.fake_api)
        self.plugin = plugin if isinstance(plugin, str) else plugin.name
        self.events: list[RecordedEvent] = []
        self.activated: list[str] = []
        self.lines: list[Fields] = []
        self.allowed: list[str] = []
        self.rejected: dict[str, str] = {}
        self.log = _RecordedLog({"plugin": self.plugin}, self.lines)
        lookups = () if isinstance(plugin, str) else plugin.lookups
        kinds = [kind for kind in lookups if isinstance(kind, WatchedKind)]
        self.fake_api.add_kinds(kinds)
        for item in objects:
            held.hold(_typed(item, kinds))

    @property
    def requests(self) -> list[RecordedRequest]:
        return self.fake_api.requests

    def answers(self, verb: str, kind: str, answer: Any | Callable[[RecordedRequest], Any]) -> None:
        """Answers the requests of this verb for this kind, such as ("patch", "Pod"), from now on:
        an object, a Status, or a function that takes the RecordedRequest and returns one.
        """
        self.fake_api.answers(verb, kind, answer)

    @property
    def seconds(self) -> float:
        return self._time.seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._time.seconds = seconds

    def for_plugin(self, name: str, module: str) -> Handle:
        self.plugin = name
        self.log = _RecordedLog({"plugin": name}, self.lines)
        return self

    def waits(self, pod: PodInfo, node: str, plugin: str = "", seconds: float = 60.0) -> None:
        """Makes a pod wait in Permit for a plugin, by default for the one under test; for other
        plugins that hold it too.
        """
        held = self.waiting.get(pod.uid)
        others = {} if held is None else dict.fromkeys(held.plugins, seconds)
        self.waiting.wait(pod, node, {**others, plugin or self.plugin: seconds}, self.now())

    def event(
        self,
        about: PodInfo | HasMetadata,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        action: str = "Scheduling",
    ) -> None:
        note = checked_note(reason, action, note)
        item = about.pod if isinstance(about, PodInfo) else about
        self.events.append(RecordedEvent(key(item), reason, note, warning))

    def activate(self, *pods: PodInfo | Pod | str) -> None:
        self.activated += map(key_of, pods)

    def allow(self, pod: PodInfo | Pod) -> bool:
        if self.waiting.get(uid_of(pod)) is not None:
            self.allowed.append(key_of(pod))
        return super().allow(pod)

    def reject(self, pod: PodInfo | Pod, reason: str) -> bool:
        is_waiting = self.waiting.get(uid_of(pod)) is not None
        rejected = super().reject(pod, reason)
        if is_waiting:
            self.rejected[key_of(pod)] = reason
        return rejected


def _missing(name: str) -> str:
    return f'"{name}" not found'


def _refuse(verb: str, body: Document, item: HasMetadata) -> None:
    """Raises ApiError for a write that an API server refuses because of the object that is
    there.
    """
    metadata, sent = item.metadata, body.get("metadata") or {}
    options = body.get("deleteOptions") or body
    uid = (options.get("preconditions") or {}).get("uid", metadata.uid)
    version = sent.get("resourceVersion") or metadata.resource_version
    if verb == "create":
        raise ApiError(409, "AlreadyExists", f'"{metadata.name}" already exists')
    if uid != metadata.uid or version != metadata.resource_version:
        raise ApiError(409, "Conflict", f'"{metadata.name}" is another object, or has changed')


def _typed(item: Document | HasMetadata, kinds: Iterable[WatchedKind]) -> list[HasMetadata]:
    """Returns an object in the type of each of its kinds: one that berth knows, and some of
    `kinds`. Raises ValueError for a document of another kind.
    """
    if not isinstance(item, dict):
        return [item]
    served = SERVED.get((item.get("apiVersion", ""), item.get("kind", "")))
    items = list(decoded(item if served is None else defaulted(served, item), kinds))
    if not items:
        known = ", ".join(dict.fromkeys(kind for _, kind in sorted(BY_KIND)))
        raise ValueError(
            f"expected an object of {known}, of a kind in the lookups of the class that is "
            f"`plugin`, or a typed one, got {item.get('kind')}"
        )
    return items


def _merged(old: Any, changes: Any) -> Any:
    """Returns a document after a JSON merge patch."""
    if not isinstance(changes, Mapping) or not isinstance(old, Mapping):
        return changes
    merged = {**old, **{name: _merged(old.get(name), value) for name, value in changes.items()}}
    return {name: value for name, value in merged.items() if value is not None}
