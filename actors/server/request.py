"""A request and its answer, independent of the HTTP library."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
NOSNIFF = (("X-Content-Type-Options", "nosniff"),)
NO_HEADERS: MultiMapping[str] = CIMultiDictProxy(CIMultiDict())
MOST_BYTES = 4 << 20  # of a body


class BodyTooLongError(Exception):
    """The body of a request is longer than MOST_BYTES."""


class UnreadableBodyError(Exception):
    """The body of a request is not in the encoding that its head states."""


async def _no_body() -> bytes:
    return b""


async def _may_not(_method: str, _path: str) -> bool:
    return False


class Request(msgspec.Struct, frozen=True):
    """A request. `path` is decoded; the same text is authorized and looked up.

    `certificates` is the client's verified chain in DER, its own certificate first; it may be
    empty. `body` receives the body, and raises BodyTooLongError or UnreadableBodyError. Only a page
    that takes one calls it, so that nothing is received of clients without permission. `may` tells
    whether the client may also request a method and a path, which is authorized like a request.
    """

    path: str
    method: str = "GET"
    query: Mapping[str, Sequence[str]] = {}
    headers: MultiMapping[str] = NO_HEADERS
    certificates: tuple[bytes, ...] = ()
    body: Callable[[], Awaitable[bytes]] = _no_body
    may: Callable[[str, str], Awaitable[bool]] = _may_not


class Answer(msgspec.Struct, frozen=True):
    """An answer. Its body may be sent in parts as they come.

    An endless body goes on until the client leaves, or until the client may no longer have it.
    """

    body: bytes | AsyncGenerator[bytes, None]
    status: int = 200
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = NOSNIFF
    is_endless: bool = False


def text(words: str, status: int = 200) -> Answer:
    return Answer(words.encode(), status)


NOT_FOUND = text("404 page not found\n", 404)
TOO_LONG = text(f"413 expected a body of at most {MOST_BYTES} bytes\n", 413)
UNREADABLE = text("400 expected a body in the encoding that the head states\n", 400)
NOT_ALLOWED = Answer(b"405 only GET and HEAD\n", 405, headers=(*NOSNIFF, ("Allow", "GET, HEAD")))


def refusal_status(code: int, reason: str, message: str, *, details: bool = False) -> Answer:
    """Returns the Status with which Kubernetes refuses requests."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": {}} if details else {}),
        "code": code,
    }
    encoded = msgspec.json.format(msgspec.json.encode(body), indent=2)
    return Answer(encoded, code, JSON, NOSNIFF if details else ())
