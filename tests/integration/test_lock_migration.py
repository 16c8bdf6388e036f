"""A scheduler with an older kind of lock leads in a whole cluster."""

from __future__ import annotations

import msgspec
import pytest

from berth.testing import Cluster, pod

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
