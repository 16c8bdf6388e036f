"""The way of a request: who sends it, whether they may, and then its page.

The same decoded path is authorized and looked up, and every page is read only.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping

from berth.actors.runtime.logs import get_logger
from berth.actors.server.authentication import Authenticator
from berth.actors.server.authorization import Authorizer
from berth.actors.server.identity import ANONYMOUS, User
from berth.actors.server.request import NOT_ALLOWED, NOT_FOUND, Answer, Request, refused, text
from berth.actors.server.reviews import ReviewFailedError

log = get_logger(__name__)

Page = Callable[[Request], Awaitable[Answer]]
UNAUTHORIZED = refused(401, "Unauthorized", "Unauthorized")
ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Site:
    """`pages` maps paths to pages. A path that ends with `/` stands for all that begin with it, the
    longest one first.
    """

    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, pages: Mapping[str, Page]
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._pages = {path: page for path, page in pages.items() if not path.endswith("/")}
        folders = [path for path in pages if path.endswith("/")]
        self._folders = {path: pages[path] for path in sorted(folders, key=len, reverse=True)}

    async def respond(self, request: Request) -> Answer:
        user = await self._authenticator.identify(request)
        if user is None:
            return UNAUTHORIZED
        try:
            decision = await self._authorizer.decide(user, request.method, request.path)
        except ReviewFailedError as problem:
            log.warning("cannot review access", error=str(problem), repeats="SubjectAccessReview")
            return text("500 the API server does not say whether this is allowed\n", 500)
        if not decision.allowed:
            # kube-scheduler refuses these as forbidden; but who shows no credentials may have some.
            if user is ANONYMOUS:
                return UNAUTHORIZED
            return _forbidden(user, request, decision.reason)
        page = self._page(request.path)
        if page is None:
            return NOT_FOUND
        if request.method not in ("GET", "HEAD"):
            return NOT_ALLOWED
        return await page(request)

    def _page(self, path: str) -> Page | None:
        if path in self._pages:
            return self._pages[path]
        return next((page for each, page in self._folders.items() if path.startswith(each)), None)


def _forbidden(user: User, request: Request, reason: str) -> Answer:
    name, path = (json.dumps(each, ensure_ascii=False) for each in (user.name, request.path))
    words = f"User {name} cannot {request.method.lower()} path {path}"
    message = f"forbidden: {words.translate(ESCAPES)}{f': {reason}' if reason else ''}"
    return refused(403, "Forbidden", message, details=True)
