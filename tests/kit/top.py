"""A cluster for `berth top` that a test fills and breaks, and the text on its screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import anyio
import pytest
from textual.pilot import Pilot

from berth.tools.answers.feed.story import Story
from berth.tools.views.top.cluster_model import Event
from berth.tools.views.top.view_source import LostError


class Filled:
    """Gives these events, and those put later, to everybody who connects. While there is a
    `fault`, it is raised instead.
    """

    def __init__(self, *events: Event) -> None:
        self.fault = ""
        self.stories: dict[str, Story] = {}
        self._events = list(events)
        self._news = anyio.Event()

    def put(self, *events: Event) -> None:
        self._events += events
        self._news.set()

    def fail(self, reason: str) -> None:
        self.fault = reason
        self._news.set()

    async def watch(self, take: Callable[[Event], None]) -> NoReturn:
        seen = 0
        while True:
            if self.fault:
                raise LostError(self.fault)
            for event in self._events[seen:]:
                take(event)
            seen = len(self._events)
            self._news = anyio.Event()
            await self._news.wait()

    async def story(self, key: str) -> Story | None:
        if self.fault:
            raise LostError(self.fault)
        return self.stories.get(key)


def screen_of(pilot: Pilot[None]) -> list[str]:
    """Returns the lines on the screen."""
    strips = pilot.app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


async def shows(pilot: Pilot[None], says: Callable[[str], bool]) -> str:
    """Waits until this is true of the screen, and returns it."""
    with anyio.move_on_after(5):
        while True:
            text = "\n".join(screen_of(pilot))
            if says(text):
                return text
            await pilot.pause(0.02)
    pytest.fail("\n".join(screen_of(pilot)))
