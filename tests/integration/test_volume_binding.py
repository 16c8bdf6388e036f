"""VolumeBinding from the decision to the bound pod, in virtual time; the tests are the volume
controller. Afterwards the cache knows of the API server's objects what the API server has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.kinds import BY_KIND
from berth.plugin import PersistentVolume, PersistentVolumeClaim
from tests.kit.documents import Document, thing
from tests.kit.virtual_cluster import VirtualCluster, node, pod, virtual_cluster

VOLUMES, CLAIMS = BY_KIND["v1", "PersistentVolume"], BY_KIND["v1", "PersistentVolumeClaim"]
FIVE = {"VolumeBinding": {"bindTimeoutSeconds": 5}}
SELECTED, CONTROLLED = "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bound-by-controller"
DONE = "pv.kubernetes.io/bind-completed"


def storage_class(name: str, provisioner: str) -> Document:
    return thing(
        "StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer"
    )


def volume(name: str, on: str = "", **spec: Any) -> Document:
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": [on]}]}]
    if on:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return thing(
        "PersistentVolume",
        name,
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "hostPath": {"path": "/data"},
            **spec,
        },
        status={"phase": "Available"},
    )


def claim(name: str, of: str = "local") -> Document:
    return thing(
        "PersistentVolumeClaim",
        name,
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    )


def user(name: str, *claims: str) -> Document:
    document = pod(name)
    document["spec"]["volumes"] = [
        {"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims
    ]
    return document


async def furnish(cluster: VirtualCluster, *documents: Document) -> None:
    """Creates two nodes, two classes, and these objects."""
    for name in ("a", "b"):
        labelled = node(name, 1000)
        labelled["metadata"]["labels"] = {"host": name}
        labelled["status"]["allocatable"]["pods"] = 1000
        await cluster.create(labelled)
    await cluster.create(storage_class("local", "kubernetes.io/no-provisioner"))
    await cluster.create(storage_class("made", "driver"))
    for document in documents:
        await cluster.create(document)
    await cluster.clock.advance(1.0)


class Controller:
    """The volume controller and the provisioner, step by step."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster

    def claim(self, name: str = "c") -> PersistentVolumeClaim:
        stored: PersistentVolumeClaim = self.cluster.objects(CLAIMS)["default", name]
        return stored

    def volume(self, name: str = "v") -> PersistentVolume:
        stored: PersistentVolume = self.cluster.objects(VOLUMES)["", name]
        return stored

    async def patch(self, path: str, body: Document) -> None:
        await self.cluster.api.patch(path, body, object, "merge")

    async def patch_claim(self, name: str, body: Document) -> None:
        await self.patch(f"/api/v1/namespaces/default/persistentvolumeclaims/{name}", body)

    async def bind(self, name: str = "c", to: str = "v") -> None:
        done = {"metadata": {"annotations": {DONE: "yes"}}, "spec": {"volumeName": to}}
        await self.patch_claim(name, done)
        await self.patch(f"/api/v1/persistentvolumes/{to}", {"status": {"phase": "Bound"}})

    async def provision(self, name: str = "c") -> None:
        pvc = self.claim(name)
        on = pvc.metadata.annotations[SELECTED]
        reference = {"namespace": "default", "name": name, "uid": pvc.metadata.uid}
        await self.cluster.create(
            volume(f"for-{name}", on, storageClassName="made", claimRef=reference)
        )
        await self.bind(name, f"for-{name}")


def writes(cluster: VirtualCluster) -> list[tuple[str, Any]]:
    """Returns the writes to volumes and claims."""
    return [
        (write.path, write.body) for write in cluster.writes if "persistentvolume" in write.path
    ]


def on(cluster: VirtualCluster, name: str = "p") -> str:
    stored: Pod = cluster.pods()[name]
    return stored.spec.node_name


def condition(cluster: VirtualCluster, name: str = "p") -> str:
    (scheduled,) = cluster.pods()[name].status.conditions
    return scheduled.message


def settle(cluster: VirtualCluster) -> None:
    """Checks that nothing is assumed, and that the cache has the API server's objects."""
    assert cluster.snapshot is not None
    objects = cluster.snapshot.objects
    assert objects.assumed() == []
    for kind in (VOLUMES, CLAIMS):
        by_key = {(it.metadata.namespace, it.metadata.name): it for it in objects.every(kind.type)}
        assert by_key == cluster.objects(kind)
    objects.validate()


FAILED = 'running PreBind plugin "VolumeBinding": binding volumes: '


async def test_a_volume_is_bound_before_the_pod() -> None:
    async with virtual_cluster() as cluster:
        await furnish(cluster, volume("v", "b"), claim("c"))
        controller = Controller(cluster)
        read = controller.volume().metadata.resource_version
        claim_metadata = controller.claim().metadata
        await cluster.create(user("p", "c"))
        await cluster.clock.advance(100.0)
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "c",
            "uid": claim_metadata.uid,
            "resourceVersion": claim_metadata.resource_version,
        }
        metadata = {"resourceVersion": read, "annotations": {CONTROLLED: "yes"}}
        patch = {"metadata": metadata, "spec": {"claimRef": reference}}
        assert writes(cluster) == [("/api/v1/persistentvolumes/v", patch)]
        assert on(cluster) == ""
        await controller.bind()
        await cluster.clock.advance(0.0)
        assert on(cluster) == "b"
        settle(cluster)


@pytest.mark.parametrize("of", ["local", "made"])
async def test_a_controller_that_never_answers(of: str) -> None:
    async with virtual_cluster(args=FIVE) as cluster:
        await furnish(cluster, volume("v", "b"), claim("c", of))
        await cluster.create(user("p", "c"))
        await cluster.clock.advance(4.0)
        assert len(cluster.decisions) == 1
        assert not cluster.pods()["p"].status.conditions
        await cluster.clock.advance(1.5)
        assert condition(cluster) == f"{FAILED}context deadline exceeded"
        settle(cluster)
        await cluster.clock.advance(120.0)
        assert len(cluster.decisions) > 3
        controller = Controller(cluster)
        await (controller.bind() if of == "local" else controller.provision())
        await cluster.clock.advance(30.0)
        assert on(cluster)
        settle(cluster)


async def no_node(controller: Controller) -> None:
    for name in ("a", "b"):
        await controller.cluster.delete("Node", name)


async def no_claim(controller: Controller) -> None:
    await controller.cluster.delete("PersistentVolumeClaim", "c", "default")


async def no_volume(controller: Controller) -> None:
    await controller.cluster.delete("PersistentVolume", "v")


async def no_reference(controller: Controller) -> None:
    await controller.patch("/api/v1/persistentvolumes/v", {"spec": {"claimRef": None}})


async def no_selected_node(controller: Controller) -> None:
    await controller.patch_claim("c", {"metadata": {"annotations": {SELECTED: None}}})


async def another_node(controller: Controller) -> None:
    await controller.patch_claim("c", {"metadata": {"annotations": {SELECTED: "elsewhere"}}})


async def bound_to_another(controller: Controller) -> None:
    """Somebody has reserved another volume for the claim, and the controller chose that one."""
    await controller.cluster.create(volume("w", "a"))
    await controller.bind("c", "w")


async def volume_elsewhere(controller: Controller) -> None:
    await controller.cluster.create(volume("w", "elsewhere"))
    await controller.patch_claim("c", {"spec": {"volumeName": "w"}})


@pytest.mark.parametrize(
    ("of", "happens", "message"),
    [
        ("local", no_node, 'failed to get node "b": node "b" not found'),
        (
            "local",
            no_claim,
            'failed to check binding: persistentvolumeclaims "default/c" not found',
        ),
        ("local", no_volume, 'failed to check binding: persistentvolumes "v" not found'),
        ("local", no_reference, 'ClaimRef got reset for pv "v"'),
        ("local", bound_to_another, 'persistentvolumeclaims "default/c" is bound to pv "w"'),
        ("made", no_selected_node, 'selectedNode annotation reset for PVC "c"'),
        ("made", another_node, 'provisioning failed for PVC "c"'),
        (
            "made",
            no_claim,
            'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
        ),
        (
            "made",
            volume_elsewhere,
            'pv "w" node affinity doesn\'t match node "{}": no matching NodeSelectorTerms',
        ),
    ],
)
async def test_what_ends_the_wait(
    of: str, happens: Callable[[Controller], Any], message: str
) -> None:
    async with virtual_cluster() as cluster:
        await furnish(cluster, volume("v", "b"), claim("c", of))
        await cluster.create(user("p", "c"))
        await cluster.clock.advance(50.0)
        controller = Controller(cluster)
        chosen = controller.claim().metadata.annotations.get(SELECTED, "b")
        await happens(controller)
        await cluster.clock.advance(0.5)
        assert condition(cluster) == FAILED + message.format(chosen)
        settle(cluster)
        await cluster.clock.advance(60.0)
        assert len(cluster.decisions) > 1


@pytest.mark.parametrize("of", ["local", "made"])
async def test_a_claim_that_is_deleted_between_reserve_and_pre_bind(of: str) -> None:
    async with virtual_cluster(late=1.0) as cluster:
        await furnish(cluster, volume("v", "b"), claim("c", of))
        await cluster.create(user("p", "c"))
        await cluster.clock.advance(0.6)
        assert len(cluster.decisions) == 1
        assert not writes(cluster)
        await cluster.delete("PersistentVolumeClaim", "c", "default")
        await cluster.clock.advance(60.0)
        assert 'persistentvolumeclaim "c" not found' in condition(cluster)
        settle(cluster)
        if of == "local":  # the volume is reserved for the claim that is gone
            await no_reference(Controller(cluster))
        await cluster.create(claim("c", of))
        await cluster.clock.advance(3.0)
        assert len(writes(cluster)) == 2


@pytest.mark.parametrize("of", ["local", "made"])
async def test_a_change_before_the_write(of: str) -> None:
    """The write is refused, and the pod is decided again."""
    async with virtual_cluster(late=1.0) as cluster:
        await furnish(cluster, volume("v", "b"), claim("c", of))
        controller = Controller(cluster)
        await cluster.create(user("p", "c"))
        await cluster.clock.advance(0.6)
        assert len(cluster.decisions) == 1
        other = {"metadata": {"annotations": {"other": "note"}}}
        await controller.patch("/api/v1/persistentvolumes/v", other)
        await controller.patch_claim("c", other)
        await cluster.clock.advance(1.0)
        settle(cluster)
        await cluster.clock.advance(10.0)
        assert "has another resourceVersion" in condition(cluster)
        assert len(cluster.decisions) == 2
        await (controller.bind() if of == "local" else controller.provision())
        await cluster.clock.advance(3.0)
        assert on(cluster)
        settle(cluster)


async def test_a_pod_that_is_deleted_while_it_waits() -> None:
    async with virtual_cluster() as cluster:
        await furnish(cluster, volume("v", "b"), claim("c"), claim("d", "made"))
        await cluster.create(user("p", "c", "d"))
        await cluster.clock.advance(10.0)
        assert len(writes(cluster)) == 2
        await cluster.delete_pod("p")
        await cluster.clock.advance(10.0)
        settle(cluster)
        assert len(cluster.decisions) == 1
        await cluster.create(user("q", "c", "d"))
        await cluster.clock.advance(1.0)
        controller = Controller(cluster)
        await controller.bind()
        await controller.provision("d")
        await cluster.clock.advance(1.0)
        # The volume for the second claim was to be made on the node of the first.
        assert on(cluster, "q") == "b"
        settle(cluster)


@pytest.mark.full("long")
async def test_a_volume_that_appears_after_an_hour() -> None:
    async with virtual_cluster() as cluster:
        await furnish(cluster, claim("c"))
        await cluster.create(user("p", "c"))
        await cluster.clock.advance(3600.0)
        assert "didn't find available persistent volumes to bind" in condition(cluster)
        tried = len(cluster.decisions)
        await cluster.create(volume("v", "a"))
        await cluster.clock.advance(1.0)
        assert len(cluster.decisions) == tried + 1
        await Controller(cluster).bind()
        await cluster.clock.advance(1.0)
        assert on(cluster) == "a"
        settle(cluster)


async def test_pods_of_one_claim_share_it() -> None:
    """The second pod is decided while the claim is assumed only."""
    async with virtual_cluster(late=1.0) as cluster:
        await furnish(cluster, claim("c", "made"))
        await cluster.create(user("p", "c"))
        await cluster.create(user("q", "c"))
        await cluster.clock.advance(10.0)
        await Controller(cluster).provision()
        await cluster.clock.advance(30.0)
        assert on(cluster, "p") == on(cluster, "q") != ""
        settle(cluster)


@pytest.mark.full("long")
async def test_many_pods_wait_together_and_hold_up_nobody() -> None:
    async with virtual_cluster() as cluster:
        await furnish(cluster, *(claim(f"c{i}", "made") for i in range(100)))
        controller = Controller(cluster)
        start = cluster.clock.now()
        for i in range(100):
            await cluster.create(user(f"p{i}", f"c{i}"))
        for i in range(50):
            await cluster.create(pod(f"q{i}"))
        await cluster.clock.advance(1.0)
        assert all(on(cluster, f"q{i}") for i in range(50))
        assert len(writes(cluster)) == 100
        assert not any(on(cluster, f"p{i}") for i in range(100))
        await cluster.clock.advance(start + 10.0 - cluster.clock.now())
        for i in range(100):
            await controller.provision(f"c{i}")
        await cluster.clock.advance(0.0)
        assert all(on(cluster, f"p{i}") for i in range(100))
        assert len(writes(cluster)) == 100
        settle(cluster)
