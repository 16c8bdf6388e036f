"""An API server in memory that sends exactly what a test gives it, to clients that decode, in
virtual time.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import anyio
import msgspec

from berth.actors.client.access import Calls, Source
from berth.actors.client.answers import INITIAL_EVENTS_END
from berth.actors.client.reflector_state import Streaming
from berth.actors.client.rest import ApiError, Client, UnreadableAnswerError
from berth.actors.client.tenure import Tenure
from berth.actors.client.watch import Reflector
from berth.actors.runtime.backoff import Rng
from berth.actors.scheduling.kube.core import FINISHED
from berth.actors.scheduling.kube.kinds import PODS
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader
from tests.kit.clock import VirtualClock
from tests.kit.documents import Document
from tests.kit.rights import RIGHTS

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata)
Hostile = Mapping[str, Any]
NOTHING: Hostile = {}


class _Followed:
    """The objects under one path by key, and every line of its watch with the line's version."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.lines: list[tuple[int, bytes]] = []


class SmallApi:
    """The scheduler's Access; a test calls `put`, `delete`, `say` and `sever`. Writes to pods are
    carried out and echoed.

    `refusals` maps paths to the errors that answer their lists; `/api/v1/pods/binding` stands for
    all bindings.
    """

    def __init__(self, clock: VirtualClock, rng: Rng) -> None:
        self.clock = clock
        self._rng = rng
        self._paths: dict[str, _Followed] = {}
        self._news = anyio.Event()
        self._severed = 0
        self._oldest = 0
        self.version = 0
        self.refusals: dict[str, ApiError] = {}
        self.rules: Document | None = None  # the status of a SelfSubjectRulesReview
        self.requests: list[str] = []
        self._follows = 0
        self.calls: Calls = self
        self.plugins: Calls = self
        self.events: Calls = self
        self.server = "memory"
        self.tenure = Tenure()

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        await work(self)

    # --------------------------------------------------------------------------------- for the test

    def put(self, path: str, key: str, document: Document, hostile: Hostile = NOTHING) -> None:
        """Creates or changes an object. `hostile` maps dotted paths to values that are put into it
        unchecked.
        """
        self.version += 1
        document = copy.deepcopy(document)
        document.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        for where, value in hostile.items():
            document = _with(document, where.split("."), value)
        self._store(path, key, document)

    def delete(self, path: str, key: str, hostile: Hostile = NOTHING) -> None:
        """Deletes an object, and sends this document in the DELETED event."""
        followed = self._followed(path)
        document = copy.deepcopy(followed.objects.pop(key))
        self.version += 1
        if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
            document["metadata"]["resourceVersion"] = str(self.version)
        for where, value in hostile.items():
            document = _with(document, where.split("."), value)
        self._tell(path, "DELETED", document)

    def say(self, path: str, line: bytes) -> None:
        """Sends a line that belongs to no object."""
        self.version += 1
        self._followed(path).lines.append((self.version, line))
        self._ring()

    def again(self, path: str) -> None:
        """Sends the last line once more."""
        lines = self._followed(path).lines
        if lines:
            self.say(path, lines[-1][1])

    def sever(self, *, forget: bool = False) -> None:
        """Ends every watch. A client can continue at its version, or must list again if that is
        `forgotten`.
        """
        self._severed += 1
        if forget:
            self.version += 1
            self._oldest = self.version
        self._ring()

    def documents(self, path: str) -> dict[str, Any]:
        return self._followed(path).objects

    def copied(self, clock: VirtualClock, rng: Rng) -> SmallApi:
        """Returns another API server with the same objects."""
        other = SmallApi(clock, rng)
        other.version = other._oldest = self.version
        for path, followed in self._paths.items():
            other._followed(path).objects = copy.deepcopy(followed.objects)
        return other

    # ------------------------------------------------------------------------------------ as Access

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        """Follows every other path with streamed lists."""
        self._follows += 1
        return Reflector(
            cast("Client", self),
            path,
            kind,
            self.clock,
            self._rng,
            selector,
            streaming=Streaming(works=self._follows % 2 == 0),
        )

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "",
    ) -> T:
        await anyio.lowlevel.checkpoint()
        RIGHTS.check(method, path, body)
        url = urlsplit(path)
        self.requests.append(f"{method} {path}")
        if path.endswith("/selfsubjectrulesreviews"):
            if self.rules is None:
                raise ApiError(404, "NotFound", "there are no reviews")
            return self._answer({"status": self.rules}, answer)
        if url.path in self._paths or (method == "GET" and "/namespaces/" not in path):
            return self._answer(self._list(url.path, parse_qs(url.query)), answer)
        if path.endswith("/events") or "/events/" in path:
            return self._answer({}, answer)
        key = _key(url.path)
        pods = self._followed(PODS.path).objects
        if key not in pods:
            raise ApiError(404, "NotFound", f"{key} not found")
        if method == "DELETE":
            self.delete(PODS.path, key)
            return self._answer({}, answer)
        return self._answer(pods[key], answer)

    async def page(self, path: str, answer: type[T]) -> T:
        return await self.call("GET", path, answer)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        await anyio.lowlevel.checkpoint()
        RIGHTS.check("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding")
        key = f"{namespace}/{name}"
        if f"{PODS.path}/binding" in self.refusals:
            raise self.refusals[f"{PODS.path}/binding"]
        pod = copy.deepcopy(self._followed(PODS.path).objects.get(key))
        if pod is None:
            raise ApiError(404, "NotFound", f"{key} not found")
        if pod["metadata"]["uid"] != uid or pod["spec"].get("nodeName"):
            raise ApiError(409, "Conflict", f"{key} is another, or bound")
        pod["spec"]["nodeName"] = node
        self.put(PODS.path, key, pod)

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        await anyio.lowlevel.checkpoint()
        RIGHTS.check("PATCH", path, body)
        if "/pods/" not in path:
            return self._answer({}, answer)
        key = _key(path)
        pod = copy.deepcopy(self._followed(PODS.path).objects.get(key))
        patch: Any = body
        if pod is None:
            raise ApiError(404, "NotFound", f"{key} not found")
        if not isinstance(pod, dict) or not isinstance(pod.get("status") or {}, dict):
            raise ApiError(500, "InternalError", "not an object")
        there = pod.get("metadata")
        if not isinstance(there, dict):
            there = {}
        if any(there.get(name) != value for name, value in patch.get("metadata", {}).items()):
            raise ApiError(409, "Conflict", f"{key} has changed")
        pod["status"] = {**(pod.get("status") or {}), **patch.get("status", {})}
        self.put(PODS.path, key, pod)
        return self._answer(pod, answer)

    @asynccontextmanager
    async def _watched(self, path: str, since: int | None) -> AsyncIterator[_Response]:
        yield _Response(self, path, since)

    async def open(self, path: str, _timeouts: object) -> Any:
        """Opens a watch in the way in which the Reflector uses a Client."""
        RIGHTS.check("GET", path)
        url = urlsplit(path)
        query = parse_qs(url.query)
        self.requests.append(f"WATCH {path}")
        streams = "sendInitialEvents" in query
        return self._watched(url.path, None if streams else int(query["resourceVersion"][0]))

    async def lines(self, path: str, since: int | None) -> AsyncIterator[bytes]:
        """Yields all objects first if there is no version to begin at."""
        severed = self._severed
        if since is None:
            since = self.version
            yield self._streamed(path)
        elif since < self._oldest:
            yield b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}\n'
            return
        while True:
            news = self._news
            new = [line for version, line in self._followed(path).lines if version > since]
            since = self.version
            if new:
                yield b"\n".join(new) + b"\n"
            elif severed != self._severed:
                return
            else:
                await news.wait()

    # ---------------------------------------------------------------------------------- the objects

    def _followed(self, path: str) -> _Followed:
        return self._paths.setdefault(path, _Followed())

    def _store(self, path: str, key: str, document: Any) -> None:
        objects = self._followed(path).objects
        before, now = _is_selected(path, objects.get(key)), _is_selected(path, document)
        objects[key] = document
        if before or now:
            self._tell(
                path, "MODIFIED" if before and now else "ADDED" if now else "DELETED", document
            )

    def _tell(self, path: str, what: str, document: Any) -> None:
        line = msgspec.json.encode({"type": what, "object": document})
        self._followed(path).lines.append((self.version, line))
        self._ring()

    def _ring(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    def _list(self, path: str, query: Mapping[str, list[str]]) -> Document:
        if path in self.refusals:
            raise self.refusals[path]
        items = [item for item in self._followed(path).objects.values() if _is_selected(path, item)]
        return {"metadata": {"resourceVersion": str(self.version)}, "items": items}

    def _streamed(self, path: str) -> bytes:
        """Returns the lines of a streamed list, or the refusal of the list."""
        try:
            listed = self._list(path, {})
        except ApiError as refused:
            status = {"code": refused.code, "message": str(refused)}
            return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
        marked = {"annotations": {INITIAL_EVENTS_END: "true"}, **listed["metadata"]}
        events = [
            *({"type": "ADDED", "object": item} for item in listed["items"]),
            {"type": "BOOKMARK", "object": {"metadata": marked}},
        ]
        return b"\n".join(map(msgspec.json.encode, events)) + b"\n"

    def _answer(self, document: Any, answer: type[T]) -> T:
        try:
            return Reader(answer).read(msgspec.json.encode(document))
        except UNREADABLE as problem:
            raise UnreadableAnswerError(str(problem)) from None


class _Response:
    """The part of a response that the Reflector uses."""

    status = 200

    def __init__(self, api: SmallApi, path: str, since: int | None) -> None:
        self._api = api
        self._path = path
        self._since = since
        self.content = self

    def close(self) -> None:
        raise AssertionError("no watch of this API is silent")

    def iter_any(self) -> AsyncIterator[bytes]:
        return self._api.lines(self._path, self._since)


def _key(path: str) -> str:
    """Returns the key of .../namespaces/NAMESPACE/pods/NAME[/status]."""
    parts = path.strip("/").split("/")
    at = parts.index("namespaces")
    return f"{parts[at + 1]}/{parts[at + 3]}"


def _is_selected(path: str, document: Any) -> bool:
    if document is None:
        return False
    status = document.get("status") if isinstance(document, dict) else None
    return path != PODS.path or not isinstance(status, dict) or status.get("phase") not in FINISHED


def _with(document: Any, where: list[str], value: Any) -> Any:
    """Returns a copy of the document with a value at a path of names and list indexes. Missing
    parts are made.
    """
    if not where:
        return value
    step, *rest = where
    if isinstance(document, list) and step.isdecimal() and int(step) < len(document):
        return [
            *document[: int(step)],
            _with(document[int(step)], rest, value),
            *document[int(step) + 1 :],
        ]
    there = document if isinstance(document, dict) else {}
    return {**there, step: _with(there.get(step), rest, value)}
