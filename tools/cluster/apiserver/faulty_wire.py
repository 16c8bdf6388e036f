"""The API server as its clients see it through faults, on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, cast

import msgspec

from ...kubernetes.api.requests.list_options import is_on
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.types.api_documents import RefusedError
from ..faults.vocabulary import Fault
from .answer_forms import refusal, refused_response
from .http import Answer, Connection, Feed, Follow, Later, Response, Stream, in_one
from .store_faults import StoreFaults
from .watch_lines import line

GARBAGE = b'{"type":"MODIFIED","object":{"metadata":\xff\xfe"}\n'
_EXPIRED = RefusedError(410, "Expired", "too old resource version: ended by a fault")
_NEVER_CARRIED_OUT = ("lose", "arrive-late", "half-open")


class FaultyWire:
    """The wire between a server and its clients."""

    def __init__(self, store_faults: StoreFaults, now: Callable[[], float]) -> None:
        self._store_faults = store_faults
        self._faults = store_faults.faults
        self._now = now
        self._late: set[asyncio.Task[None]] = set()
        self.control = ""
        self.connections: set[Connection] = set()
        store_faults.when("server-restart", self._go_away)
        store_faults.when("server-restart-cold", self._go_away)

    def around(self, inner: Answer) -> Answer:
        """Returns what answers as `inner` does, as far as the faults let it."""
        self._inner = inner
        return self._answer

    async def _go_away(self, _: Fault) -> None:
        """A server that goes away takes its connections with it."""
        for connection in tuple(self.connections):
            connection.abort()

    def _answer(self, request: HttpRequest) -> Response | Follow:
        client = request.headers.get("user-agent", "")
        if self._faults.back_at() > self._now():
            return Later(_reset)
        is_watch = request.method == "GET" and is_on(request.query, "watch")
        fault = self._faults.of_request(request.method, request.path, client)
        if request.method == "GET" and not is_watch:
            request = self._older(request, client)
        if fault is None:
            return self._watched(self._inner(request), request.path, client)
        if fault.does in ("refuse", "disk-full"):
            return refused_response(_refusal(fault))
        return self._through(fault, request, client)

    def _through(self, fault: Fault, request: HttpRequest, client: str) -> Response | Follow:
        """Returns what becomes of a request that meets a fault of its connection."""
        if fault.does == "arrive-late":
            task = asyncio.create_task(self._arrive(request, fault.seconds))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        if fault.does == "half-open":
            return Later(_silence)
        if fault.does in _NEVER_CARRIED_OUT:
            return Later(_reset)
        if fault.does == "slow" and not is_on(request.query, "watch"):
            return Later(lambda: self._slowly(request, fault.seconds))
        answer = self._watched(self._inner(request), request.path, client)
        if fault.does == "slow" and callable(answer):
            return _delayed(answer, fault.seconds)
        if fault.does == "truncated" and isinstance(answer, Response | Later):
            return _half(answer)
        return Later(lambda: _lost(answer)) if fault.does != "slow" else answer

    async def _slowly(self, request: HttpRequest, seconds: float) -> Response:
        await asyncio.sleep(seconds)
        return await in_one(self._inner(request))

    async def _arrive(self, request: HttpRequest, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await _carried_out(self._inner(request))

    def _older(self, request: HttpRequest, client: str) -> HttpRequest:
        """Returns the request for an older list, if it meets that fault."""
        if request.query.get("continue") or request.query.get("resourceVersion", "0") != "0":
            return request
        fault = self._faults.of_list(request.path, client)
        revision = 0 if fault is None else self._store_faults.revision_of(fault.seconds)
        if not revision:
            return request
        exact = {"resourceVersion": str(revision), "resourceVersionMatch": "Exact"}
        return msgspec.structs.replace(request, query={**request.query, **exact})

    def _watched(self, answer: Response | Follow, path: str, client: str) -> Response | Follow:
        """Returns an answer whose events meet faults, if it is a watch."""
        if isinstance(answer, Response) or not callable(answer):
            return answer

        async def feed(stream: Stream) -> None:
            through = _FaultyStream(stream, lambda: self._faults.of_event(path, client))
            await answer(cast("Stream", through))

        return feed


class _FaultyStream:
    """A stream of lines, each an event that may meet a fault."""

    def __init__(self, stream: Stream, fault_of: Callable[[], Fault | None]) -> None:
        self._stream = stream
        self._fault_of = fault_of

    async def write(self, data: bytes) -> None:
        good = b""
        for event in data.splitlines(keepends=True):
            fault = self._fault_of()
            if fault is None:
                good += event
                continue
            if good:
                await self._stream.write(good)
                good = b""
            await self._write_through(fault, event)
        if good:
            await self._stream.write(good)

    async def _write_through(self, fault: Fault, event: bytes) -> None:
        match fault.does:
            case "watch-late":
                await asyncio.sleep(fault.seconds)
                await self._stream.write(event)
            case "watch-repeat":
                await self._stream.write(event + event)
            case "watch-cut":
                await self._stream.write(event[: len(event) // 2])
                await _reset()
            case "watch-garbage":
                await self._stream.write(GARBAGE)
            case "watch-silent":
                await _silence()
            case "watch-expired":
                error = line("ERROR", msgspec.json.encode(refusal(_EXPIRED)))
                await self._stream.write(b"".join(error))
                await _reset()


def _refusal(fault: Fault) -> RefusedError:
    details = {"retryAfterSeconds": 1} if fault.refusal.code == 429 else None
    return RefusedError(*fault.refusal, details)


async def _carried_out(answer: Response | Follow) -> None:
    """Waits until a request is carried out that takes a while."""
    if isinstance(answer, Later):
        with suppress(ConnectionResetError):
            await in_one(answer)


async def _lost(answer: Response | Follow) -> NoReturn:
    await _carried_out(answer)
    await _reset()


def _half(answer: Response | Later) -> Feed:
    async def feed(stream: Stream) -> None:
        body = (await in_one(answer)).body
        await stream.write(body[: len(body) // 2])
        await _reset()

    return feed


def _delayed(feed: Feed, seconds: float) -> Feed:
    async def later(stream: Stream) -> None:
        await asyncio.sleep(seconds)
        await feed(stream)

    return later


async def _reset() -> NoReturn:
    await asyncio.sleep(0.01)  # what was sent before leaves first
    raise ConnectionResetError("reset by a fault")


async def _silence() -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError
