"""The server actor: kube-scheduler's pages over HTTPS, and berth's own below /debug.

It starts before all others and has a thread of its own, so that it answers while the scheduler's
event loop is blocked, and neither handshakes nor large answers delay scheduling. It asks the
scheduler's event loop for data that belongs there; the health checks only read.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup, TaskStatus

from berth.config.options import (
    Authentication,
    Authorization,
    Options,
    SecureServing,
)

from ..client.access import Calls
from ..client.credentials import KubeconfigError
from ..client.in_cluster import SERVICE_ACCOUNT, in_cluster
from ..client.kubeconfig import load
from ..client.rest import Client, Connection
from ..process.version import USER_AGENT
from ..runtime.backoff import Rng
from ..runtime.clock import Clock, SystemClock
from ..runtime.exceptions import ungrouped
from ..runtime.other_loop import OtherLoop
from ..runtime.own_thread import in_own_thread
from ..scheduling.framework.logger import get_logger
from ..telemetry.measures import Registry
from .authentication import Authenticator
from .authorization import Authorizer, OpenPaths
from .debug import Debug, NoAnswerError, answered
from .health import Health
from .https import HttpsServer, listen
from .lookup import ClientAuthorities
from .metrics.access import AccessMeasures
from .metrics.exposition import CONTENT_TYPE
from .request import Answer, Request, text
from .reviews import AccessReviews, TokenReviews
from .site import Page, Site
from .tls import ServingContexts, ServingError
from .zpages import ConfigurationPage, FlagsPage, StatusPage, process_start, verbosity_flag

log = get_logger(__name__)

QPS, BURST = 200.0, 400  # of reviews, as in kube-scheduler
REVIEW_SECONDS = 10.0
PROCESS_START = process_start()
STARTED = ("Process-Start-Time-Unix", str(int(PROCESS_START.timestamp())))
EVERY_PATH = "/*"
Measure = Callable[[], Awaitable[bytes]]
# Makes a page. It is given the scheduler's event loop, and tasks that end with the server.
MakePage = Callable[[OtherLoop, TaskGroup], Page]


class PageSources(NamedTuple):
    """The data of the pages. `metrics` maps paths to functions that return the text, and run in the
    scheduler's event loop. `configuration` returns the content of /configz. The families about
    requests are added to `registry`. `of_packages` makes the pages of packages by name: each
    answers /NAME and all paths below it.
    """

    health: Health
    metrics: Mapping[str, Measure]
    configuration: Callable[[], dict[str, Any]]
    debug: Debug
    registry: Registry
    of_packages: Mapping[str, MakePage] = {}


class Delegates(NamedTuple):
    """The API servers for TokenReviews and for SubjectAccessReviews; None where no reviews are
    sent.
    """

    authentication: Connection | None
    authorization: Connection | None


def delegates(
    authentication: Authentication,
    authorization: Authorization,
    environ: Mapping[str, str] = os.environ,
    folder: Path = SERVICE_ACCOUNT,
) -> Delegates:
    """Returns the API servers of the two kubeconfigs, or of the cluster that this process is a pod
    of. Raises KubeconfigError for a kubeconfig that cannot be used.
    """

    def connection(kubeconfig: str, what: str) -> Connection | None:
        if kubeconfig:
            return load(kubeconfig)
        if not environ.get("KUBERNETES_SERVICE_HOST"):
            return None
        try:
            return in_cluster(environ, SystemClock(), folder)
        except KubeconfigError as problem:
            log.warning(
                f"failed to read in-cluster kubeconfig for delegated {what}", error=str(problem)
            )
            return None

    return Delegates(
        connection(authentication.kubeconfig, "authentication"),
        connection(authorization.kubeconfig, "authorization"),
    )


class ServerActor:
    def __init__(
        self, serving: SecureServing, options: Options, shown: PageSources, rng: Rng
    ) -> None:
        self._serving = serving
        self._options = options
        self._shown = shown
        self._measures = AccessMeasures(shown.registry)
        self._chance = Random(rng.random())  # of the server's thread
        self._clock = SystemClock()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled. Raises OSError if the address cannot be bound or a file cannot be
        read, ServingError, KubeconfigError and LookupFailedError for settings that cannot be used.
        """
        serving, options = self._serving, self._options
        reviewers = delegates(options.authentication, options.authorization)
        try:
            always = OpenPaths(options.authorization.always_allow_paths)
            authorities = ClientAuthorities(
                options.authentication, self._clock, reachable=reviewers.authentication is not None
            )
        except ValueError as problem:
            raise ServingError(str(problem)) from None
        contexts = ServingContexts(serving, authorities.certificates)
        elsewhere = OtherLoop()

        async def serve(listener: socket.socket) -> None:
            async with AsyncExitStack() as clients, anyio.create_task_group() as group:
                tokens = access = None
                if reviewers.authentication is not None:
                    calls = await clients.enter_async_context(
                        self._client(reviewers.authentication)
                    )
                    group.start_soon(authorities.follow, calls)
                    seconds = options.authentication.token_webhook_cache_ttl
                    tokens = TokenReviews(calls, self._clock, self._chance, seconds, self._measures)
                if reviewers.authorization is not None:
                    calls = await clients.enter_async_context(self._client(reviewers.authorization))
                    access = self._access_reviews(calls)
                measures = self._measures
                wall, now = self._clock.wall, self._clock.now
                reads_uids = options.feature_gates["AllowParsingUserUIDFromCertAuth"]
                authenticator = Authenticator(
                    authorities.current, tokens, wall, measures, reads_uids=reads_uids
                )
                authorizer = Authorizer(always, access)
                pages_by_path = pages(self._shown, options, self._clock, elsewhere)
                of_packages = {
                    path: page
                    for name, make in self._shown.of_packages.items()
                    for page in (make(elsewhere, group),)
                    for path in (f"/{name}", f"/{name}/")
                }
                of_packages["/debug/flags/v"] = verbosity_flag
                site = Site(authenticator, authorizer, pages_by_path, measures, now, of_packages)
                await HttpsServer(listener, contexts, site.respond).run()

        address, port = serving.bind_address, serving.secure_port
        with closing(listen(address, port, share_port=serving.permit_port_sharing)) as listener:
            log.info("Serving securely on", address=f"{address}:{port}")
            authorities.warn()
            asks = EVERY_PATH not in options.authorization.always_allow_paths
            if asks and reviewers.authorization is None:
                log.warning(
                    "No authorization-kubeconfig provided, so SubjectAccessReview of authorization"
                    " tokens won't work."
                )
            task_status.started()
            with ungrouped():
                await in_own_thread(partial(serve, listener), "server")

    def _client(self, connection: Connection) -> Client:
        return Client(
            connection.for_another_thread(), REVIEW_SECONDS, qps=QPS, burst=BURST, agent=USER_AGENT
        )

    def _access_reviews(self, calls: Calls) -> AccessReviews:
        settings = self._options.authorization
        return AccessReviews(
            calls,
            self._clock,
            self._chance,
            settings.webhook_cache_authorized_ttl,
            settings.webhook_cache_unauthorized_ttl,
            self._measures,
        )


def pages(
    shown: PageSources, options: Options, clock: Clock, elsewhere: OtherLoop
) -> dict[str, Page]:
    """Returns the pages by path. `elsewhere` is the scheduler's event loop."""

    async def health(request: Request) -> Answer:
        return shown.health.answer(request)

    async def debug(request: Request) -> Answer:
        return await shown.debug.show(request, elsewhere)

    def measured(measure: Measure) -> Page:
        async def show(_: Request) -> Answer:
            try:
                body = await answered(elsewhere, measure)
            except NoAnswerError as problem:
                return text(f"no answer: {problem}\n", 503)
            return Answer(body, content_type=CONTENT_TYPE, headers=(STARTED,))

        return show

    pages_by_path: dict[str, Page] = {
        **dict.fromkeys(shown.health.paths(), health),
        **{f"{path}/": health for path in shown.health.paths()},
        **{path: measured(measure) for path, measure in shown.metrics.items()},
        "/configz": ConfigurationPage(shown.configuration).show,
        "/debug/": debug,
    }
    if options.feature_gates["ComponentFlagz"]:
        pages_by_path["/flagz"] = FlagsPage(options.flags).show
    if options.feature_gates["ComponentStatusz"]:
        status = StatusPage(pages_by_path, PROCESS_START, clock.wall, options.version)
        pages_by_path["/statusz"] = status.show
    return pages_by_path
