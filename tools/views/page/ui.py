"""The page `/ui` of a running scheduler, with decisions of the process that answers what-ifs."""

from __future__ import annotations

import msgspec

from berth.actors.attempt.attempts_page import AttemptsPage
from berth.actors.runtime.clock import SystemClock
from berth.actors.server.site import Page
from berth.actors.wiring.view import View

from ...answers.whatif.answer_process import AnswerProcess
from ...answers.whatif.frames import StoryAsked
from ...answers.whatif.question_refusals import RefusedError, Turns
from ...answers.whatif.whatif_endpoint import beside
from .daemon_page import DaemonPage


def make(view: View) -> Page:
    """Returns the page /ui. Its feed works as long as the server does."""
    page = DaemonPage(view, SystemClock(), _Telling(view.shared(beside)).tell)
    view.start(page.run)
    return page.show


class _Telling:
    def __init__(self, process: AnswerProcess) -> None:
        self._process = process
        self._turns = Turns()

    async def tell(
        self, namespace: str, name: str, recorded: AttemptsPage
    ) -> msgspec.Raw | str | None:
        try:
            with self._turns.taken():
                return await self._process.story(StoryAsked(namespace, name, recorded, None))
        except RefusedError as refused:
            return str(refused)
