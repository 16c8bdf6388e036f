"""Volumes in a toy cluster over HTTP. The tests write what the scheduler would write."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from berth.tools.cluster.controllers.controller_manager import run_controllers
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit.cluster import Cluster, cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

pytestmark = pytest.mark.full("long")

NS = "default"
ZONE = "topology.kubernetes.io/zone"
SELECTED = "volume.kubernetes.io/selected-node"
DRIVER = "hollow.csi.berth.dev"


async def create(running: Cluster, kind: str, name: str, **fields: Any) -> Document:
    return await running.create(kind, {"metadata": {"name": name}, **fields})


async def create_claim(
    running: Cluster, name: str, storage_class: str | None = "s", **spec: Any
) -> Document:
    common: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if storage_class is not None:
        common["storageClassName"] = storage_class
    return await create(running, "PersistentVolumeClaim", name, spec={**common, **spec})


async def create_volume(running: Cluster, name: str, size: str = "1Gi", **spec: Any) -> Document:
    common = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s",
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }
    return await create(running, "PersistentVolume", name, spec={**common, **spec})


async def create_class(running: Cluster, *zones: str, mode: str = "", **fields: Any) -> None:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    mode = mode or "WaitForFirstConsumer"
    common = {"provisioner": DRIVER, "volumeBindingMode": mode, "allowedTopologies": terms}
    await create(running, "StorageClass", "s", **{**common, **fields})


async def create_pod(running: Cluster, name: str, *claims: str, **spec: Any) -> None:
    """Creates a pod on the first node: the claims are volumes of it."""
    volumes = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}}
        for i, claim in enumerate(claims)
    ]
    containers = [{"name": "c", "image": "i"}]
    common = {"nodeName": "node-1", "containers": containers, "volumes": volumes}
    await create(running, "Pod", name, spec={**common, **spec})


async def select(running: Cluster, claim: str, node: str) -> None:
    """Does what the scheduler does before it binds a pod."""
    body = {"metadata": {"annotations": {SELECTED: node}}}
    await running.patch("PersistentVolumeClaim", claim, body)


def phase(name: str) -> Callable[[Document], bool]:
    return lambda document: (document.get("status") or {}).get("phase") == name


def zones(volume: Document) -> list[str]:
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert expression["key"] == ZONE
    values: list[str] = expression["values"]
    return values


@asynccontextmanager
async def hollow(nodes: int = 3) -> AsyncIterator[Cluster]:
    async with cluster() as running:
        await running.start_hollow(map(hollow_node, range(1, nodes + 1)))
        yield running


@in_virtual_time
async def test_claims_get_the_smallest_volumes_each_its_own() -> None:
    async with hollow(0) as running:
        for i in range(20):
            await create_volume(running, f"v{i:02}", f"{i + 1}Gi")
        for i in range(10):
            await create_claim(running, f"c{i}")
        for i in range(10):
            await running.until("PersistentVolumeClaim", f"c{i}", phase("Bound"))
        claims = await running.all("PersistentVolumeClaim")
        names = sorted(claim["spec"]["volumeName"] for claim in claims)
        assert names == [f"v{i:02}" for i in range(10)]
        for claim in claims:
            volume = await running.until(
                "PersistentVolume", claim["spec"]["volumeName"], phase("Bound")
            )
            assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
            assert claim["status"]["capacity"] == volume["spec"]["capacity"]
        available = await running.all("PersistentVolume")
        assert Counter(each["status"]["phase"] for each in available) == {
            "Bound": 10,
            "Available": 10,
        }


@in_virtual_time
async def test_a_claim_that_waits_is_provisioned_where_the_scheduler_says() -> None:
    async with hollow() as running:
        await create_class(running, "zone-a", "zone-b", "zone-c")
        await create_claim(running, "c")
        await anyio.sleep(5)
        assert (await running.get("PersistentVolumeClaim", "c"))["status"] == {"phase": "Pending"}
        assert not await running.all("PersistentVolume")
        await select(running, "c", "node-2")
        claim = await running.until("PersistentVolumeClaim", "c", phase("Bound"), 1)
        volume = await running.get("PersistentVolume", claim["spec"]["volumeName"])
        assert zones(volume) == ["zone-b"]
        assert volume["spec"]["csi"]["driver"] == DRIVER
        await running.delete("PersistentVolumeClaim", "c")
        await running.gone("PersistentVolume", volume["metadata"]["name"])


@in_virtual_time
async def test_a_volume_reserved_by_the_scheduler_is_bound() -> None:
    async with hollow() as running:
        await create_class(running, provisioner="kubernetes.io/no-provisioner")
        claim = await create_claim(running, "c")
        await create_volume(running, "small")
        await create_volume(running, "large", "9Gi")
        await running.until("PersistentVolume", "large", phase("Available"))
        metadata = claim["metadata"]
        reference = {"namespace": NS, "name": "c", "uid": metadata["uid"]}
        bound_by = {"pv.kubernetes.io/bound-by-controller": "yes"}
        body = {"metadata": {"annotations": bound_by}, "spec": {"claimRef": reference}}
        await running.patch("PersistentVolume", "large", body)
        claim = await running.until("PersistentVolumeClaim", "c", phase("Bound"), 1)
        assert claim["spec"]["volumeName"] == "large"
        await running.delete("PersistentVolumeClaim", "c")
        await running.until("PersistentVolume", "large", phase("Released"))
        await running.patch("PersistentVolume", "large", {"spec": {"claimRef": None}})
        await running.until("PersistentVolume", "large", phase("Available"))


@in_virtual_time
async def test_a_class_created_later_and_the_default_class_provision_what_waits() -> None:
    async with hollow(1) as running:
        await create_claim(running, "named")
        await create_claim(running, "unnamed", None)
        await create_volume(running, "other", storageClassName="other")
        await running.until("PersistentVolume", "other", phase("Available"))
        assert phase("Pending")(await running.get("PersistentVolumeClaim", "named"))
        await create_class(running, mode="Immediate")
        await running.until("PersistentVolumeClaim", "named", phase("Bound"), 1)
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        await running.patch("StorageClass", "s", {"metadata": {"annotations": default}})
        claim = await running.until("PersistentVolumeClaim", "unnamed", phase("Bound"), 1)
        assert claim["spec"]["storageClassName"] == "s"


@in_virtual_time
async def test_a_claim_whose_volume_is_taken_away_is_lost() -> None:
    async with hollow(1) as running:
        await create_volume(running, "v")
        await create_claim(running, "c", volumeName="v")
        await running.until("PersistentVolumeClaim", "c", phase("Bound"))
        await running.until("PersistentVolume", "v", phase("Bound"))
        protected = "kubernetes.io/pv-protection"
        await running.until(
            "PersistentVolume", "v", lambda v: protected in v["metadata"].get("finalizers", ())
        )
        await running.delete("PersistentVolume", "v")
        await anyio.sleep(5)
        await running.get("PersistentVolume", "v")  # it is protected while it is bound
        await running.patch("PersistentVolume", "v", {"metadata": {"finalizers": None}})
        claim = await running.until("PersistentVolumeClaim", "c", phase("Lost"))
        assert "capacity" not in claim["status"]


@in_long_virtual_time
async def test_a_pod_waits_for_its_volume_and_keeps_its_claim() -> None:
    async with hollow(1) as running:
        await create_class(running, parameters={"berth.dev/provision-seconds": "30"})
        await create_claim(running, "c")
        await create_pod(running, "p", "c")
        pod = await running.until(
            "Pod", "p", lambda pod: bool(pod["status"].get("containerStatuses"))
        )
        (container,) = pod["status"]["containerStatuses"]
        assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await select(running, "c", "node-1")
        await anyio.sleep(20)
        assert phase("Pending")(await running.get("Pod", "p"))
        await running.until("Pod", "p", phase("Running"), 12)
        claim = await running.get("PersistentVolumeClaim", "c")
        (attachment,) = await running.all("VolumeAttachment")
        assert attachment["spec"] == {
            "attacher": DRIVER,
            "nodeName": "node-1",
            "source": {"persistentVolumeName": claim["spec"]["volumeName"]},
        }
        assert attachment["status"]["attached"] is True
        await running.delete("PersistentVolumeClaim", "c")
        await anyio.sleep(5)
        assert (await running.get("PersistentVolumeClaim", "c"))["metadata"]["deletionTimestamp"]
        await running.delete("Pod", "p")
        await running.gone("Pod", "p")
        await running.gone("PersistentVolumeClaim", "c")
        await running.gone("VolumeAttachment", attachment["metadata"]["name"])
        await running.gone("PersistentVolume", claim["spec"]["volumeName"])


@in_long_virtual_time
async def test_pods_that_change_while_their_volumes_come_start_all_the_same() -> None:
    async with hollow() as running:
        await create_class(running)

        names = [f"p{i}" for i in range(30)]
        for name in names:
            await create_claim(running, name)
            await create_pod(running, name, name)
        for name in names:
            await running.until(
                "Pod", name, lambda pod: bool(pod["status"].get("containerStatuses"))
            )
        body = {"metadata": {"labels": {"a": "b"}}}
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(running.patch, "Pod", name, body)
                group.start_soon(running.patch, "PersistentVolumeClaim", name, body)
        for name in names:
            await select(running, name, "node-1")
        for name in names:
            await running.until("Pod", name, phase("Running"))


@in_virtual_time
async def test_a_driver_without_attachment_needs_none() -> None:
    async with hollow(1) as running:
        await create(running, "CSIDriver", DRIVER, spec={"attachRequired": False})
        await create_class(running, mode="Immediate")
        await create_claim(running, "c")
        await create_pod(running, "p", "c")
        await running.until("Pod", "p", phase("Running"))
        assert not await running.all("VolumeAttachment")


@in_virtual_time
async def test_an_ephemeral_volume_lives_as_long_as_its_pod() -> None:
    async with hollow(1) as running:
        await create_class(running, mode="Immediate")
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "s",
        }
        volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
        await create_claim(running, "taken-scratch")
        await create_pod(running, "p", volumes=[volume])
        await create_pod(running, "taken", volumes=[volume])
        await running.until("Pod", "p", phase("Running"))
        assert phase("Pending")(await running.get("Pod", "taken"))
        await running.delete("Pod", "p")
        await running.gone("PersistentVolumeClaim", "p-scratch")
        await running.delete("Pod", "taken")
        await running.gone("Pod", "taken")
        await anyio.sleep(5)
        await running.get("PersistentVolumeClaim", "taken-scratch")


@in_virtual_time
async def test_capacity_is_kept_and_a_full_node_is_given_back() -> None:
    async with hollow(2) as running:
        await create(running, "CSIDriver", DRIVER, spec={"storageCapacity": True})
        await create_class(running)
        await create(
            running,
            "CSIStorageCapacity",
            "zone-a",
            storageClassName="s",
            capacity="2560Mi",
            nodeTopology={"matchLabels": {ZONE: "zone-a"}},
        )
        for name in ("a", "b", "c"):
            await create_claim(running, name)
            await select(running, name, "node-1")

        def given_back(claim: Document) -> bool:
            return SELECTED not in claim["metadata"]["annotations"]

        def left(capacity: str) -> Callable[[Document], bool]:
            return lambda document: bool(document["capacity"] == capacity)

        await running.until("CSIStorageCapacity", "zone-a", left("512Mi"))
        claims = await running.all("PersistentVolumeClaim")
        with anyio.fail_after(20):
            while Counter(map(given_back, claims)) != {False: 2, True: 1}:
                await anyio.sleep(0.1)
                claims = await running.all("PersistentVolumeClaim")
        bound = next(claim for claim in claims if not given_back(claim))
        await running.delete("PersistentVolumeClaim", bound["metadata"]["name"])
        await running.until("CSIStorageCapacity", "zone-a", left("1536Mi"))
        (waiting,) = [claim for claim in claims if given_back(claim)]
        await select(running, waiting["metadata"]["name"], "node-1")
        await running.until("PersistentVolumeClaim", waiting["metadata"]["name"], phase("Bound"))
        await running.until("CSIStorageCapacity", "zone-a", left("512Mi"))


@in_virtual_time
async def test_a_node_has_a_csi_node_that_can_be_changed_and_goes_with_it() -> None:
    async with hollow(2) as running:
        for name in ("node-1", "node-2"):
            csi_node = await running.until("CSINode", name, lambda _: True)
            (driver,) = csi_node["spec"]["drivers"]
            assert (driver["name"], driver["topologyKeys"]) == (DRIVER, [ZONE])
        limited = [{"name": DRIVER, "nodeID": "node-1", "allocatable": {"count": 2}}]
        await running.patch("CSINode", "node-1", {"spec": {"drivers": []}})
        await running.patch("CSINode", "node-1", {"spec": {"drivers": limited}})
        labels = {"metadata": {"labels": {"a": "b"}}}
        await running.patch("Node", "node-1", labels)
        await anyio.sleep(5)
        csi_node = await running.get("CSINode", "node-1")
        assert csi_node["spec"]["drivers"] == [{**limited[0], "topologyKeys": None}]
        await running.delete("Node", "node-2")
        await running.gone("CSINode", "node-2")


def stateful_set(**spec: Any) -> Document:
    labels = {"app": "db"}
    container = {"name": "c", "image": "i"}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "s",
    }
    return {
        "serviceName": "db",
        "selector": {"matchLabels": labels},
        "podManagementPolicy": "Parallel",
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        **spec,
    }


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
@in_virtual_time
async def test_the_claims_of_a_stateful_set_follow_its_policy(policy: str) -> None:
    async with hollow() as running:
        await create_class(running, "zone-a", "zone-b", "zone-c", mode="Immediate")
        retention = {"whenDeleted": policy, "whenScaled": policy}
        spec = stateful_set(replicas=3, persistentVolumeClaimRetentionPolicy=retention)
        await create(running, "StatefulSet", "db", spec=spec)
        names = [f"data-db-{i}" for i in range(3)]
        claims = [
            await running.until("PersistentVolumeClaim", name, phase("Bound")) for name in names
        ]
        await running.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
        await running.gone("Pod", "db-2")
        if policy == "Delete":
            await running.gone("PersistentVolumeClaim", "data-db-2")
        await anyio.sleep(2)
        await running.patch("StatefulSet", "db", {"spec": {"replicas": 3}})
        claim = await running.until("PersistentVolumeClaim", "data-db-2", phase("Bound"))
        kept = claim["metadata"]["uid"] == claims[2]["metadata"]["uid"]
        assert kept is (policy == "Retain")
        await running.until("Pod", "db-2", phase("Pending"))
        await running.delete("StatefulSet", "db")
        await running.gone("Pod", "db-0")
        await anyio.sleep(2)
        left = await running.all("PersistentVolumeClaim")
        assert len(left) == (3 if policy == "Retain" else 0)


@in_virtual_time
async def test_odd_storage_objects_stop_nothing() -> None:
    async with hollow(1) as running:
        await create_class(
            running, mode="Immediate", parameters={"berth.dev/provision-seconds": "soon"}
        )
        await create_claim(running, "odd")
        await create_pod(running, "lonely", "nowhere")
        await create(running, "CSIStorageCapacity", "odd", storageClassName="s")
        await create(running, "VolumeAttachment", "odd", spec={
            "attacher": "d", "nodeName": "nowhere", "source": {"persistentVolumeName": "none"}
        })  # fmt: skip
        await create(running, "CSINode", "nowhere", spec={"drivers": []})
        await create_volume(running, "prebound", claimRef={"name": "none", "namespace": NS})
        await create_volume(running, "v", storageClassName="")
        await create_claim(running, "c", "")
        await running.until("PersistentVolumeClaim", "c", phase("Bound"))
        await running.until("PersistentVolume", "prebound", phase("Available"))
        assert phase("Pending")(await running.get("PersistentVolumeClaim", "odd"))
        assert phase("Pending")(await running.get("Pod", "lonely"))


@in_virtual_time
async def test_two_sets_of_controllers_agree() -> None:
    async with hollow(1) as running:
        await running.start(run_controllers)
        await create_class(running, mode="Immediate")
        for i in range(10):
            await create_volume(running, f"v{i}")
        for i in range(15):
            await create_claim(running, f"c{i}")
        for i in range(15):
            await running.until("PersistentVolumeClaim", f"c{i}", phase("Bound"))
        claims = await running.all("PersistentVolumeClaim")
        names = [claim["spec"]["volumeName"] for claim in claims]
        assert len(set(names)) == 15
        for claim in claims:
            volume = await running.get("PersistentVolume", claim["spec"]["volumeName"])
            assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
@in_virtual_time
async def test_a_volume_is_kept_or_deleted_with_its_claim(policy: str) -> None:
    async with hollow(1) as running:
        await create_class(running, mode="Immediate", reclaimPolicy=policy)
        await create_claim(running, "c")
        claim = await running.until("PersistentVolumeClaim", "c", phase("Bound"))
        name = claim["spec"]["volumeName"]
        await running.delete("PersistentVolumeClaim", "c")
        if policy == "Delete":
            await running.gone("PersistentVolume", name)
        else:
            await running.until("PersistentVolume", name, phase("Released"))
