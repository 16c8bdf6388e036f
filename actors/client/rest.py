"""The REST half of the client: typed answers, and errors as exceptions that say what happened.

What is read may be long, and goes through an HTTP library's session; writes are short and many, and
go over wires.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from types import TracebackType
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
import anyio
import msgspec
from berth.actors.client.credentials import ANONYMOUS, Credentials, KubeconfigError, Proof
from berth.actors.client.rate_limit import RateLimit
from berth.actors.client.reply import Reply
from berth.actors.client.sockets import connector
from berth.actors.client.tenure import Tenure
from berth.actors.client.tls import client_context
from berth.actors.client.wire import (
    CLOSE_SECONDS,
    MOST_CONNECTIONS,
    Headers,
    NotPermittedError,
    Wires,
)
from berth.actors.runtime.clock import Clock, SystemClock
from berth.actors.scheduling.kube.meta import Status as ApiStatus
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()
_STATUS = Reader(ApiStatus)
SYSTEM_CLOCK = SystemClock()
NO_HEADERS: Headers = ()
# An API server gives itself a minute; who gives up before does not know what became of a write.
ANSWER_SECONDS = 65.0
MOST_RETRIES = 10
MOST_RETRY_AFTER = 60.0  # seconds; who asks for more is taken to mean this
RECONNECT_DELAYS = (0.1, 0.2, 0.4)
CONTENT_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class ApiError(Exception):
    """The API server refused: `code` is the HTTP status, `reason` Kubernetes' word for it, such as
    Conflict.
    """

    def __init__(
        self, code: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class ConnectionFailedError(Exception):
    """The API server could not be reached, did not answer in time, or what it answered cannot be
    read.
    """


class DeposedError(ConnectionFailedError):
    """The write was not sent, because the lease had no time left. A leader that lost it ends:
    nothing is sent later.
    """


class UnreadableAnswerError(ConnectionFailedError):
    """There is an answer, and it cannot be read."""


class Connection(msgspec.Struct, frozen=True):
    """Where the API server is and how to prove who we are.

    `tls` None is plain HTTP, or the machine's own trust for an https URL; `server_name` is the name
    that the server's certificate must bear if it is not the URL's host; `proxy` is the URL of an
    HTTP proxy.
    """

    server: str
    tls: ssl.SSLContext | None = None
    credentials: Credentials = ANONYMOUS
    server_name: str | None = None
    proxy: str | None = None

    def for_another_thread(self) -> Connection:
        return msgspec.structs.replace(self, credentials=self.credentials.for_another_thread())


class Patience(msgspec.Struct, frozen=True):
    """How long an answer to what is read may take, in seconds: until its head is there, with a
    connection and all handshakes; without a single byte; as a whole (None: as long as it goes on).
    """

    head: float
    silence: float
    whole: float | None = None


# A page may take as long as it likes if it goes on. An API server gives itself a minute to begin.
PAGE_PATIENCE = Patience(head=120.0, silence=120.0)


class Accepted(msgspec.Struct, frozen=True):
    """An answer of which nothing is read but that it is there."""


class Client:
    """An async context manager; paths begin with `/`, bodies are structs or mappings, answers typed
    by a struct.

    Requests are held to `qps` a second after a burst of `burst` (no limit for 0 or less); a watch
    counts once. An answer may take `timeout_seconds`, which begin when a write is sent, however
    long it waited for that. Writes are sent while `tenure` permits, if there is one, and reads
    always.
    """

    def __init__(
        self,
        connection: Connection,
        timeout_seconds: float = ANSWER_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
        qps: float = 0.0,
        burst: int = 100,
        tenure: Tenure | None = None,
    ) -> None:
        self._connection = connection
        secure = urlsplit(connection.server).scheme == "https"
        self._tls = connection.tls or (client_context(None) if secure else None)
        self._seconds = timeout_seconds
        self._patience = Patience(timeout_seconds, timeout_seconds, timeout_seconds)
        self._tenure = tenure
        self._clock = clock
        self._limit = RateLimit(qps, burst, clock)
        self._session: aiohttp.ClientSession | None = None
        self._wires: Wires | None = None
        self._readers: dict[type, Reader[object]] = {}

    async def __aenter__(self) -> Client:
        """Raises KubeconfigError if there are no credentials to be had: better now than with the
        first request.
        """
        await self._connection.credentials.proof()
        headers = (("User-Agent", "berth"), ("Accept", "application/json"))
        self._session = aiohttp.ClientSession(
            connector=connector(MOST_CONNECTIONS), headers=headers
        )
        self._wires = Wires(
            self._connection.server,
            self._connection.server_name,
            headers,
            self._seconds,
            self._connection.proxy,
            None if self._tenure is None else self._tenure.permits,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        assert self._wires is not None
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._session.close()
            await self._wires.close()

    async def open(self, path: str, patience: Patience | None = None) -> aiohttp.ClientResponse:
        """One GET, whatever the answer; the caller reads and closes it. A 401 is asked again with
        new credentials.

        Raises what aiohttp raises, TimeoutError, and ConnectionFailedError where there are no
        credentials.
        """
        await self._limit.wait_turn()
        patience = patience or self._patience
        credentials = self._connection.credentials
        try:
            proof = await credentials.proof()
            response = await self._get(path, patience, proof)
            if response.status == 401:
                await response.read()  # which gives its connection back
                another = await credentials.renewed(proof)
                if another is not None:
                    response = await self._get(path, patience, another)
        except KubeconfigError as problem:
            raise ConnectionFailedError(str(problem)) from None
        return response

    async def _get(self, path: str, patience: Patience, proof: Proof) -> aiohttp.ClientResponse:
        assert self._session is not None, "the client is used outside its context"
        connection = self._connection
        headers = (("Authorization", proof.authorization),) if proof.authorization else NO_HEADERS
        limits = aiohttp.ClientTimeout(
            total=patience.whole,
            connect=patience.head,
            sock_connect=patience.head,
            sock_read=patience.silence,
        )
        try:
            async with asyncio.timeout(patience.head):
                return await self._session.get(
                    connection.server.rstrip("/") + path,
                    headers=headers,
                    timeout=limits,
                    ssl=proof.tls or self._tls or True,
                    server_hostname=connection.server_name,
                    proxy=connection.proxy,
                )
        except TimeoutError as late:
            raise TimeoutError(str(late) or f"no answer within {patience.head:g} s") from None

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "application/json",
    ) -> T:
        """One request, asked again where the server says when, and a GET also where the connection
        failed.

        Raises ApiError if the server refuses, ConnectionFailedError if it cannot be reached or
        answers nonsense, DeposedError if a write may not be sent.
        """
        headers = NO_HEADERS if body is None else (("Content-Type", content_type),)
        return await self._call(
            method, path, answer, b"" if body is None else _ENCODER.encode(body), headers
        )

    async def page(self, path: str, answer: type[T]) -> T:
        """A list or a page of one, which may take long. Raises as `call` does."""
        return await self._call("GET", path, answer, b"", NO_HEADERS, PAGE_PATIENCE)

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[T],
        data: bytes,
        headers: Headers,
        patience: Patience | None = None,
    ) -> T:
        put_off = severed = 0
        while True:
            try:
                if method == "GET":
                    reply = await self._read_reply(path, patience)
                else:
                    reply = await self._write_reply(method, path, data, headers)
            except (aiohttp.ClientError, TimeoutError, OSError) as failure:
                if method != "GET" or severed == len(RECONNECT_DELAYS) or not _is_severed(failure):
                    raise self._failed(failure) from failure
                await self._clock.sleep(RECONNECT_DELAYS[severed])
                severed += 1
                continue
            if reply.status < 400:
                return self._read(path, reply.body, answer)
            refused = refusal(reply.status, reply.body, reply.retry_after)
            wait = refused.retry_after
            if (
                wait is None
                or put_off == MOST_RETRIES
                or not (refused.code == 429 or refused.code >= 500)
            ):
                raise refused
            put_off += 1
            await self._clock.sleep(wait)

    async def _read_reply(self, path: str, patience: Patience | None) -> Reply:
        """Raises as `open` does."""
        async with await self.open(path, patience) as response:
            return Reply(
                response.status, await response.read(), response.headers.get("Retry-After")
            )

    async def _write_reply(self, method: str, path: str, data: bytes, headers: Headers) -> Reply:
        """Raises OSError, and ConnectionFailedError where there are no credentials or no
        permission.
        """
        await self._limit.wait_turn()
        credentials = self._connection.credentials
        try:
            proof = await credentials.proof()
            reply = await self._written(method, path, data, headers, proof)
            another = await credentials.renewed(proof) if reply.status == 401 else None
            if another is not None:
                reply = await self._written(method, path, data, headers, another)
        except KubeconfigError as problem:
            raise ConnectionFailedError(str(problem)) from None
        except NotPermittedError:
            raise DeposedError("not sent, as the lease is not held any more") from None
        return reply

    async def _written(
        self, method: str, path: str, data: bytes, headers: Headers, proof: Proof
    ) -> Reply:
        assert self._wires is not None, "the client is used outside its context"
        if proof.authorization:
            headers = (*headers, ("Authorization", proof.authorization))
        return await self._wires.request(method, path, data, headers, proof.tls or self._tls)

    def _read(self, path: str, raw: bytes, answer: type[T]) -> T:
        reader = self._readers.get(answer)
        if reader is None:
            reader = self._readers[answer] = Reader(answer)
        try:
            decoded = reader.read(raw)
        except UNREADABLE as problem:
            got = f"{raw[:80].decode(errors='replace')!r}: {problem}"
            raise UnreadableAnswerError(
                f"{self._connection.server}{path}: expected JSON as asked for, got {got}"
            ) from None
        assert isinstance(decoded, answer)
        return decoded

    def _failed(self, failure: Exception) -> ConnectionFailedError:
        return ConnectionFailedError(f"{self._connection.server}: {in_words(failure)}")

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind a pod to a node. Raises as `call` does; 409 if the pod is bound, deleting or
        gated.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.call(
            "POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", Accepted, body
        )

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        """Patch an object or its status; `kind` is strategic or merge."""
        return await self.call("PATCH", path, answer, body, CONTENT_TYPES[kind])


def refusal(code: int, raw: bytes, retry_after: str | None) -> ApiError:
    """The error that an answer stands for; an answer that is no Status is quoted."""
    said = retry_after is not None and retry_after.isascii() and retry_after.isdecimal()
    seconds = (
        min(float(retry_after), MOST_RETRY_AFTER) if retry_after is not None and said else None
    )
    try:
        status = _STATUS.read(raw)
    except UNREADABLE:
        told = " ".join(raw[:200].decode(errors="replace").split())  # on one line
        return ApiError(code, "", f"HTTP {code}: {told}", seconds)
    return ApiError(code, status.reason, status.message or f"HTTP {code}", seconds)


def in_words(failure: Exception) -> str:
    """What went wrong with a connection, in few words; it stands beside the server's address."""
    if isinstance(failure, aiohttp.ClientConnectorError) and not isinstance(
        failure, aiohttp.ClientSSLError
    ):
        number = failure.os_error.errno
        if (
            number is not None and number > 0
        ):  # below are those of name resolution, which has its own words
            return os.strerror(number)
    if (
        isinstance(failure, ConnectionError)
        and failure.errno
        and not isinstance(failure, aiohttp.ClientError)
    ):
        return os.strerror(failure.errno)
    if isinstance(failure, aiohttp.ClientPayloadError):
        return "the connection was closed in the middle of an answer"
    return str(failure) or type(failure).__name__


def _is_severed(failure: Exception) -> bool:
    """Whether the connection was refused or lost: not a time-out, nor a certificate that stays what
    it is.
    """
    return isinstance(failure, aiohttp.ClientConnectionError) and not isinstance(
        failure, TimeoutError | aiohttp.ClientSSLError
    )
