"""The toy cluster's controllers leave objects alone that they cannot read, and go on."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.controllers.cluster_access import OverHttp
from berth.tools.cluster.controllers.controller_manager import run_controllers
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit import documents
from tests.kit.documents import Document
from tests.kit.logs import capture_logs
from tests.kit.stores import fresh_store

REPLICA_SETS, PODS = BY_KIND["apps/v1", "ReplicaSet"], BY_KIND["v1", "Pod"]


def replica_set(name: str, replicas: Any) -> Document:
    document = documents.workload("ReplicaSet", name, replicas=replicas)
    document["metadata"]["resourceVersion"] = "2"
    return document


async def test_an_object_that_cannot_be_read_is_left_alone_until_it_changes() -> None:
    store = fresh_store()
    for name, replicas in (("good", 2), ("odd", "many")):
        store.restore(REPLICA_SETS, replica_set(name, replicas))
    async with (
        serve(store=store) as url,
        Client(Connection(url)) as client,
        anyio.create_task_group() as group,
    ):

        async def count(app: str) -> int:
            path = f"{PODS.path()}?labelSelector=app={app}"
            return len((await client.call("GET", path, dict))["items"])

        async def wait_for(app: str, pods: int) -> None:
            with anyio.fail_after(20):
                while await count(app) != pods:
                    await anyio.sleep(0.02)

        with capture_logs() as logs:
            clock, rng = SystemClock(), Random(1)
            await group.start(run_controllers, OverHttp(client, clock, rng), clock, rng)
            await wait_for("good", 2)
            assert await count("odd") == 0
            body = {"spec": {"replicas": 1}}
            await client.patch(REPLICA_SETS.path("default", "odd"), body, dict, "merge")
            await wait_for("odd", 1)
        (warning,) = [line for line in logs if line["event"] == "object cannot be read"]
        assert (warning["kind"], warning["object"]) == ("ReplicaSet", "default/odd")
        assert "spec.replicas" in warning["why"]
        group.cancel_scope.cancel()
