"""The REST half of the client: one connection pool, typed answers, errors as exceptions that say what happened.

Every request waits for the client's own rate limit. An answer that says when to come back (Retry-After) is retried, and
so is a GET that never reached the server; everything else is the caller's to judge. Mirrors client-go's rest client.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

import aiohttp
import msgspec

from actors.client.credentials import Credentials, CredentialsError, Fixed
from actors.client.rate_limit import TokenBucket
from actors.kube.meta import Status as ApiStatus
from actors.runtime.clock import Clock, SystemClock

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()
_STATUS = msgspec.json.Decoder(ApiStatus)
CONTENT_TYPES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
POOL = 100
MOST_RETRIES = 10
MOST_CONNECTION_RETRIES = 3
CONNECTION_RETRY_SECONDS = 0.1
UNAUTHORIZED = 401


class ApiError(Exception):
    """The API server refused: `code` is the HTTP status, `reason` Kubernetes' word for it, such as Conflict."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class ConnectionFailedError(Exception):
    """The API server could not be reached, did not answer in time, or answered something that is no answer."""


class Connection(msgspec.Struct, frozen=True):
    """Where the API server is and how to prove who we are. `tls` is None for plain HTTP.

    `server_name` is the name that the server's certificate is for, if it is not the URL's.
    """

    server: str
    tls: ssl.SSLContext | None = None
    credentials: Credentials = Fixed()
    server_name: str = ""
    proxy: str = ""


class Client:
    """An async context manager; paths begin with `/`, bodies are structs or mappings, answers typed by a struct.

    `qps` and `burst` are the client's own rate limit; no limit for a qps of 0.
    """

    def __init__(
        self,
        connection: Connection,
        timeout_seconds: float = 30.0,
        clock: Clock | None = None,
        qps: float = 0.0,
        burst: int = 0,
    ) -> None:
        self._connection = connection
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._clock = clock or SystemClock()
        self._limit = TokenBucket(qps, burst)
        self._session: aiohttp.ClientSession | None = None
        self._decoders: dict[type, msgspec.json.Decoder[object]] = {}
        self._options: dict[str, Any] = {}
        if connection.server_name:
            self._options["server_hostname"] = connection.server_name
        if connection.proxy:
            self._options["proxy"] = connection.proxy

    async def __aenter__(self) -> Client:
        tls = self._connection.tls
        connector = aiohttp.TCPConnector(limit=POOL, ssl=True if tls is None else tls)
        headers = {"User-Agent": "berth", "Accept": "application/json"}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "application/json",
    ) -> T:
        """One request. Raises ApiError if the server refuses, ConnectionFailedError if it cannot be reached."""
        data = None if body is None else _ENCODER.encode(body)
        headers = {} if body is None else {"Content-Type": content_type}
        retries = unreached = 0
        while True:
            try:
                raw = await self._once(method, path, data, headers)
                break
            except ApiError as refused:
                retries += 1
                if refused.retry_after is None or retries > MOST_RETRIES:
                    raise
                await self._clock.sleep(refused.retry_after)
            except aiohttp.ClientConnectorError as failure:
                unreached += 1
                if method != "GET" or unreached > MOST_CONNECTION_RETRIES:
                    raise self._unreachable(failure) from failure
                await self._clock.sleep(CONNECTION_RETRY_SECONDS * unreached)
            except (aiohttp.ClientError, TimeoutError, OSError) as failure:
                raise self._unreachable(failure) from failure
        decoder = self._decoders.get(answer)
        if decoder is None:
            decoder = self._decoders[answer] = msgspec.json.Decoder(answer, strict=False)
        try:
            decoded = decoder.decode(raw)
        except msgspec.DecodeError as problem:
            raise ConnectionFailedError(f"{self._connection.server}{path}: unexpected answer: {problem}") from None
        assert isinstance(decoded, answer)
        return decoded

    async def _once(self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]) -> bytes:
        async with self.request(method, path, data, headers) as response:
            return await response.read()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        headers: Mapping[str, str] = {},
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to one request, within the rate limit. Raises ApiError for a refusal, and aiohttp's errors."""
        wait = self._limit.take(self._clock.now())
        if wait:
            await self._clock.sleep(wait)
        session, url = self._session, self._connection.server.rstrip("/") + path
        assert session is not None, "the client is used outside its context"
        credentials = self._connection.credentials
        for attempt in (1, 2):
            try:
                authorization = await credentials.authorization(self._clock)
            except CredentialsError as problem:
                raise ConnectionFailedError(str(problem)) from None
            sent = {**headers, "Authorization": authorization} if authorization else headers
            within = timeout or self._timeout
            async with session.request(
                method, url, data=data, headers=sent, timeout=within, **self._options
            ) as response:
                if response.status == UNAUTHORIZED and attempt == 1 and credentials.refused():
                    continue
                if response.status >= 400:
                    retry_after = response.headers.get("Retry-After")
                    raise refusal(response.status, await response.read(), retry_after)
                yield response
            return

    def _unreachable(self, failure: BaseException) -> ConnectionFailedError:
        what = str(failure) or type(failure).__name__
        return ConnectionFailedError(f"{self._connection.server}: {what}")

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind a pod to a node. Raises as `call` does; 409 if the pod is bound, deleting or gated."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", ApiStatus, body)

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        """Patch an object or its status; `kind` is strategic or merge."""
        return await self.call("PATCH", path, answer, body, CONTENT_TYPES[kind])


def refusal(code: int, raw: bytes, retry_after: str | None) -> ApiError:
    """The error that an answer stands for; an answer that is no Status is quoted."""
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    try:
        status = _STATUS.decode(raw)
    except msgspec.DecodeError:
        return ApiError(code, "", f"HTTP {code}: {raw[:200].decode(errors='replace')}", seconds)
    return ApiError(code, status.reason, status.message or f"HTTP {code}", seconds)
