"""The REST client: requests with typed answers, and exceptions for failures.

Reads may have long answers, and use the session of an HTTP library. Writes are short and frequent,
and use the connections of berth.actors.client.wire.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from typing import Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import anyio
import msgspec

from ..runtime.clock import Clock, SystemClock
from ..scheduling.kube.meta import Status as ApiStatus
from ..scheduling.kube.reading import UNREADABLE, Reader
from ..telemetry.measures import Registry
from .bodies import TooLongError, read_body, read_up_to
from .credentials import ANONYMOUS, Credentials, KubeconfigError, Proof
from .measures import ClientMeasures, HostMeasures, Note
from .rate_limit import RateLimit, counted_for
from .reply import Reply
from .sockets import connector
from .tenure import Tenure
from .tls import client_context
from .wire import CLOSE_SECONDS, MAX_CONNECTIONS, Headers, NotPermittedError, Wires

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder(enc_hook=dict)
_STATUS = Reader(ApiStatus)
SYSTEM_CLOCK = SystemClock()
NO_HEADERS: Headers = ()
# An API server takes up to a minute. A client that gives up earlier does not know whether its write
# succeeded.
ANSWER_SECONDS = 65.0
MAX_REFUSAL = 1 << 20  # bytes of the body of a refusal; the rest is not read
MAX_ANSWER = 256 << 20  # bytes of the answer to a read: a page of 5,000 objects of 50 KiB
MAX_RETRIES = 10
MAX_RETRY_AFTER = 60.0  # seconds; a longer Retry-After is reduced to this
RECONNECT_DELAYS = (0.1, 0.2, 0.4)
# The least delays before retries, whatever Retry-After says; the last one counts for all others.
RETRY_DELAYS = (0.1, 0.2, 0.4, 0.8, 1.0)
CONTENT_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class ApiError(Exception):
    """The API server refused a request.

    `code` is the HTTP status, and `reason` is Kubernetes' name for it, such as Conflict.
    """

    def __init__(
        self, code: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class ConnectionFailedError(Exception):
    """The API server could not be reached, did not answer in time, or sent an unreadable answer."""


class DeposedError(ConnectionFailedError):
    """The write was not sent, because the lease had run out.

    It is not sent later either, because a leader that lost its lease ends.
    """


class UnreadableAnswerError(ConnectionFailedError):
    """The API server sent an answer that cannot be read."""


class TooLongAnswerError(ConnectionFailedError):
    """The API server sent an answer of more than MAX_ANSWER bytes, or did not end it in time."""


class Connection(msgspec.Struct, frozen=True):
    """The address of an API server, and the client's credentials.

    If `tls` is None, the connection is plain HTTP, or for an https URL trusts the authorities that
    the machine trusts. `server_name` is the name that the server's certificate must have, if it is
    not the URL's host. `proxy` is the URL of an HTTP proxy.
    """

    server: str
    tls: ssl.SSLContext | None = None
    credentials: Credentials = ANONYMOUS
    server_name: str | None = None
    proxy: str | None = None

    def for_another_thread(self) -> Connection:
        return msgspec.structs.replace(self, credentials=self.credentials.for_another_thread())


class Timeouts(msgspec.Struct, frozen=True):
    """How long the client waits for the answer to a read, in seconds.

    `head` is the time until the head arrives, including the connection and all handshakes.
    `silence` is the longest time without a byte. `whole` is the total time, or None for no limit.
    """

    head: float
    silence: float
    whole: float | None = None


# An API server takes up to a minute for an answer. Who gets a page too slowly asks for less.
PAGE_TIMEOUTS = Timeouts(head=120.0, silence=120.0, whole=120.0)


class IgnoredAnswer(msgspec.Struct, frozen=True):
    """An answer whose content is ignored."""


class Client:
    """The client of one API server; an async context manager.

    Paths begin with `/`, bodies are structs or mappings. After a burst of `burst` requests, it
    sends at most `qps` a second (0 or less means no limit); a watch counts as one request. An
    answer may take `timeout_seconds`. For a write this time begins when the write is sent, however
    long it waited before. Writes are sent only while `tenure` permits it, if there is one; reads
    always. `measures` has the rest_client_* families. `agent` is the User-Agent.
    """

    def __init__(
        self,
        connection: Connection,
        timeout_seconds: float = ANSWER_SECONDS,
        clock: Clock = SYSTEM_CLOCK,
        qps: float = 0.0,
        burst: int = 100,
        tenure: Tenure | None = None,
        measures: ClientMeasures | None = None,
        agent: str = "berth",
    ) -> None:
        self.server = connection.server
        self._connection = connection
        url = urlsplit(connection.server)
        self._tls = connection.tls or (client_context(None) if url.scheme == "https" else None)
        self._seconds = timeout_seconds
        self._timeouts = Timeouts(timeout_seconds, timeout_seconds, timeout_seconds)
        self._tenure = tenure
        self._agent = agent
        self._clock = clock
        self._limit = RateLimit(qps, burst, clock)
        self._families = measures or ClientMeasures(Registry())
        self._measures = HostMeasures(self._families, url.netloc.rpartition("@")[2])
        self._session: aiohttp.ClientSession | None = None
        self._wires: Wires | None = None
        self._readers: dict[type, Reader[object]] = {}

    def with_own_connections(self) -> Client:
        """Returns another client, whose requests count towards the rate limit of this one."""
        client: Client = type(self)(
            self._connection,
            self._seconds,
            self._clock,
            tenure=self._tenure,
            measures=self._families,
            agent=self._agent,
        )
        client._limit = self._limit
        return client

    async def __aenter__(self) -> Self:
        """Raises KubeconfigError if there are no credentials, ahead of the first request."""
        await self._connection.credentials.proof()
        headers = (("User-Agent", self._agent), ("Accept", "application/json"))
        self._session = aiohttp.ClientSession(connector=connector(MAX_CONNECTIONS), headers=headers)
        self._wires = Wires(
            self._connection.server,
            self._connection.server_name,
            headers,
            self._seconds,
            self._connection.proxy,
            None if self._tenure is None else self._tenure.permits,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        assert self._wires is not None
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._session.close()
            await self._wires.close()

    async def open(self, path: str, timeouts: Timeouts | None = None) -> aiohttp.ClientResponse:
        """Sends a GET and returns the answer, whatever its status; the caller reads and closes it.

        After a 401 it tries once more with new credentials, if there are any. Raises aiohttp's
        errors, TimeoutError, and ConnectionFailedError if there are no credentials.
        """
        code: int | None = None
        try:
            response = await self._open(path, timeouts)
            code = response.status
        finally:
            self._measures.ended(Note("GET", code))
        return response

    async def _open(self, path: str, timeouts: Timeouts | None) -> aiohttp.ClientResponse:
        """Sends a GET once. Raises the same as `open`."""
        await self._wait_turn("GET", path)
        timeouts = timeouts or self._timeouts
        credentials = self._connection.credentials
        try:
            proof = await credentials.proof()
            response = await self._get(path, timeouts, proof)
            if response.status == 401:
                await refusal_body(response)
                response.release()
                another = await credentials.renewed(proof)
                if another is not None:
                    response = await self._get(path, timeouts, another)
        except KubeconfigError as problem:
            raise ConnectionFailedError(str(problem)) from None
        return response

    async def _get(self, path: str, timeouts: Timeouts, proof: Proof) -> aiohttp.ClientResponse:
        assert self._session is not None, "the client is used outside its context"
        connection = self._connection
        headers = (("Authorization", proof.authorization),) if proof.authorization else NO_HEADERS
        limits = aiohttp.ClientTimeout(
            total=timeouts.whole,
            connect=timeouts.head,
            sock_connect=timeouts.head,
            sock_read=timeouts.silence,
        )
        try:
            async with asyncio.timeout(timeouts.head):
                return await self._session.get(
                    connection.server.rstrip("/") + path,
                    headers=headers,
                    timeout=limits,
                    ssl=proof.tls or self._tls or True,
                    server_hostname=connection.server_name,
                    proxy=connection.proxy,
                )
        except TimeoutError as late:
            raise TimeoutError(str(late) or f"no answer within {timeouts.head:g} s") from None

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "application/json",
    ) -> T:
        """Sends a request and returns its answer.

        A request is sent again if the server says when, and a GET also if the connection failed.
        Raises ApiError if the server refuses the request, ConnectionFailedError if it cannot be
        reached or its answer cannot be read, DeposedError if a write may not be sent.
        """
        headers = NO_HEADERS if body is None else (("Content-Type", content_type),)
        return await self._call(
            method, path, answer, b"" if body is None else _ENCODER.encode(body), headers
        )

    async def page(self, path: str, answer: type[T]) -> T:
        """Gets a list or a page of a list, which may take long. Raises the same as `call`."""
        return await self._call("GET", path, answer, b"", NO_HEADERS, PAGE_TIMEOUTS)

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[T],
        data: bytes,
        headers: Headers,
        timeouts: Timeouts | None = None,
    ) -> T:
        began = self._clock.now()
        code = received = None
        try:
            reply = await self._last_reply(method, path, data, headers, timeouts)
            code, received = reply.status, len(reply.body)
        finally:
            seconds = self._clock.now() - began
            self._measures.ended(Note(method, code, len(data), received, seconds))
        if reply.status >= 400:
            raise refusal(reply.status, reply.body, reply.retry_after)
        return self._read(path, reply.body, answer)

    async def _last_reply(
        self, method: str, path: str, data: bytes, headers: Headers, timeouts: Timeouts | None
    ) -> Reply:
        """Returns the first reply after which the request is not sent again, whatever its status.
        Raises ConnectionFailedError.
        """
        retries = reconnects = 0
        while True:
            try:
                if method == "GET":
                    reply = await self._read_reply(path, timeouts)
                else:
                    reply = await self._write_reply(method, path, data, headers)
            except (aiohttp.ClientError, TimeoutError, OSError) as failure:
                if (
                    method != "GET"
                    or reconnects == len(RECONNECT_DELAYS)
                    or not _lost_connection(failure)
                ):
                    server = self._connection.server
                    raise ConnectionFailedError(f"{server}: {in_words(failure)}") from failure
                self._measures.retried(method, None, len(data))
                await self._clock.sleep(RECONNECT_DELAYS[reconnects])
                reconnects += 1
                continue
            wait = _wait_before_retry(reply)
            if wait is None or retries == MAX_RETRIES:
                return reply
            least = RETRY_DELAYS[min(retries, len(RETRY_DELAYS) - 1)]
            retries += 1
            self._measures.retried(method, reply.status, len(data))
            await self._clock.sleep(max(wait, least))

    async def _read_reply(self, path: str, timeouts: Timeouts | None) -> Reply:
        """Sends a GET and reads the answer. Raises the same as `open`, and TooLongAnswerError."""
        async with await self._open(path, timeouts) as response:
            refused = response.status >= 400
            try:
                body = await (
                    refusal_body(response) if refused else read_body(response, MAX_ANSWER)
                )
            except TooLongError as endless:
                raise TooLongAnswerError(f"{self._connection.server}: {endless}") from None
            except TimeoutError:
                seconds = (timeouts or self._timeouts).whole
                why = f"{self._connection.server}: expected an answer within {seconds:g} s"
                raise TooLongAnswerError(why) from None
            return Reply(response.status, body, response.headers.get("Retry-After"))

    async def _wait_turn(self, method: str, path: str) -> None:
        namespace, _, _ = path.partition("/namespaces/")[2].partition("/")
        self._measures.waited(method, await self._limit.wait_turn(namespace))

    async def _write_reply(self, method: str, path: str, data: bytes, headers: Headers) -> Reply:
        """Sends a write. Raises OSError; without credentials or permission
        ConnectionFailedError.
        """
        await self._wait_turn(method, path)
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
            shown = f"{raw[:80].decode(errors='replace')!r}: {problem}"
            raise UnreadableAnswerError(
                f"{self._connection.server}{path}: expected the requested JSON, got {shown}"
            ) from None
        assert isinstance(decoded, answer)
        return decoded

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Binds a pod to a node.

        Raises the same as `call`; the code is 409 if the pod is bound, being deleted or gated.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        # Pods must not wait for the conditions and events of others in their namespace.
        with counted_for(f"{namespace}/bindings"):
            await self.call("POST", path, IgnoredAnswer, body)

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        """Patches an object or its status; `kind` is strategic or merge."""
        return await self.call("PATCH", path, answer, body, CONTENT_TYPES[kind])


async def refusal_body(response: aiohttp.ClientResponse) -> bytes:
    """Reads the body of a refusal, at most as many bytes as a Status may have."""
    return await read_up_to(response, MAX_REFUSAL)


def refusal(code: int, raw: bytes, retry_after: str | None) -> ApiError:
    """Returns the error for a refusal; an answer that is not a Status is quoted."""
    seconds = _seconds(retry_after)
    try:
        status = _STATUS.read(raw)
    except UNREADABLE:
        quoted = " ".join(raw[:200].decode(errors="replace").split())  # in one line
        return ApiError(code, "", f"HTTP {code}: {quoted}", seconds)
    return ApiError(code, status.reason, status.message or f"HTTP {code}", seconds)


def _seconds(retry_after: str | None) -> float | None:
    if retry_after is not None and retry_after.isascii() and retry_after.isdecimal():
        return min(float(retry_after), MAX_RETRY_AFTER)
    return None


def _wait_before_retry(reply: Reply) -> float | None:
    """Returns the seconds after which the server wants the request repeated; None for never."""
    busy = reply.status == 429 or reply.status >= 500
    return _seconds(reply.retry_after) if busy else None


def in_words(failure: Exception) -> str:
    """Returns a few words for a failed connection. The caller adds the server's address."""
    if isinstance(failure, aiohttp.ClientConnectorError) and not isinstance(
        failure, aiohttp.ClientSSLError
    ):
        number = failure.os_error.errno
        # Errors of name resolution have negative numbers, and messages of their own.
        if number is not None and number > 0:
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


def is_refused(failure: Exception) -> bool:
    """True if nothing listens at the server's address."""
    return (
        isinstance(failure, aiohttp.ClientConnectorError)
        and failure.os_error.errno == errno.ECONNREFUSED
    )


def _lost_connection(failure: Exception) -> bool:
    """True if the connection was refused or lost, so that another attempt may succeed.

    False for a time-out, and for a bad certificate, which will be the same the next time.
    """
    return isinstance(failure, aiohttp.ClientConnectionError) and not isinstance(
        failure, TimeoutError | aiohttp.ClientSSLError
    )
