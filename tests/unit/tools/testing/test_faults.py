"""Faults between the parts of a cluster in memory and its API server: the cluster outlives each."""

from __future__ import annotations

from typing import Any

import pytest

from berth.testing import Cluster, Fault, FaultError, deployment, node, nodes, pod, run_virtually
from berth.tools.cluster.faults.vocabulary import FAULTS, Does, Met

_MORE = {"foreign-bind": {"node": "node-2"}, "namespace-gone": {"namespace": "other"}}
_SECONDS = {"clock-jump": -3600.0, "stop": 20.0, "plugin-sleep": 0.5, "older": 30.0}


def fault(does: Does) -> Fault:
    """Returns a fault of a kind that is met often, and ends after a minute."""
    kind = FAULTS[does]
    fields: dict[str, Any] = dict(_MORE.get(does, {}))
    if "seconds" in kind.fields:
        fields["seconds"] = _SECONDS.get(does, 2.0)
    if kind.met is Met.TIME:
        return Fault(does, begin=10, **fields)
    return Fault(does, chance=0.5, end=60, **fields)


@pytest.mark.full("long")
@pytest.mark.parametrize("does", FAULTS)
def test_a_cluster_outlives_each_fault(does: Does) -> None:
    async def story() -> None:
        async with Cluster(nodes=3, faults=[fault(does)]) as cluster:
            await cluster.add(deployment("web", replicas=4, cpu=1))
            await cluster.run_for("12s")
            await cluster.scale("Deployment", "web", 8)
            await cluster.settled()
            assert cluster.faults.met[does]
            assert len(cluster.pod("web")) == 8
            assert cluster.pod("web").running()
            assert cluster.pods().bound_once()

    run_virtually(story)


async def test_a_fault_that_is_added_later_is_met(cluster: Cluster) -> None:
    await cluster.add(nodes(1), pod("a"))
    await cluster.settled()
    cluster.faults.add(Fault("refuse", code=409, paths=("/binding",), end=30))
    await cluster.add(pod("b"))
    await cluster.run_for("5s")
    assert cluster.pod("b").pending()
    assert cluster.events("FailedScheduling")
    await cluster.until(cluster.pod("b").placed_on, "2m")


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize("code", [409, 410])
async def test_a_pod_ends_though_a_write_of_its_kubelet_is_refused_without_a_change(
    cluster: Cluster, method: str, code: int
) -> None:
    await cluster.add(nodes(1), pod("a"), pod("b"))
    await cluster.settled()
    refused, paths = (method, "GET"), ("/pods/a", "/pods/a/status", "/pods/c/status")
    cluster.faults.add(Fault("refuse", code=code, methods=refused, paths=paths, end=40))
    await cluster.delete("Pod", "a")
    await cluster.add(pod("c"))
    await cluster.run_for("80s")
    assert cluster.faults.met["refuse"]
    assert [each["metadata"]["name"] for each in cluster.all("Pod")] == ["b", "c"]
    assert cluster.pod("c").running()


async def test_a_kubelet_rejects_a_pod_though_the_write_met_a_conflict(cluster: Cluster) -> None:
    await cluster.add(nodes(1, cpu=1))
    await cluster.settled()
    cluster.faults.add(Fault("refuse", code=409, paths=("/pods/big/status",), end=10))
    await cluster.add(pod("big", cpu=9, nodeName="node-1"))
    await cluster.run_for("30s")
    assert cluster.faults.met["refuse"]
    assert cluster.get("Pod", "big")["status"]["phase"] == "Failed"


async def test_a_plugin_of_a_running_cluster_cannot_fail(cluster: Cluster) -> None:
    with pytest.raises(FaultError, match="plugin-raise is not for a running cluster"):
        cluster.faults.add(Fault("plugin-raise"))


async def test_a_list_may_be_older_than_what_was_seen(cluster: Cluster) -> None:
    """A kubelet's node that was deleted comes back in an old list, and goes again."""
    cluster.faults.add(Fault("older", seconds=20), Fault("watch-expired", begin=40, chance=0.2))
    await cluster.add(nodes(2))
    await cluster.run_for("30s")
    await cluster.delete("Node", "node-2")
    await cluster.add(pod("b"), pod("c"))
    await cluster.settled()
    assert cluster.faults.met["older"]
    assert cluster.pods().placed_on("node-1", "node-1")


async def test_a_stopped_scheduler_does_not_decide_until_it_goes_on(cluster: Cluster) -> None:
    await cluster.add(nodes(1))
    await cluster.run_for("5s")
    cluster.faults.add(Fault("stop", seconds=100))
    await cluster.run_for("1s")
    await cluster.add(pod("a"))
    await cluster.run_for("98s")
    assert cluster.pod("a").pending()
    await cluster.run_for("5s")
    assert cluster.pod("a").placed_on("node-1")


async def test_somebody_else_binds_first(cluster: Cluster) -> None:
    cluster.faults.add(Fault("foreign-bind", seconds=0, node="far"))
    await cluster.add(nodes(1), node("far", unschedulable=True), pod("a"))
    await cluster.settled()
    assert cluster.pod("a").placed_on("far")
    assert cluster.pod("a").bound_once()


async def test_the_list_of_a_kind_without_objects_meets_a_fault() -> None:
    async with Cluster(faults=[Fault("older", seconds=30, end=60)]) as cluster:
        assert cluster.faults.met["older"] > 50
