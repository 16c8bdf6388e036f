"""ApiObjects: the requests that plugins may make, on objects by kind and name.

A refusal and a missing answer are returned as a status, because a plugin must expect both. Patches
of a pod's status are tried again after a transient failure, as in kube-scheduler; bindings are
since its version 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import quote

from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from ..scheduling.framework.handle import NO_LABELS
from ..scheduling.framework.status import SUCCESS, Code, NotFound, Status, error
from ..scheduling.kube.core import Pod
from ..scheduling.kube.kinds import BY_KIND, WatchedKind, type_of
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.kube.reading import Reader
from .access import Calls
from .polling import listed
from .rate_limit import RateLimit, limited_by
from .rest import ApiError, ConnectionFailedError, IgnoredAnswer
from .retries import with_retries

A = TypeVar("A")
T = TypeVar("T", bound=HasMetadata)
AnyKind = type[HasMetadata] | WatchedKind
_IS_PLAIN = re.compile("[a-z0-9.-]+").fullmatch  # Nearly all names are, and quote is slow.


class ApiObjects:
    """The handle's ApiHandle for plugins. `client` binds, also again after a transient failure if
    `retries_binding`. `others` makes all other requests, which may wait long for admission
    webhooks; with a `limit`, they have a rate of their own.
    """

    def __init__(
        self,
        client: Calls,
        clock: Clock,
        rng: Rng,
        others: Calls | None = None,
        *,
        retries_binding: bool = False,
        kinds: dict[type[Any], WatchedKind] | None = None,
        limit: RateLimit | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._others = client if others is None else others
        self._retries_binding = retries_binding
        self._limit = limit
        self._kinds = {kind.type: kind for kind in BY_KIND.values()} if kinds is None else kinds

    def add_kinds(self, kinds: Iterable[WatchedKind]) -> None:
        """Adds the kinds that plugins declare to the kinds that berth knows."""
        self._kinds.update({kind.type: kind for kind in kinds})

    def kind_of(self, kind: type[HasMetadata]) -> WatchedKind | None:
        """Returns the kind of a type of objects; None if no plugin looks it up."""
        return self._kinds.get(kind)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Status:
        if not self._retries_binding:
            return await _answer(self._client.bind(namespace, name, uid, node)) or SUCCESS
        send = partial(self._client.bind, namespace, name, uid, node)
        return await _answer(with_retries(send, self._clock, self._rng)) or SUCCESS

    async def get(self, kind: type[T] | WatchedKind, name: str, namespace: str = "") -> T | Status:
        return await _answer(self._call("GET", self._path(kind, namespace, name), type_of(kind)))

    async def create(
        self, kind: type[T] | WatchedKind, body: Mapping[str, Any], namespace: str = ""
    ) -> T | Status:
        path = self._path(kind, namespace)
        return await _answer(self._call("POST", path, type_of(kind), self._whole(kind, body)))

    async def delete(
        self, kind: type[HasMetadata] | WatchedKind, name: str, namespace: str = "", uid: str = ""
    ) -> Status:
        path = self._path(kind, namespace, name)
        answer = await _answer(self._call("DELETE", path, IgnoredAnswer, _only(uid)))
        return answer if isinstance(answer, Status) else SUCCESS

    async def evict(self, name: str, namespace: str, uid: str = "") -> Status:
        path = self._path(Pod, namespace, name, "eviction")
        metadata = {"name": name, "namespace": namespace}
        head = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        body = {**head, "deleteOptions": _only(uid)}
        answer = await _answer(self._call("POST", path, IgnoredAnswer, body))
        return answer if isinstance(answer, Status) else SUCCESS

    async def update(
        self,
        kind: type[T] | WatchedKind,
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
    ) -> T | Status:
        path = self._path(kind, namespace, name, subresource)
        return await _answer(self._call("PUT", path, type_of(kind), self._whole(kind, body)))

    async def patch(
        self,
        kind: type[T] | WatchedKind,
        name: str,
        changes: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
    ) -> T | Status:
        path = self._path(kind, namespace, name, subresource)
        send = partial(self._patch, path, changes, type_of(kind))
        if (kind, subresource) == (Pod, "status"):
            return await _answer(with_retries(send, self._clock, self._rng))
        return await _answer(send())

    async def list(
        self,
        kind: type[T] | WatchedKind,
        namespace: str = "",
        labels: Mapping[str, str] = NO_LABELS,
    ) -> tuple[T, ...] | Status:
        path = self._path(kind, namespace)
        if labels:
            selector = ",".join(f"{name}={value}" for name, value in labels.items())
            path += f"?labelSelector={quote(selector)}"
        reader = Reader(cast("type[T]", type_of(kind)))
        with self._rate():
            return await _answer(listed(self._others, path, reader))

    def with_rate(self, qps: float, burst: int) -> ApiObjects:
        """Returns the same requests with a rate of their own."""
        return ApiObjects(
            self._client,
            self._clock,
            self._rng,
            self._others,
            retries_binding=self._retries_binding,
            kinds=self._kinds,
            limit=RateLimit(qps, burst, self._clock),
        )

    async def _call(
        self, method: str, path: str, answer: type[Any], body: object | None = None
    ) -> Any:
        with self._rate():
            return await self._others.call(method, path, answer, body)

    async def _patch(self, path: str, body: object, answer: type[Any]) -> Any:
        with self._rate():
            return await self._others.patch(path, body, answer, "merge")

    def _rate(self) -> AbstractContextManager[None]:
        return nullcontext() if self._limit is None else limited_by(self._limit)

    def _whole(self, kind: AnyKind, body: Mapping[str, Any]) -> dict[str, Any]:
        watched = self._watched(kind)
        return {"apiVersion": watched.api_version, "kind": watched.kind, **body}

    def _path(self, kind: AnyKind, namespace: str, *parts: str) -> str:
        """Returns the path of a kind in a namespace, or of an object or a subresource of it."""
        base, _, plural = self._watched(kind).path.rpartition("/")
        within = f"namespaces/{_quoted(namespace)}/" if namespace else ""
        below = "".join([f"/{_quoted(part)}" for part in parts if part])
        return f"{base}/{within}{plural}{below}"

    def _watched(self, kind: AnyKind) -> WatchedKind:
        """Returns the declaration of a kind. Raises TypeError for a type that is no such kind."""
        watched = kind if isinstance(kind, WatchedKind) else self._kinds.get(kind)
        if watched is None:
            raise TypeError(f"expected the type of a kind that a plugin may look up, got {kind!r}")
        return watched


def _only(uid: str) -> dict[str, Any]:
    """Returns the options of a deletion of an object of this uid, "" for any."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    return {**options, "preconditions": {"uid": uid}} if uid else options


def _quoted(part: str) -> str:
    return part if _IS_PLAIN(part) else quote(part, safe="")


async def _answer(request: Awaitable[A]) -> A | Status:
    """Returns the answer to a request, or the failure as a status."""
    try:
        return await request
    except (ApiError, ConnectionFailedError) as failure:
        if isinstance(failure, ApiError) and failure.code == 404:
            return NotFound(Code.ERROR, (str(failure),))
        return error(str(failure))
