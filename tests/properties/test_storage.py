"""The toy cluster's controllers of storage in random histories: whatever users, the scheduler and
late watches do, and however writes fail, everything is bound once and nothing is left over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.annotations import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    SELECTED_NODE,
)
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from berth.actors.scheduling.kube.volumes import size_of
from berth.tools.cluster.controllers.controller_table import ControllerTable
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions, Preconditions
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import KINDS
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.kubernetes.object_index import ObjectChange, ObjectIndex
from berth.tools.kubernetes.objects.structs import TYPES, Document, Pod, S, read
from berth.tools.kubernetes.objects.writes import Again, Create, Delete, Look, Patch, Write
from berth.tools.kubernetes.storage import attachment, volume_binder
from berth.tools.kubernetes.storage.capacity import quantity_of
from berth.tools.kubernetes.storage.pod_volumes import (
    PodClaim,
    claim_reference,
    driver_in,
    pod_claims,
)
from berth.tools.kubernetes.storage.topology import segment_in
from berth.tools.kubernetes.work_items import Item
from tests.kit.examples import examples
from tests.kit.stores import fresh_store

NS = "default"
ZONE = "topology.kubernetes.io/zone"
GIB = 10**9 << 30
KIND = {kind.kind: kind for kind in KINDS if kind.stored_as is None}
CLAIM, VOLUME = KIND["PersistentVolumeClaim"], KIND["PersistentVolume"]
ROOM = 5
CLAIMS = 20


class Toy:
    """An API server's store and the controllers, with watches and writes in random order."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.store = fresh_store()
        self.api = Api(self.store)
        self.api.seed()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.restart()

    def restart(self) -> None:
        self.cluster, self.controllers = ObjectIndex(), ControllerTable(lambda: self.now)
        self.dirty: dict[Item, None] = {}
        self.under_way: dict[Item, list[Write]] = {}
        self.due: list[tuple[datetime, Item]] = []
        self.seen = dict.fromkeys(TYPES, self.store.revision)
        for kind in TYPES:
            self.cluster.replace(TYPES[kind], self.all(TYPES[kind]))
        for kind in TYPES:
            for obj in list(self.cluster.all(TYPES[kind])):
                self.touch([ObjectChange(None, obj)])

    def all(self, kind: type[S]) -> list[S]:
        stored = self.store.list(KIND[kind.__name__])
        return [read(item.document, kind) for item in stored]

    def touch(self, changes: Iterable[ObjectChange | None]) -> None:
        for change in changes:
            if change is not None:
                self.dirty.update(dict.fromkeys(self.controllers.touched(self.cluster, change)))

    def watch(self, kind: str, most: int) -> None:
        """Reports the next changes of a kind to the controllers."""
        for event in self.store.since(KIND[kind], self.seen[kind])[:most]:
            self.seen[kind] = event.after.revision
            exists = event.type != "DELETED"
            act = self.cluster.put if exists else self.cluster.remove
            self.touch([act(read(event.after.document, TYPES[kind]))])

    def work(self) -> None:
        """Decides on an item, or makes the next write of one that has been decided on."""
        ready = [item for item in self.dirty if item not in self.under_way]
        if self.under_way and (not ready or self.rng.random() < 0.5):
            item = self.rng.choice(list(self.under_way))
            writes = self.under_way[item]
            reaches = self.rng.random() > 0.05
            if not reaches or not self.write(writes.pop(0)):
                self.dirty[item] = None
            if not writes:
                del self.under_way[item]
            return
        item = self.rng.choice(ready)
        del self.dirty[item]
        decided = self.controllers.reconcile(self.cluster, item, self.now)
        for write in decided:
            if isinstance(write, Again):
                self.due.append((self.now + timedelta(seconds=write.seconds), item))
        writes = [write for write in decided if not isinstance(write, Again)]
        if writes:
            self.under_way[item] = writes

    def write(self, write: Write) -> bool:
        """Returns False if the server refuses the write or its answer is lost, or if the item needs
        another decision because an object is absent.
        """
        if isinstance(write, Look):
            return self._is_there(write)
        try:
            done, gone = self._written(write)
        except RefusedError:
            return False
        if self.rng.random() < 0.1:
            return False
        if done["kind"] not in TYPES:
            return True
        obj = read(done, TYPES[done["kind"]])
        self.touch([self.cluster.remove(obj) if gone else self.cluster.put(obj)])
        return True

    def _is_there(self, look: Look) -> bool:
        stored = self.store.find(KIND[look.kind], look.namespace, look.name)
        if stored is not None and stored["metadata"]["uid"] == look.uid:
            return True
        self.cluster.note_absent(look.kind, look.namespace, look.name, look.uid)
        return False

    def _written(self, write: Write) -> tuple[Document, bool]:
        """Returns the server's answer, and True if the object is gone."""
        match write:
            case Create(kind, document):
                namespace = document["metadata"].get("namespace", "")
                return self.api.create(KIND[kind], namespace, document).document, False
            case Patch(kind, namespace, name, body, subresource):
                done = self.api.patch(KIND[kind], namespace, name, body, MERGE, subresource)
                return done.document, False
            case Delete(kind, namespace, name, uid, grace):
                preconditions = Preconditions(uid=uid)
                options = DeleteOptions(grace_period_seconds=grace, preconditions=preconditions)
                done = self.api.delete(KIND[kind], namespace, name, options)
                return done.document, self.store.find(KIND[kind], namespace, name) is None
            case _:
                raise AssertionError(write)

    def step(self) -> None:
        if (self.dirty or self.under_way) and self.rng.random() < 0.7:
            self.work()
        else:
            self.watch(self.rng.choice(tuple(TYPES)), self.rng.randrange(1, 4))

    def settle(self) -> None:
        """Lets everything happen that is under way, with no more failures than before."""
        for _ in range(20_000):
            late = [kind for kind in TYPES if self.store.since(KIND[kind], self.seen[kind])]
            if (self.dirty or self.under_way) and (not late or self.rng.random() < 0.5):
                self.work()
            elif late:
                self.watch(self.rng.choice(late), 100)
            elif self.due:
                self.due.sort(key=lambda entry: entry[0])
                self.now, item = max(self.now, self.due[0][0]), self.due.pop(0)[1]
                self.dirty[item] = None
            else:
                return
        raise AssertionError("the controllers do not come to rest")


class Users:
    """What users and the scheduler do."""

    def __init__(self, toy: Toy, *, take_volumes: bool) -> None:
        self.toy, self.api, self.rng = toy, toy.api, toy.rng
        self.take_volumes = take_volumes
        self.number = 0
        self.in_use: dict[str, set[str]] = {}  # deleted claims, and the pods that used them then
        for name, mode, provisioner in (
            ("now", "Immediate", "d"),
            ("later", "WaitForFirstConsumer", "d"),
            ("static", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
            ("tracked", "WaitForFirstConsumer", "limited"),
        ):
            fields = {"provisioner": provisioner, "volumeBindingMode": mode}
            self._create("StorageClass", name, **fields)
        self._create("CSIDriver", "limited", spec={"storageCapacity": True})
        toy.watch("CSIDriver", 1)  # Volumes of a driver that is not known are not subtracted.
        for i in range(3):
            self.api.create(KIND["Node"], "", hollow_node(i + 1))
            zone = f"zone-{'abc'[i]}"
            self._create(
                "CSIStorageCapacity",
                zone,
                storageClassName="tracked",
                capacity=f"{ROOM}Gi",
                nodeTopology={"matchLabels": {ZONE: zone}},
            )
            drivers = [
                {"name": name, "nodeID": "n", "topologyKeys": [ZONE]} for name in ("d", "limited")
            ]
            self._create("CSINode", f"node-{i + 1}", spec={"drivers": drivers})

    def _create(self, kind: str, name: str, **fields: Any) -> None:
        served = KIND[kind]
        namespace = NS if served.namespaced else ""
        self.api.create(served, namespace, {"metadata": {"name": name}, **fields})

    def _any(self, kind: type[S]) -> S | None:
        documents = self.toy.all(kind)
        return self.rng.choice(documents) if documents else None

    def act(self) -> None:
        self.number += 1
        actions = (
            *[self.new_claim] * 4,
            *[self.new_volume] * 3,
            *[self.new_pod] * 2,
            *[self.select] * 3,
            self.select_one_node,
            *[self.reserve] * 2,
            *[self.delete_claim] * 2,
            *[self.delete_volume] * self.take_volumes,
            *[self.delete_pod] * 2,
            self.restore_volume,
            self.toy.restart,
        )
        try:
            self.rng.choice(actions)()
        except RefusedError as refused:
            if refused.code not in (404, 409):
                raise

    def new_claim(self) -> None:
        storage_class = self.rng.choice(("now", "later", "static", "tracked", "none", ""))
        spec: Document = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{self.rng.randrange(1, 4)}Gi"}},
            "storageClassName": storage_class,
        }
        volume = self._any(PersistentVolume)
        if volume is not None and self.rng.random() < 0.1:
            spec["volumeName"] = volume.metadata.name
        self._create("PersistentVolumeClaim", f"c{self.rng.randrange(CLAIMS)}", spec=spec)

    def new_volume(self) -> None:
        spec: Document = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": f"{self.rng.randrange(1, 5)}Gi"},
            "storageClassName": self.rng.choice(("now", "static", "none", "")),
            "persistentVolumeReclaimPolicy": self.rng.choice(("Retain", "Delete", "Recycle")),
            "csi": {"driver": "d", "volumeHandle": f"h{self.number}"},
        }
        if self.rng.random() < 0.2:
            spec["claimRef"] = {"namespace": NS, "name": f"c{self.rng.randrange(CLAIMS)}"}
        self._create("PersistentVolume", f"v{self.number}", spec=spec)

    def new_pod(self) -> None:
        volumes: list[Document] = [
            {"name": "a", "persistentVolumeClaim": {"claimName": f"c{self.rng.randrange(CLAIMS)}"}}
        ]
        if self.rng.random() < 0.5:
            claim_spec = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": self.rng.choice(("now", "later")),
            }
            template = {"volumeClaimTemplate": {"spec": claim_spec}}
            volumes.append({"name": "b", "ephemeral": template})
        spec = {
            "nodeName": self.rng.choice(("", "node-1", "node-2", "node-3")),
            "containers": [{"name": "c", "image": "i"}],
            "volumes": volumes,
        }
        self._create("Pod", f"p{self.number}", spec=spec)

    def select(self) -> None:
        claim = self._any(PersistentVolumeClaim)
        if claim is not None and not claim.spec.volume_name:
            node = self.rng.choice(("node-1", "node-2", "node-3", "gone"))
            body = {"metadata": {"annotations": {SELECTED_NODE: node}}}
            self.api.patch(CLAIM, NS, claim.metadata.name, body, MERGE, "")

    def select_one_node(self) -> None:
        for claim in self.toy.all(PersistentVolumeClaim):
            if claim.spec.storage_class_name == "tracked" and not claim.spec.volume_name:
                body = {"metadata": {"annotations": {SELECTED_NODE: "node-1"}}}
                self.api.patch(CLAIM, NS, claim.metadata.name, body, MERGE, "")

    def reserve(self) -> None:
        """Binds a free volume of the class to a waiting claim, as the scheduler does."""
        claim = self._any(PersistentVolumeClaim)
        if claim is None or claim.spec.volume_name:
            return
        free = [v for v in self.toy.all(PersistentVolume) if not v.spec.claim_ref]
        volume = volume_binder.find_free(claim, free)
        if volume is not None:
            metadata = claim.metadata
            reference = {"namespace": NS, "name": metadata.name, "uid": metadata.uid}
            annotations = {"pv.kubernetes.io/bound-by-controller": "yes"}
            body = {
                "metadata": {
                    "annotations": annotations,
                    "resourceVersion": volume.metadata.resource_version,
                },
                "spec": {"claimRef": reference},
            }
            self.api.patch(VOLUME, "", volume.metadata.name, body, MERGE, "")

    def _delete(self, kind: type[HasMetadata]) -> None:
        obj = self._any(kind)
        if obj is not None:
            namespace, name = obj.metadata.namespace, obj.metadata.name
            options = DeleteOptions(grace_period_seconds=0)
            self.api.delete(KIND[kind.__name__], namespace, name, options)

    def delete_claim(self) -> None:
        claim = self._any(PersistentVolumeClaim)
        if claim is None:
            return
        self.toy.watch("Pod", 1000)  # a claim is protected from the pods that are known to use it
        metadata = claim.metadata
        if metadata.finalizers:
            self.in_use[metadata.uid] = {
                pod.metadata.uid
                for pod in self.toy.all(Pod)
                for named in pod_claims(pod)
                if pod.spec.node_name and named == PodClaim(metadata.name, ephemeral=False)
            }
        self.api.delete(CLAIM, NS, metadata.name, DeleteOptions())

    def delete_volume(self) -> None:
        self._delete(PersistentVolume)

    def delete_pod(self) -> None:
        self._delete(Pod)

    def restore_volume(self) -> None:
        for volume in self.toy.all(PersistentVolume):
            if volume.status.phase == "Released":
                body = {"spec": {"claimRef": None}}
                self.api.patch(VOLUME, "", volume.metadata.name, body, MERGE, "")
                return


def check(toy: Toy, users: Users) -> None:
    claims = {claim.metadata.uid: claim for claim in toy.all(PersistentVolumeClaim)}
    volumes = {volume.metadata.name: volume for volume in toy.all(PersistentVolume)}
    holders = [claim.spec.volume_name for claim in claims.values() if bound(claim)]
    assert len(set(holders)) == len(holders), "a volume is bound twice"
    pods = {pod.metadata.uid for pod in toy.all(Pod)}
    for uid, using in users.in_use.items():
        assert uid in claims or not using & pods, "a pod has lost its claim"
    for claim in claims.values():
        if not users.take_volumes:
            assert claim.status.phase != "Lost"
        volume = volumes.get(claim.spec.volume_name)
        mine = volume is not None and claim_reference(volume).uid == claim.metadata.uid
        assert bound(claim) == (mine and BIND_COMPLETED in claim.metadata.annotations)
        if claim.metadata.deletion_timestamp:
            placed = [pod for pod in toy.all(Pod) if pod.spec.node_name]
            used = {named.name for pod in placed for named in pod_claims(pod)}
            assert claim.metadata.name in used, "nothing uses the claim"
    for volume in volumes.values():
        check_volume(volume, claims)
    free = [volume for volume in volumes.values() if not volume.spec.claim_ref]
    for claim in claims.values():
        storage_class, waits = claim.spec.storage_class_name, not claim.spec.volume_name
        if waits and storage_class in ("none", ""):
            assert volume_binder.find_free(claim, free) is None, "the claim could be bound"
        if waits and storage_class == "now" and not users.take_volumes:
            # a volume deleted halfway stays with its claim
            assert claim.metadata.deletion_timestamp, "the claim could be provisioned"
    check_capacity(toy, list(volumes.values()))
    check_attachments(toy, claims, volumes)


def bound(claim: PersistentVolumeClaim) -> bool:
    return claim.status.phase == "Bound"


def check_volume(volume: PersistentVolume, claims: dict[str, PersistentVolumeClaim]) -> None:
    phase, uid = volume.status.phase, claim_reference(volume).uid
    if not uid:
        assert phase == "Available"
        return
    if uid not in claims:
        assert phase in ("Released", "Failed")
        provisioned = PROVISIONED_BY in volume.metadata.annotations
        policy = volume.spec.persistent_volume_reclaim_policy
        assert not (provisioned and policy == "Delete"), "the volume is left over"
    elif claims[uid].spec.volume_name == volume.metadata.name:
        assert phase == "Bound"


def check_capacity(toy: Toy, volumes: list[PersistentVolume]) -> None:
    for capacity in toy.all(CSIStorageCapacity):
        zone = capacity.metadata.name
        used = sum(
            size_of(volume)
            for volume in volumes
            if volume.spec.storage_class_name == "tracked" and segment_in(volume) == {ZONE: zone}
        )
        assert capacity.capacity == quantity_of(max(ROOM * GIB - used, 0))


def check_attachments(
    toy: Toy, claims: dict[str, PersistentVolumeClaim], volumes: dict[str, PersistentVolume]
) -> None:
    by_name = {claim.metadata.name: claim for claim in claims.values()}
    wanted: dict[str, set[str]] = defaultdict(set)
    for pod in toy.all(Pod):
        for named in pod_claims(pod) if pod.spec.node_name else ():
            claim = by_name.get(named.name)
            if claim is not None and bound(claim) and driver_in(volumes[claim.spec.volume_name]):
                volume = volumes[claim.spec.volume_name]
                name = attachment.attachment_name(volume, pod.spec.node_name)
                wanted[volume.metadata.name].add(name)
    attachments = toy.all(VolumeAttachment)
    have = {each.metadata.name for each in attachments}
    assert have <= {name for names in wanted.values() for name in names}, "nothing uses the volume"
    for names in wanted.values():
        assert len(names & have) == 1, "the volumes allow one node only"
    assert all(each.status.attached for each in attachments)


@examples(0.2)
@given(seed=st.integers(0, 1 << 32))
@example(371788)
def test_everything_is_bound_once_and_nothing_is_left_over(seed: int) -> None:
    rng = Random(seed)
    toy = Toy(rng)
    users = Users(toy, take_volumes=bool(seed % 2))
    pace = rng.choice((2, 10, 30))
    for _ in range(4):
        for _ in range(rng.randrange(80)):
            users.act()
            for _ in range(rng.randrange(pace)):
                toy.step()
        toy.settle()
        check(toy, users)
