"""Leaders that are killed, or lose the lease, while pods wait for their volumes.

The schedulers are processes. The controllers of the toy cluster bind and make the volumes.
BERTH_ROUNDS sets the number of rounds of each test (1).
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import pytest

from berth.actors.runtime.clock import SystemClock
from berth.tools.cluster.controllers.cluster_access import OverHttp
from berth.tools.cluster.controllers.controller_manager import run_controllers
from berth.tools.cluster.kubelets.kubelets import run_kubelets
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit.daemons import LEADS, LEASE, Daemons, daemons
from tests.kit.documents import Document

pytestmark = pytest.mark.full

ROUNDS = int(os.environ.get("BERTH_ROUNDS", "1"))
CLAIMS, VOLUMES = "PersistentVolumeClaim", "PersistentVolume"
HOST = "kubernetes.io/hostname"
SELECTED = "volume.kubernetes.io/selected-node"
NODES, COUNT = 6, 12
FAST = ("--kube-api-qps=5000", "--kube-api-burst=5000")


class Storage:
    """A class of volumes, a volume for each claim if they are `static`, and a pod for each claim.

    Otherwise a volume is made in `seconds`, on one of the first three nodes.
    """

    def __init__(self, running: Daemons, *, static: bool, seconds: str = "1") -> None:
        self.running = running
        self.static = static
        self.seconds = seconds

    async def furnish(self) -> None:
        for number in range(1, NODES + 1):
            await self.running.create("Node", hollow_node(number))
        hosts = [f"node-{number}" for number in range(1, 4)]
        topology = {"matchLabelExpressions": [{"key": HOST, "values": hosts}]}
        storage_class = {
            "metadata": {"name": "s"},
            "volumeBindingMode": "WaitForFirstConsumer",
            "provisioner": "hollow.csi.berth.dev",
            "parameters": {"berth.dev/provision-seconds": self.seconds},
            "allowedTopologies": [topology],
        }
        if self.static:
            storage_class = {**storage_class, "provisioner": "kubernetes.io/no-provisioner"}
            del storage_class["allowedTopologies"]
        await self.running.create("StorageClass", storage_class)
        for i in range(COUNT):
            if self.static:
                await self.running.create(VOLUMES, local_volume(f"v{i}", f"node-{i % NODES + 1}"))
            claim_spec = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "s",
                "resources": {"requests": {"storage": "1Gi"}},
            }
            await self.running.create(CLAIMS, {"metadata": {"name": f"c{i}"}, "spec": claim_spec})

    async def pods(self) -> None:
        for i in range(COUNT):
            volume = {"name": "v", "persistentVolumeClaim": {"claimName": f"c{i}"}}
            spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
            await self.running.create("Pod", {"metadata": {"name": f"p{i}"}, "spec": spec})

    async def written(self) -> int:
        """Returns the number of writes to volumes and claims by schedulers."""
        if self.static:
            return sum("claimRef" in volume["spec"] for volume in await self.running.all(VOLUMES))
        claims = await self.running.all(CLAIMS)
        return sum(SELECTED in claim["metadata"].get("annotations", {}) for claim in claims)

    async def reserved(self) -> list[str]:
        volumes = await self.running.all(VOLUMES)
        return sorted(it["metadata"]["name"] for it in volumes if it["spec"].get("claimRef"))

    async def check(self) -> None:
        """Checks that each pod is bound once, where its volume is, with one claim a volume."""
        self.running.assert_bound_once(COUNT)
        volumes, claims = await self.running.by_name(VOLUMES), await self.running.by_name(CLAIMS)
        taken = [claim["spec"]["volumeName"] for claim in claims.values()]
        assert len(set(taken)) == COUNT
        for i in range(COUNT):
            volume = volumes[claims[f"c{i}"]["spec"]["volumeName"]]["spec"]
            assert volume["claimRef"]["name"] == f"c{i}"
            (term,) = volume["nodeAffinity"]["required"]["nodeSelectorTerms"]
            (requirement,) = term["matchExpressions"]
            assert self.running.nodes_of[f"p{i}"][0] in requirement["values"]
        # The controller takes back a volume that was reserved for a claim of another volume.
        with anyio.fail_after(20):
            while await self.reserved() != sorted(taken):
                await anyio.sleep(0.05)


def local_volume(name: str, node: str) -> Document:
    on_node = {"key": HOST, "operator": "In", "values": [node]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s",
        "local": {"path": "/data"},
        "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": affinity,
    }
    return {"metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def toy_cluster(folder: Path) -> AsyncIterator[Daemons]:
    async with daemons(folder) as running, anyio.create_task_group() as group:
        clock, rng = SystemClock(), Random(1)
        access = OverHttp(running.client, clock, rng)
        await group.start(run_controllers, access, clock, rng)
        await group.start(run_kubelets, access, clock, rng)
        yield running
        group.cancel_scope.cancel()


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("static", [True, False])
async def test_a_leader_killed_between_its_writes_and_the_bindings(
    tmp_path: Path, static: bool, number: int
) -> None:
    async with (
        toy_cluster(tmp_path) as running,
        running.scheduler(*FAST) as first,
        running.scheduler(*FAST) as second,
    ):
        storage = Storage(running, static=static)
        await storage.furnish()
        leader, standby = await running.leader_of(first, second)
        await storage.pods()
        most = Random(number).randrange(1, COUNT)
        with anyio.fail_after(20):
            while await storage.written() < most:
                pass
        leader.send(signal.SIGKILL)
        await leader.end()
        await standby.says(LEADS)
        await running.all_bound(COUNT)
        await storage.check()


async def test_nothing_is_written_by_a_leader_whose_lease_is_taken_while_pods_wait(
    tmp_path: Path,
) -> None:
    async with toy_cluster(tmp_path) as running, AsyncExitStack() as stack:
        storage = Storage(running, static=False, seconds="5")
        await storage.furnish()
        leader, between = await stack.enter_async_context(running.candidate(*FAST))
        await leader.says(LEADS)
        await storage.pods()
        with anyio.fail_after(20):
            while await storage.written() < COUNT:
                await anyio.sleep(0.05)
        assert not any(running.nodes_of.values())
        await running.client.patch(LEASE, {"spec": {"holderIdentity": "thief"}}, dict, "merge")
        assert await leader.end() == 1
        written = len(between.writes)
        assert not any("/binding" in write for write in between.writes)
        heir, _ = await stack.enter_async_context(running.candidate(*FAST))
        await heir.says(LEADS)
        await running.bound()
        await storage.check()
        assert len(between.writes) == written
