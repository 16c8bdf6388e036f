"""The pages of packages. Each is made from a view of the scheduler at its first request.

A package has an entry in the group `berth.pages` that refers to a function `(view) -> page`. A page
is an async function from a Request to an Answer. It is called in the server's event loop, after the
authentication and the authorization of the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TypeVar, cast

import msgspec
from anyio.abc import TaskGroup

from berth.config.types import KubeSchedulerConfiguration

from ..attempt.attempts_page import AttemptsPage
from ..configuration.page_packages import every_page
from ..runtime.other_loop import OtherLoop
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.kinds import WatchedKind
from ..scheduling.kube.meta import HasMetadata
from ..server.actor import MakePage
from ..server.debug import Debug, NoAnswerError, answered
from ..server.request import Answer, Request, text
from ..server.site import Page
from .glance import Glance, Lookout, Parts

log = get_logger(__name__)

TAKEN = ("healthz", "livez", "readyz", "metrics", "configz", "debug", "flagz", "statusz")
T = TypeVar("T")
Objects = Mapping[WatchedKind, Mapping[str, HasMetadata]]


class Shown(msgspec.Struct, frozen=True):
    """The parts of the process that a view shows."""

    parts: Parts
    lookout: Lookout
    debug: Debug


class View:
    """The part of the scheduler that a page may see.

    Nothing here changes it, and each method is for the server's event loop. The methods that ask
    the scheduler's event loop raise NoAnswerError, which a page may leave to the server: it answers
    503.
    """

    def __init__(
        self,
        shown: Shown,
        elsewhere: OtherLoop,
        tasks: TaskGroup,
        shared: dict[tuple[Callable[..., object], TaskGroup], object],
    ) -> None:
        self._shown = shown
        self._shared = shared
        self._elsewhere = elsewhere
        self._tasks = tasks

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        return self._shown.parts.options.feature_gates

    async def configuration(self) -> KubeSchedulerConfiguration:
        """Returns the configuration in use."""
        return self._shown.parts.profiles.configuration

    async def objects(self, *kinds: WatchedKind) -> Objects:
        """Returns the objects that the scheduler follows at one moment, by kind and key: the
        objects of these kinds, or all if no kind is named.

        The objects are frozen, and an object that has not changed is the same object the next time.
        So is the mapping of a kind in which no object has changed, as long as the page keeps it.
        The copy of a mapping takes the scheduler's loop about 1 ms for 50,000 objects.
        """
        return await answered(self._elsewhere, partial(self._now, kinds))

    async def _now(self, kinds: Collection[WatchedKind]) -> Objects:
        return self._shown.parts.informers.objects(kinds)

    def still_for(self) -> float:
        """Returns the seconds for which the scheduler's event loop has been blocked."""
        return self._shown.parts.heartbeat.still_for()

    async def glance(self) -> Glance:
        """Returns the state of the queue and the scheduler."""
        return await answered(self._elsewhere, self._shown.lookout.glance)

    async def recorded(self, key: str) -> AttemptsPage | None:
        """Returns the recorded attempts of a pod (namespace/name); None without a recorder."""
        if self._shown.debug.attempts is None:
            return None
        return await answered(self._elsewhere, partial(self._shown.debug.recorded, key))

    def shared(self, make: Callable[[View], T]) -> T:
        """Returns the value that `make` returned to the first page of this server that
        shared it.
        """
        if (make, self._tasks) not in self._shared:
            self._shared[make, self._tasks] = make(self)
        return cast("T", self._shared[make, self._tasks])

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Starts a task that ends with the server at the latest. If it fails, the log says so."""
        self._tasks.start_soon(_run_logged, work)


async def _run_logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        log.exception("the task of a page failed")


def pages_of_packages(shown: Shown) -> dict[str, MakePage]:
    """Returns the functions that make the pages of installed packages, by name."""

    shared: dict[tuple[Callable[..., object], TaskGroup], object] = {}

    def page_of(load: Callable[[], object]) -> MakePage:
        return lambda elsewhere, tasks: _LatePage(load, View(shown, elsewhere, tasks, shared)).show

    return {name: page_of(load) for name, load in every_page(TAKEN).items()}


class _LatePage:
    """A page that is imported and made at its first request."""

    def __init__(self, load: Callable[[], object], view: View) -> None:
        self._load = load
        self._view = view
        self._page: Page | None = None

    async def show(self, request: Request) -> Answer:
        if self._page is None:
            make = self._load()
            if not callable(make):
                raise TypeError(f"expected a function that makes the page, got {make!r}")
            self._page = make(self._view)
        assert self._page is not None
        try:
            return await self._page(request)
        except NoAnswerError as problem:
            return text(f"no answer: {problem}\n", 503)
