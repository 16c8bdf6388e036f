"""Why a question that is asked over HTTP has no answer, and how many may be asked at once.

A running scheduler imports this, and not what answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import anyio
import msgspec

from berth.actors.server.request import (
    JSON,
    MOST_BYTES,
    NOSNIFF,
    Answer,
    BodyTooLongError,
    UnreadableBodyError,
)

BODY_SECONDS = 10.0  # in which a question arrives
MOST_ARRIVING = 32
MOST_AT_ONCE = 4
RETRY_SECONDS = 1


class Refusal(msgspec.Struct, frozen=True):
    """The reason why there is no answer: the wrong field, "" if no field is wrong, and the expected
    value.
    """

    field: str
    problem: str


class RefusedError(Exception):
    def __init__(self, status: HTTPStatus, field: str, problem: str) -> None:
        super().__init__(problem)
        self.status = status
        self.refusal = Refusal(field, problem)

    @property
    def answer(self) -> Answer:
        """The refusal over HTTP."""
        again = self.status is HTTPStatus.TOO_MANY_REQUESTS
        headers = (("Retry-After", str(RETRY_SECONDS)), *NOSNIFF) if again else NOSNIFF
        return Answer(msgspec.json.encode(self.refusal), self.status, JSON, headers)


class Arrivals:
    """The questions that are arriving, at most MOST_ARRIVING. They take no turn yet: a client that
    is slow holds up nobody, and if there are too many, the one that began first is refused.
    """

    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, None] = {}

    async def whole(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Returns a body that arrives in time, of at most MOST_BYTES. Raises RefusedError."""
        if len(self._scopes) >= MOST_ARRIVING:
            next(iter(self._scopes)).cancel()
        scope = anyio.CancelScope(deadline=anyio.current_time() + BODY_SECONDS)
        self._scopes[scope] = None
        try:
            with scope:
                return await read()
        except BodyTooLongError:
            problem = f"the question is too long: expected at most {MOST_BYTES} bytes"
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", problem) from None
        except UnreadableBodyError:
            problem = "expected a body in the encoding that the head states"
            raise RefusedError(HTTPStatus.BAD_REQUEST, "", problem) from None
        finally:
            del self._scopes[scope]
        problem = f"expected the question within {BODY_SECONDS:g} seconds"
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "", problem)


class Turns:
    """The questions that wait or are being answered, at most MOST_AT_ONCE."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Takes a turn for the block. Raises RefusedError if there is none."""
        if self._taken == MOST_AT_ONCE:
            message = f"{MOST_AT_ONCE} questions are asked already: ask again later"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "", message)
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
