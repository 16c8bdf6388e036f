"""A cluster whose API server has RBAC, and a scheduler there with the shipped rights. Prometheus
has the rights of the component "monitoring".
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import msgspec

from berth.actors.client.rest import ApiError, Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.kube.yaml_documents import documents
from berth.actors.system import run_scheduler
from berth.config.options import Authentication, Authorization, Options, SecureServing
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response, listen
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.processes import free_port
from tests.kit.rbac import Authorizer, attributes_of
from tests.kit.reviewer import Reviewer
from tests.kit.rights import DEPLOY, TOKEN, refusal
from tests.kit.serving import kubeconfig
from tests.kit.stores import fresh_store

PROMETHEUS, NOBODY = "token-of-prometheus", "token-of-nobody"
PATHS = ("/metrics", "/metrics/resources", "/configz", "/debug/cache")
REVIEWS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")


class Secured:
    """A server that answers reviews itself, and the rest as the embedded API server does."""

    def __init__(self) -> None:
        store = fresh_store()
        Api(store).seed()
        self._server = Server(store)
        self._reviewer = Reviewer()
        account = ("monitoring", "prometheus-k8s")
        name = "system:serviceaccount:" + ":".join(account)
        self._reviewer.add(PROMETHEUS, name)
        self._reviewer.add(NOBODY, "system:serviceaccount:default:default")
        roles = documents((DEPLOY / "components/monitoring/rbac.yaml").read_bytes())
        may = Authorizer(roles, *account).granting
        self._reviewer.rights |= {(name, path) for path in PATHS if may(attributes_of("GET", path))}

    def answer(self, request: HttpRequest) -> Response | Follow:
        if not request.path.startswith(REVIEWS):
            return self._server.answer(request)
        try:
            answer = self._reviewer.answered(request.method, request.path, request.body)
        except ApiError as refused:
            return Response(msgspec.json.encode({"message": str(refused)}), refused.code)
        return refusal(request) or Response(msgspec.json.encode(answer))


class Cluster(msgspec.Struct, frozen=True):
    """A secured cluster. `port` is the one on which the scheduler serves HTTPS."""

    client: Client
    port: int


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[Cluster]:
    """Runs both while the block runs. The test's client may do everything."""
    file, port = folder / "scheduler.conf", free_port()
    async with (
        listen(Secured().answer) as url,
        Client(Connection(url)) as client,
        anyio.create_task_group() as group,
    ):
        file.write_text(kubeconfig(url, "berth", token=TOKEN))
        await group.start(
            run_scheduler,
            KubeSchedulerConfiguration(),
            Connection(url),
            SystemClock(),
            Random(1),
            Options(
                serving=SecureServing("127.0.0.1", port),
                authentication=Authentication(kubeconfig=str(file)),
                authorization=Authorization(kubeconfig=str(file)),
            ),
        )
        yield Cluster(client, port)
        group.cancel_scope.cancel()
