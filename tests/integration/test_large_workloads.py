"""Large workloads in a toy cluster, in virtual time: what they cost is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest

from berth.tools.cluster.controllers import controller_manager
from berth.tools.cluster.controllers.controller_manager import run_controllers
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.cluster.kubelets.kubelets import run_kubelets
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.kubernetes.workloads import replica_set
from berth.tools.testing.virtual_time import LoopClock, VirtualLoop
from tests.kit import documents
from tests.kit.stores import fresh_store

PODS, NODES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]
REPLICA_SETS = BY_KIND["apps/v1", "ReplicaSet"]
REPLICAS = 1000


def replicas(count: int) -> dict[str, Any]:
    return documents.workload("ReplicaSet", "web", replicas=count)


@pytest.mark.full("long")
def test_the_decisions_on_a_workload_do_not_grow_with_its_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    decide = replica_set.reconcile

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return decide(*arguments)

    monkeypatch.setattr(replica_set, "reconcile", counted)

    async def play() -> None:
        store = fresh_store()
        Api(store).seed()
        access, clock = EmbeddedAccess(store), LoopClock()
        async with anyio.create_task_group() as group:
            await group.start(run_controllers, access, clock, Random(1))
            Api(store).create(REPLICA_SETS, "default", replicas(REPLICAS))
            await anyio.sleep(10)
            names = [stored.document["metadata"]["name"] for stored in store.list(PODS)]
            assert len(names) == REPLICAS
            before = looks
            for name in names:  # for two seconds
                body = {"status": {"phase": "Running"}}
                await access.patch(f"/api/v1/namespaces/default/pods/{name}/status", body, dict)
                await anyio.sleep(0.002)
            await anyio.sleep(10)
            assert 10 < looks - before < 30  # one in a tenth of a second
            group.cancel_scope.cancel()

    with asyncio.Runner(loop_factory=partial(VirtualLoop, transit=0.0)) as runner:
        runner.run(play())


def test_a_cluster_at_rest_writes_leases_and_heartbeats_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is decided for a renewed lease, nor for a node that gives signs of life."""
    touched: Counter[str] = Counter()
    decide = controller_manager._Runner._decide

    def counted(self: controller_manager._Runner, item: Any) -> Any:
        touched[item.controller] += 1
        return decide(self, item)

    monkeypatch.setattr(controller_manager._Runner, "_decide", counted)
    written: Counter[str] = Counter()

    async def play() -> None:
        store = fresh_store(journal=lambda kind, event: written.update([kind.plural]))
        Api(store).seed()
        access, clock, rng = EmbeddedAccess(store), LoopClock(), Random(1)
        async with anyio.create_task_group() as group:
            for number in range(1, 21):
                Api(store).create(NODES, "", hollow_node(number))
            await group.start(run_kubelets, access, clock, rng)
            await group.start(run_controllers, access, clock, rng)
            await anyio.sleep(60)
            written.clear()
            touched.clear()
            await anyio.sleep(900)
            group.cancel_scope.cancel()

    with asyncio.Runner(loop_factory=partial(VirtualLoop, transit=0.0)) as runner:
        runner.run(play())
    assert set(written) == {"leases", "nodes"}
    assert 1780 <= written["leases"] <= 1820
    assert 40 <= written["nodes"] <= 60
    assert not touched
