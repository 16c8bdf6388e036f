"""The room of nodes for volumes, kept up to date through random histories, equals a fresh count."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    NodeAdded,
    NodeDeleted,
    ObjectPut,
    ObjectRemoved,
)
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.what_if import supposing
from berth.actors.scheduling.plugins.node_volume_limits.room import NO_LIMIT, NodeRoom
from berth.plugin import Node, NodeView, Pod, PodInfo, Snapshot
from tests.kit.examples import examples
from tests.kit.storage import as_pod, claim, node, of_claim, pod, storage_class, thing, volume

GCE = "pd.csi.storage.gke.io"
NODES = st.sampled_from(["n1", "n2", "n3"])
NAMES = st.sampled_from(["a", "b", "c"])
CLAIMS = st.sampled_from(["a", "b", "c", "p0-v1", "p1-v1"])
DRIVERS = st.sampled_from(["d", GCE])
LIMITS = st.sampled_from([None, 0, 1, 2, 3])
CLASSES = st.sampled_from([None, "a", "b"])
INLINE: list[dict[str, Any]] = [
    {"ephemeral": {}},
    {"gcePersistentDisk": {"pdName": "a"}},
    {"awsElasticBlockStore": {"volumeID": "aws://bad"}},
    {"emptyDir": {}},
]
# A bad disk or an ephemeral volume makes every answer an error, so they are rare.
VOLUMES = st.one_of(*[st.builds(of_claim, NAMES)] * 6, st.sampled_from(INLINE[1:2] * 3 + INLINE))
HELD = [f"{driver}/{handle}" for driver in ("d", GCE) for handle in ("a", "b", "c", "\0ns/a")]
HELD.append(f"{GCE}/projects/UNSPECIFIED/zones/UNSPECIFIED/disks/a")


def said(room: NodeRoom, nodes: NodeView) -> dict[str, object]:
    """Returns everything that is known about the nodes of a view."""
    rows = nodes.rows
    free = {driver: column[rows].tolist() for driver, column in room.room.items()}
    nowhere = [False] * nodes.size
    return {
        "room": {driver: left for driver, left in free.items() if set(left) - {NO_LIMIT}},
        "installed": [room.installs(driver, nodes).tolist() for driver in ("d", GCE)],
        "with a CSINode": room.with_csi_node(nodes).tolist(),
        "problems": [row in room.problems for row in np.arange(nodes.columns.size)[rows]],
        "holding": [
            nowhere if (held := room.holding(volume, nodes)) is None else held.tolist()
            for volume in HELD
        ],
    }


class Volumes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache = CacheState()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.objects: dict[tuple[type[Any], str], HasMetadata] = {}
        self.serial = 0
        self.room: NodeRoom | None = None

    @initialize()
    def cluster(self) -> None:
        """Makes a cluster in which every change matters."""
        for number, name in enumerate(("n1", "n2", "n3")):
            self.node_put(name, "a")
            self.csi_node_put(name, 3, 3, both=True)
            self.attachment_put("abc"[number], name, "abc"[number], "d")
            self.pod_put(2 * number, name, [of_claim("a"), of_claim("b")])
            self.pod_put(2 * number + 1, name, [of_claim("c")])
        for name in "abc":
            self.claim_put(name, name, "a")
            self.class_put(name, "d")
        self.volume_put("a", "d", "a")
        self.disk_put("b", "b")

    def put(self, document: dict[str, Any]) -> None:
        self.serial += 1
        document["metadata"]["resourceVersion"] = str(self.serial)
        item = decode(document)
        assert item is not None
        self.objects[type(item), item.metadata.name] = item
        self.cache.handle(ObjectPut(item))

    # ---------------------------------------------------------------------------------- the cluster

    @rule(name=NODES, zone=NAMES)
    def node_put(self, name: str, zone: str) -> None:
        item = decode(node(name, zone=zone))
        assert isinstance(item, Node)
        self.nodes[name] = item
        self.cache.handle(NodeAdded(item))

    @rule(name=NODES)
    def node_gone(self, name: str) -> None:
        if name in self.nodes:
            self.cache.handle(NodeDeleted(self.nodes.pop(name)))

    @rule(number=st.integers(0, 5), on=NODES, volumes=st.lists(VOLUMES, max_size=3))
    def pod_put(self, number: int, on: str, volumes: list[dict[str, Any]]) -> None:
        self.pod_gone(number)
        item = as_pod(pod(f"p{number}", {"emptyDir": {}}, *volumes, on=on))
        self.pods[item.metadata.name] = item
        self.cache.handle(AssignedPodAdded(item))

    @rule(number=st.integers(0, 5))
    def pod_gone(self, number: int) -> None:
        if f"p{number}" in self.pods:
            self.cache.handle(AssignedPodDeleted(self.pods.pop(f"p{number}")))

    @rule(name=CLAIMS, volume_name=st.sampled_from(["", "a", "b", "c"]), class_name=CLASSES)
    def claim_put(self, name: str, volume_name: str, class_name: str | None) -> None:
        owner = {"uid": name.partition("-")[0], "controller": True}
        self.put(claim(name, volume_name, storageClassName=class_name, ownerReferences=[owner]))

    @rule(name=NAMES, driver=DRIVERS, handle=NAMES)
    def volume_put(self, name: str, driver: str, handle: str) -> None:
        self.put(volume(name, csi={"driver": driver, "volumeHandle": handle}))

    @rule(name=NAMES, disk=NAMES)
    def disk_put(self, name: str, disk: str) -> None:
        self.put(volume(name, gcePersistentDisk={"pdName": disk}))

    @rule(name=NAMES, provisioner=st.sampled_from(["d", GCE, "kubernetes.io/gce-pd", ""]))
    def class_put(self, name: str, provisioner: str) -> None:
        self.put(storage_class(name, provisioner))

    @rule(name=NODES, of_d=LIMITS, of_gce=LIMITS, both=st.booleans())
    def csi_node_put(self, name: str, of_d: int | None, of_gce: int | None, both: bool) -> None:
        drivers = [
            {"name": driver, "allocatable": {"count": limit}}
            for driver, limit in (("d", of_d), (GCE, of_gce))
        ]
        self.put(thing("CSINode", name, spec={"drivers": drivers if both else drivers[:1]}))

    @rule(name=NAMES, on=NODES, volume_name=NAMES, attacher=DRIVERS)
    def attachment_put(self, name: str, on: str, volume_name: str, attacher: str) -> None:
        source = {"persistentVolumeName": volume_name}
        spec = {"attacher": attacher, "nodeName": on, "source": source}
        self.put(thing("VolumeAttachment", name, spec=spec))

    @rule(data=st.data())
    def object_gone(self, data: st.DataObject) -> None:
        if self.objects:
            names = sorted(self.objects, key=lambda key: (key[0].__name__, key[1]))
            self.cache.handle(ObjectRemoved(self.objects.pop(data.draw(st.sampled_from(names)))))

    # ---------------------------------------------------------------------------------- the answers

    def snapshot(self) -> Snapshot:
        return self.cache.snapshot()

    @rule(rows=st.lists(st.integers(0, 2), unique=True))
    def some_rows_equal_a_fresh_count(self, rows: list[int]) -> None:
        snapshot = self.snapshot()
        some = [row for row in rows if row < snapshot.columns.size]
        self.same(snapshot.rows(np.array(some, dtype=np.int64)))

    @rule()
    def all_rows_equal_a_fresh_count(self) -> None:
        self.same(self.snapshot().all())

    @rule(rows=st.lists(st.integers(0, 2), unique=True), count=st.integers(1, 3))
    def rows_have_room_for_as_many_as_a_fresh_count_says(self, rows: list[int], count: int) -> None:
        """Rows with plenty of room are not counted; the answer is the same."""
        snapshot = self.snapshot()
        some = [row for row in rows if row < snapshot.columns.size]
        nodes = snapshot.rows(np.array(some, dtype=np.int64))
        if self.room is None or not self.room.is_of(snapshot):
            self.room = NodeRoom(snapshot)
        fresh = NodeRoom(snapshot)
        assert self.room.refresh(nodes, count)
        assert fresh.refresh(nodes)
        for driver in self.room.room.keys() | fresh.room.keys():
            kept, counted = (
                (room.room[driver][nodes.rows] >= count).tolist()
                if driver in room.room
                else [True] * nodes.size
                for room in (self.room, fresh)
            )
            assert kept == counted
        problems = [{row for row in some if row in room.problems} for room in (self.room, fresh)]
        assert problems[0] == problems[1]

    @rule(data=st.data(), volumes=st.lists(VOLUMES, max_size=2), remove=st.booleans())
    def what_if_questions_equal_a_fresh_count(
        self, data: st.DataObject, volumes: list[dict[str, Any]], remove: bool
    ) -> None:
        snapshot = self.snapshot()
        rows = snapshot.columns.order.tolist()
        if not rows:
            return
        row = data.draw(st.sampled_from(rows))
        info = snapshot.columns.infos[row]
        assert info is not None
        with supposing(snapshot) as supposition:
            for victim in list(info.pods.values()) if remove else []:
                supposition.remove(row, victim)
            supposition.add(row, PodInfo(as_pod(pod("nominated", *volumes))))
            supposition.settle()
            self.same_room(snapshot.all())
        self.same(snapshot.all())

    def same(self, nodes: NodeView) -> None:
        nodes.columns.counts.validate()
        self.same_room(nodes)

    def same_room(self, nodes: NodeView) -> None:
        if self.room is None or not self.room.is_of(nodes.snapshot):
            self.room = NodeRoom(nodes.snapshot)
        fresh = NodeRoom(nodes.snapshot)
        assert self.room.refresh(nodes)
        assert fresh.refresh(nodes)
        assert said(self.room, nodes) == said(fresh, nodes)


TestVolumes = Volumes.TestCase
TestVolumes.settings = examples()
