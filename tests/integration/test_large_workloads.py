"""Large workloads in a cluster, in virtual time: what they cost is counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from berth.testing import Cluster, run_virtually
from berth.tools.cluster.controllers import controller_manager
from berth.tools.kubernetes.workloads import replica_set
from tests.kit import documents

REPLICAS = 1000


@pytest.mark.full("long")
@pytest.mark.cluster(scheduler=False, kubelets=False)
async def test_the_decisions_on_a_workload_do_not_grow_with_its_pods(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    decide = replica_set.reconcile

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return decide(*arguments)

    monkeypatch.setattr(replica_set, "reconcile", counted)
    of = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    await cluster.add({**of, **documents.workload("ReplicaSet", "web", replicas=REPLICAS)})
    await cluster.run_for(10)
    names = cluster.pod("web").names
    assert len(names) == REPLICAS
    before = looks
    for name in names:  # for two seconds
        running = {"status": {"phase": "Running"}}
        await cluster.patch("Pod", name, running, subresource="status")
        await cluster.run_for(0.002)
    await cluster.run_for(10)
    assert 10 < looks - before < 30  # one in a tenth of a second


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

    async def story() -> None:
        notes = [lambda kind, _: written.update([kind.plural])]
        async with Cluster(nodes=20, scheduler=False, observers=notes) as cluster:
            await cluster.run_for(60)
            written.clear()
            touched.clear()
            await cluster.run_for(900)
            assert set(written) == {"leases", "nodes"}
            assert 1780 <= written["leases"] <= 1820
            assert 40 <= written["nodes"] <= 60
            assert not touched

    run_virtually(story)
