"""The server actor: /healthz, /livez, /readyz, /metrics and /configz, as kube-scheduler has them,
and /debug, over plain HTTP.

It starts before all others, and reports ready once every informer has its first list, also on a
standby. If the API server refuses to list a kind, it reports unready and names the kind. There is
no authentication: bind it to an address that can be reached only by users who may read the
configuration and the names of pods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import anyio
import msgspec
import structlog
from aiohttp import web
from anyio.abc import TaskStatus

from berth.actors.server.debug import Debug, answered
from berth.actors.server.metrics.exposition import CONTENT_TYPE
from berth.config.options import SecureServing

log = structlog.get_logger(__name__)

Measure = Callable[[], Awaitable[bytes]]


class ServerActor:
    """`metrics` maps paths to functions that return their text, `configuration` is shown by
    /configz, `debug` serves /debug.

    `missing` returns None if the process is ready, and otherwise the reason why it is not, "" if
    that is only a matter of time.
    """

    def __init__(
        self,
        serving: SecureServing,
        missing: Callable[[], str | None],
        metrics: Mapping[str, Measure],
        configuration: object,
        debug: Debug,
    ) -> None:
        self._serving = serving
        self._missing = missing
        self._metrics = metrics
        self._debug = debug
        self._configuration = msgspec.json.encode({"componentconfig": configuration})

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Raises OSError if the address cannot be bound."""
        app = web.Application()
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/livez", self._alive)
        app.router.add_get("/readyz", self._readiness)
        for path, measure in self._metrics.items():
            app.router.add_get(path, partial(_measured, measure))
        app.router.add_get("/configz", self._configured)
        app.router.add_routes(self._debug.routes())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._serving.bind_address, self._serving.secure_port).start()
            log.info("serving", url=f"http://{self._serving.bind_address}:{runner.addresses[0][1]}")
            task_status.started()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()

    async def _alive(self, request: web.Request) -> web.Response:
        return _checked(request, {"ping": None})

    async def _readiness(self, request: web.Request) -> web.Response:
        return _checked(request, {"ping": None, "sched-handler-sync": self._missing()})

    async def _configured(self, _: web.Request) -> web.Response:
        return web.Response(body=self._configuration, content_type="application/json")


async def _measured(measure: Measure, _: web.Request) -> web.Response:
    return web.Response(body=await answered(measure()), headers={"Content-Type": CONTENT_TYPE})


def _checked(request: web.Request, checks: dict[str, str | None]) -> web.Response:
    """The answer `ok`, or the result of every check if one failed or the query has `verbose`.
    `checks` has the problem of each check by name, None if it passed.
    """
    passed = all(problem is None for problem in checks.values())
    if passed and "verbose" not in request.query:
        return web.Response(text="ok")
    lines = [_line(name, problem) for name, problem in checks.items()]
    end = f"{request.path.strip('/')} check {'passed' if passed else 'failed'}"
    return web.Response(text="\n".join([*lines, end, ""]), status=200 if passed else 500)


def _line(name: str, problem: str | None) -> str:
    if problem is None:
        return f"[+]{name} ok"
    return f"[-]{name} failed: {problem}" if problem else f"[-]{name} failed"
