"""The page: its files, the feed as server-sent events, and the stories of pods.

Nothing is changed by GET and HEAD. A page that is made with more changes nodes, asks what-ifs or
takes their steps, by POST, with a token that only pages of the same origin can read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from secrets import compare_digest, token_urlsafe

import msgspec

from berth.actors.client.rest import ApiError
from berth.actors.server.request import (
    JSON,
    NOSNIFF,
    NOT_ALLOWED,
    NOT_FOUND,
    Answer,
    Request,
    text,
)
from berth.actors.server.site import Page

from ...answers.feed.feed import Feed, TooManyViewersError
from ...answers.feed.feed_source import Source
from ...answers.feed.page_actions import BUTTONS, PageActions
from ...answers.whatif.whatif_endpoint import WhatIfs
from .page_files import FILES, HEADERS, INDEX

PROOF_HEADER = "X-Berth-Token"
EVENTS = "text/event-stream"
DECISION = "POST", "/whatif"  # the right to a decision
TO_INDEX = Answer(b"", 302, headers=(("Location", "ui/"), *NOSNIFF))
Acts = Callable[[str, str], Awaitable[str]]  # performs one of BUTTONS on a node
_headers = tuple((name, value) for name, value in HEADERS.items() if name != "Cache-Control")


class ClusterPage:
    """The answers at /ui and below.

    It changes nodes only if there are `acts`, answers what-ifs only if there are `asks`, and takes
    their steps for real only if `does` answers such requests.
    """

    def __init__(
        self,
        source: Source,
        feed: Feed,
        acts: Acts | None = None,
        asks: WhatIfs | None = None,
        does: Page | None = None,
    ) -> None:
        self._source = source
        self._feed = feed
        self._acts = acts
        self._asks = asks
        self._does = does
        changes = any((acts, asks, does))
        self._actions = PageActions(
            token_urlsafe() if changes else "",
            acts is not None,
            asks is not None,
            does is not None,
            source.schedules,
            {} if asks is None else asks.weights,
            () if asks is None else asks.verbs,
        )

    async def show(self, request: Request) -> Answer:
        """Returns the answer to a request. Raises NoAnswerError."""
        path = request.path.split("/")[1:]
        if request.method == "POST" and self._actions.token:
            return await self._change(request, path)
        if request.method not in ("GET", "HEAD"):
            return NOT_ALLOWED
        match path:
            case ["" | "ui"]:
                return TO_INDEX
            case ["ui", "feed"]:
                if self._feed.is_full:
                    return text("too many viewers\n", 503)
                return Answer(
                    self._events(), content_type=EVENTS, headers=_headers, is_endless=True
                )
            case ["ui", "offers"]:
                return _json(self._actions)
            case ["ui", "pods", namespace, *parts]:  # The path is decoded: a name may hold a slash.
                name = "/".join(parts)
                decides = await request.may(*DECISION)
                story = await self._source.story(namespace, name, decides=decides)
                return NOT_FOUND if story is None else _json(story)
            case ["ui", name] if (name or INDEX) in FILES:
                file = FILES[name or INDEX]
                return Answer(file.body, content_type=file.content_type, headers=_headers)
            case _:
                return NOT_FOUND

    async def _change(self, request: Request, path: Sequence[str]) -> Answer:
        token = request.headers.get(PROOF_HEADER, "")
        if not compare_digest(token.encode(), self._actions.token.encode()):
            return text(f"{PROOF_HEADER}: reload the page, which has another token", 403)
        match path:
            case ["ui", "nodes", node, verb] if self._acts is not None and verb in BUTTONS:
                try:
                    return text(await self._acts(verb, node))
                except ApiError as refused:
                    return text(str(refused), refused.code)
            case ["ui", "whatif"] if self._asks is not None:
                return await self._asks.ask(request)
            case ["ui", "steps"] if self._does is not None:
                return await self._does(request)
            case _:
                return NOT_FOUND

    async def _events(self) -> AsyncGenerator[bytes, None]:
        try:
            with self._feed.viewer() as viewer:
                async for event in viewer.events():
                    yield event
        except TooManyViewersError:
            return


def _json(document: msgspec.Struct | msgspec.Raw) -> Answer:
    return Answer(msgspec.json.encode(document), content_type=JSON, headers=_headers)
