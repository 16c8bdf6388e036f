"""The REST half of the client: one connection pool, typed answers, errors as exceptions that say what happened."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import TypeVar

import aiohttp
import msgspec

from actors.kube.meta import Status as ApiStatus

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()
_STATUS = msgspec.json.Decoder(ApiStatus)
CONTENT_TYPES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}


class ApiError(Exception):
    """The API server refused: `code` is the HTTP status, `reason` Kubernetes' word for it, such as Conflict."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class ConnectionFailedError(Exception):
    """The API server could not be reached, or did not answer in time."""


class Connection(msgspec.Struct, frozen=True):
    """Where the API server is and how to prove who we are. `tls` is None for plain HTTP."""

    server: str
    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str] = {}


class Client:
    """An async context manager; paths begin with `/`, bodies are structs or mappings, answers typed by a struct."""

    def __init__(self, connection: Connection, timeout_seconds: float = 30.0) -> None:
        self._connection = connection
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None
        self._decoders: dict[type, msgspec.json.Decoder[object]] = {}

    async def __aenter__(self) -> Client:
        tls = self._connection.tls
        connector = aiohttp.TCPConnector(limit=100, ssl=True if tls is None else tls)
        headers = {"User-Agent": "berth", "Accept": "application/json", **self._connection.headers}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the client is used outside its context"
        return self._session

    def url(self, path: str) -> str:
        return self._connection.server.rstrip("/") + path

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
        try:
            async with self.session.request(method, self.url(path), data=data, headers=headers) as response:
                raw = await response.read()
                if response.status >= 400:
                    raise refusal(response.status, raw, response.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            raise ConnectionFailedError(f"{self._connection.server}: {failure or type(failure).__name__}") from failure
        decoder = self._decoders.get(answer)
        if decoder is None:
            decoder = self._decoders[answer] = msgspec.json.Decoder(answer)
        decoded = decoder.decode(raw)
        assert isinstance(decoded, answer)
        return decoded

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
