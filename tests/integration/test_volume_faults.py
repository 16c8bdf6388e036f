"""Volumes with an API server that answers wrongly, late or never, over HTTP in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from berth.actors.client.wire import MAX_CONNECTIONS
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response, Stream
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit import documents
from tests.kit.cluster import cluster
from tests.kit.documents import Document
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time


class Faulty:
    """A toy API server that never answers the requests that `hangs` names."""

    def __init__(self) -> None:
        store = fresh_store()
        Api(store).seed()
        self._server = Server(store)
        self.hangs: Callable[[HttpRequest], bool] = lambda _: False
        self.unanswered = 0

    def answer(self, request: HttpRequest) -> Response | Follow:
        if self.hangs(request):
            self.unanswered += 1
            return self._never
        return self._server.answer(request)

    async def _never(self, stream: Stream) -> None:
        await asyncio.Event().wait()


def pod(name: str, *claims: str) -> Document:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return documents.pod(name, volumes=volumes)


@in_virtual_time
async def test_claims_whose_changes_hang_hold_up_no_other_pod() -> None:
    """As with an admission webhook for claims that does not answer."""
    faulty = Faulty()
    async with cluster(faulty.answer) as running:
        allocatable = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
        node = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
        await running.create("Node", node)
        mode = {"provisioner": "driver", "volumeBindingMode": "WaitForFirstConsumer"}
        await running.create("StorageClass", {"metadata": {"name": "made"}, **mode})
        await running.schedule()
        faulty.hangs = lambda it: it.method == "PATCH" and "persistentvolumeclaims" in it.path
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "made",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        for i in range(2 * MAX_CONNECTIONS):
            claim = {"metadata": {"name": f"c{i}"}, "spec": spec}
            await running.create("PersistentVolumeClaim", claim)
            await running.create("Pod", pod(f"p{i}", f"c{i}"))
        with anyio.fail_after(10):
            while faulty.unanswered < MAX_CONNECTIONS:
                await anyio.sleep(0.1)
        await running.create("Pod", pod("other"))
        with anyio.fail_after(5):
            assert await running.node_of("other") == "n"
