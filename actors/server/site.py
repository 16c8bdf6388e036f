"""The handling of a request: authentication, authorization, and then the page.

The same decoded path is authorized and looked up. The pages of packages decide themselves which
methods they answer; all others are read-only.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial

import msgspec

from ..scheduling.framework.logger import get_logger
from .authentication import Authenticator
from .authorization import Authorizer, Decision
from .identity import ANONYMOUS, User
from .metrics.access import AccessMeasures
from .request import (
    NOT_ALLOWED,
    NOT_FOUND,
    TOO_LONG,
    UNREADABLE,
    Answer,
    BodyTooLongError,
    Request,
    UnreadableBodyError,
    refusal_status,
    text,
)
from .reviews import ReviewFailedError

log = get_logger(__name__)

Page = Callable[[Request], Awaitable[Answer]]
RECHECK_SECONDS = 30.0  # of an endless answer
UNAUTHORIZED = refusal_status(401, "Unauthorized", "Unauthorized")
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Site:
    """The pages by path, with the checks before them. `pages` maps paths to pages, `of_packages`
    has the pages of packages.

    A path that ends with `/` stands for all that begin with it, the longest one first. `now` is in
    monotonic seconds.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        pages: Mapping[str, Page],
        measures: AccessMeasures,
        now: Callable[[], float] = time.monotonic,
        of_packages: Mapping[str, Page] | None = None,
    ) -> None:
        pages = {path: partial(_read_only, page) for path, page in pages.items()} | (
            dict(of_packages or {})
        )
        self._measures = measures
        self._now = now
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._pages = {path: page for path, page in pages.items() if not path.endswith("/")}
        folders = [path for path in pages if path.endswith("/")]
        self._folders = {path: pages[path] for path in sorted(folders, key=len, reverse=True)}

    async def respond(self, request: Request) -> Answer:
        refusal = await self._refusal(request)
        if refusal is not None:
            return refusal
        page = self._page(request.path)
        if page is None:
            return NOT_FOUND
        try:
            may = partial(self._is_allowed, request)
            answer = await page(msgspec.structs.replace(request, may=may))
        except BodyTooLongError:
            return TOO_LONG
        except UnreadableBodyError:
            return UNREADABLE
        if answer.is_endless and not isinstance(answer.body, bytes):
            return msgspec.structs.replace(
                answer, body=self._parts_while_allowed(request, answer.body)
            )
        return answer

    async def _is_allowed(self, request: Request, method: str, path: str) -> bool:
        other = msgspec.structs.replace(request, method=method, path=path)
        return await self._refusal(other) is None

    async def _parts_while_allowed(
        self, request: Request, parts: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """Yields the parts of an answer as long as its client may have it."""
        checked = self._now()
        async with aclosing(parts):
            async for part in parts:
                if self._now() - checked >= RECHECK_SECONDS:
                    checked = self._now()
                    if await self._refusal(request) is not None:
                        return
                yield part

    async def _refusal(self, request: Request) -> Answer | None:
        """Returns why a client may not have what it requests; None if it may."""
        began = self._now()
        user = await self._authenticator.identify(request)
        identified = self._now()
        self._measures.authenticated(None if user is None else user.name, identified - began)
        if user is None:
            return UNAUTHORIZED
        result = "error"
        try:
            decision = await self._authorizer.decide(user, request.method, request.path)
            result = _result(decision)
        except ReviewFailedError as problem:
            log.warning("cannot review access", error=str(problem), repeats="SubjectAccessReview")
            return text("500 the API server does not say whether this is allowed\n", 500)
        finally:
            self._measures.authorized(result, self._now() - identified)
        if not decision.allowed:
            # kube-scheduler answers 403; but a client that sent no credentials may have some.
            if user is ANONYMOUS:
                return UNAUTHORIZED
            return _forbidden(user, request, decision.reason)
        return None

    def _page(self, path: str) -> Page | None:
        if path in self._pages:
            return self._pages[path]
        return next((page for each, page in self._folders.items() if path.startswith(each)), None)


async def _read_only(page: Page, request: Request) -> Answer:
    return await page(request) if request.method in ("GET", "HEAD") else NOT_ALLOWED


def _result(decision: Decision) -> str:
    if decision.allowed:
        return "allowed"
    return "denied" if decision.denied else "no-opinion"


def _forbidden(user: User, request: Request, reason: str) -> Answer:
    name, path = (json.dumps(each, ensure_ascii=False) for each in (user.name, request.path))
    words = f"User {name} cannot {request.method.lower()} path {path}"
    message = f"forbidden: {words.translate(ESCAPES)}{f': {reason}' if reason else ''}"
    return refusal_status(403, "Forbidden", message, details=True)
