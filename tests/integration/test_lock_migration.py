"""Schedulers with an older kind of lock lead in a whole cluster, and migrate to leases."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from berth.testing import Cluster, pod
from tests.kit.daemons import LEADS, daemons
from tests.kit.processes import Berth

LOCK = {"leaderElect": True, "resourceLock": "endpointsleases"}


@pytest.mark.cluster(nodes=1, config={"leaderElection": LOCK})
async def test_a_leader_holds_the_record_and_the_lease(cluster: Cluster) -> None:
    await cluster.add(pod("a"))
    await cluster.settled()
    assert cluster.pod("a").running()
    await cluster.run_for("1s")  # a renewal of both locks ends
    annotations = cluster.get("Endpoints", "kube-scheduler", "kube-system")["metadata"][
        "annotations"
    ]
    record = msgspec.json.decode(annotations["control-plane.alpha.kubernetes.io/leader"])
    lease = cluster.get("Lease", "kube-scheduler", "kube-system")["spec"]
    assert record["holderIdentity"] == lease["holderIdentity"]
    assert record["renewTime"] == lease["renewTime"]
    told = [event for event in cluster.events("LeaderElection") if "became leader" in event]
    assert sorted(event.partition("/")[0] for event in told) == ["Endpoints", "Lease"]


@pytest.mark.full("processes")
async def test_a_migration_by_processes_whose_leaders_are_killed(tmp_path: Path) -> None:
    """From the record to the lease by kill -9: no pod is lost, and each leader waits until the lock
    of the one before has expired.
    """
    kinds = "endpoints", "endpointsleases", "leases"
    pods = 0
    async with daemons(tmp_path) as running, AsyncExitStack() as stack:
        await running.node("n")
        leaders: list[Berth] = []
        for kind in kinds:
            flag = f"--leader-elect-resource-lock={kind}"
            candidate = await stack.enter_async_context(running.scheduler(flag))
            await candidate.says("Attempting to acquire leader lease")
            told = [line for line in candidate.output.splitlines() if "deprecated kind" in line]
            advice = "leases once" if kind == "endpointsleases" else "endpointsleases once"
            assert [advice in line for line in told] == ([] if kind == "leases" else [True])
            if leaders:
                assert not candidate.count(LEADS)
                leaders[-1].send(signal.SIGKILL)
                await leaders[-1].end()
            await candidate.says(LEADS)
            leaders.append(candidate)
            await running.burst(f"p{len(leaders)}", 5)
            pods += 5
            await running.all_bound(pods)
        waited = await running.events("LeaderElection", "kube-system")
        assert {event["involvedObject"]["kind"] for event in waited} == {"Endpoints", "Lease"}
        assert (await running.lease())["leaseTransitions"] == len(kinds) - 1
        assert [leader.count(LEADS) for leader in leaders] == [1] * len(kinds)
