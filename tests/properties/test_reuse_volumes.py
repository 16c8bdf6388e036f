"""Decisions about pods with volumes are the same with a memory and without, whatever claims,
volumes, classes and attachments come, change and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import AssumeObject, ObjectPut, ObjectRemoved, RestoreObject
from berth.actors.scheduling.decision.outcome import Choice
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration
from berth.plugin import Pod, PodInfo
from berth.tools.answers.explain.plugin_handle import HeldObjects
from tests.kit.examples import examples
from tests.kit.handle import NoApi
from tests.properties.test_reuse import FEW, HOST, NODES, ZONE, ReuseHistory, make_node

CLAIMS, VOLUMES, CLASSES = 5, 6, ("fast", "local", "none")
DRIVER = "csi.example.com"
DISK = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


class Assuming(HeldObjects):
    """Keeps what plugins assume and restore, as messages for the cache."""

    def __init__(self) -> None:
        self.messages: list[AssumeObject | RestoreObject] = []

    def assume(self, item: HasMetadata) -> None:
        self.messages.append(AssumeObject(item))

    def restore(self, item: HasMetadata) -> None:
        self.messages.append(RestoreObject(item))


class _Handle(NoApi):
    def __init__(self, objects: Assuming) -> None:
        super().__init__()
        self.objects = objects


ASSUMING = Assuming()


def profile(objects: Assuming) -> Profile:
    return profiles_of(KubeSchedulerConfiguration(), _Handle(objects))["default-scheduler"]


def _volume(number: int, **source: Any) -> dict[str, Any]:
    return {"name": f"v{number}", **source}


# The volumes of each kind of pod, with the number of its claim added to the names.
KINDS: Sequence[tuple[int, Sequence[Any]]] = (
    (0, ()),
    (0, (0,)),
    (10, (0,)),
    (0, (0, 1)),
    (0, (DISK,)),
    (20, (0, 0)),
    (0, ({"ephemeral": {}}, 0)),
)


def document(kind: str, version: str, name: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **parts}


class VolumeHistory(ReuseHistory):
    KINDS: ClassVar[Sequence[int]] = range(len(KINDS))
    PROFILE: ClassVar[Profile] = profile(ASSUMING)
    FRESH: ClassVar[Profile] = profile(Assuming())

    @initialize(seed=st.integers(0, 3), crowd=st.sampled_from([0, 3, 130]), drawn=FEW)
    def begin(self, seed: int, crowd: int, drawn: list[int]) -> None:
        super().begin(seed, crowd, drawn)
        self.version = 0
        self.stored: dict[tuple[str, str], HasMetadata] = {}
        ASSUMING.messages.clear()
        for name in NODES[:4]:
            self.node_put(make_node(name, "ab"[int(name[1]) % 2], True, "", 2000, False))
        for name in CLASSES:
            self.storage_class(name, waits=True, zones="")
        for number in range(CLAIMS):
            self.claim(number, "fast" if number % 2 else "local", 1, 0, False)
            self.volume(number, "local", 2, ZONE, "a", 0)

    def pod(self, number: int, kind: int, note: str = "") -> Pod:
        priority, sources = KINDS[kind]
        volumes = [
            {"persistentVolumeClaim": {"claimName": f"c{(number + source) % CLAIMS}"}}
            if isinstance(source, int)
            else source
            for source in sources
        ]
        metadata = {
            "namespace": "default",
            "name": f"p{number}",
            "uid": f"u{number}",
            "labels": {"app": "other"},
            "annotations": {"note": note} if note else {},
        }
        requests = {"resources": {"requests": {"cpu": "400m"}}}
        spec = {
            "containers": [{"name": "c", **requests}],
            "priority": priority,
            "volumes": [_volume(i, **volume) for i, volume in enumerate(volumes)],
        }
        return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)

    def reserve(self, chosen: Choice, info: PodInfo, rebuilt: CacheState) -> None:
        super().reserve(chosen, info, rebuilt)
        for message in ASSUMING.messages:
            self.tell(message, rebuilt)
        ASSUMING.messages.clear()

    def put(self, manifest: dict[str, Any]) -> None:
        """Puts an object with the next resource version, as an API server does."""
        self.version += 1
        manifest["metadata"] |= {
            "resourceVersion": str(self.version),
            "uid": f"{manifest['kind']} {manifest['metadata']['name']}",
        }
        item = decode(manifest)
        assert item is not None
        self.stored[manifest["kind"], manifest["metadata"]["name"]] = item
        self.tell(ObjectPut(item))

    @rule(
        number=st.integers(0, CLAIMS - 1),
        storage_class=st.sampled_from(CLASSES),
        size=st.integers(1, 3),
        bound=st.integers(-2, VOLUMES - 1),
        once=st.booleans(),
    )
    def claim(self, number: int, storage_class: str, size: int, bound: int, once: bool) -> None:
        spec = {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOncePod" if once else "ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{size}Gi"}},
        }
        metadata: dict[str, Any] = {"name": f"c{number}", "namespace": "default"}
        if bound >= 0:
            spec["volumeName"] = f"pv{bound}"
            metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        manifest = document("PersistentVolumeClaim", "v1", f"c{number}", spec=spec)
        manifest["metadata"] = metadata
        self.put(manifest)

    @rule(
        number=st.integers(0, VOLUMES - 1),
        storage_class=st.sampled_from(CLASSES),
        size=st.integers(1, 3),
        label=st.sampled_from(["", ZONE, HOST, "disk"]),
        value=st.sampled_from(["a", "b", "ssd", *NODES[:3]]),
        claim=st.integers(-3, CLAIMS - 1),
    )
    def volume(
        self, number: int, storage_class: str, size: int, label: str, value: str, claim: int
    ) -> None:
        term = {"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}
        spec: dict[str, Any] = {
            "capacity": {"storage": f"{size}Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "storageClassName": storage_class,
            "csi": {"driver": DRIVER, "volumeHandle": f"handle{number % 4}"},
        }
        if label:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        if claim >= 0:
            spec["claimRef"] = {"namespace": "default", "name": f"c{claim}"}
        self.put(
            document(
                "PersistentVolume", "v1", f"pv{number}", spec=spec, status={"phase": "Available"}
            )
        )

    @rule(
        name=st.sampled_from(CLASSES), waits=st.booleans(), zones=st.sampled_from(["", "a", "ab"])
    )
    def storage_class(self, name: str, waits: bool, zones: str) -> None:
        topology = {"matchLabelExpressions": [{"key": ZONE, "values": [*zones]}]}
        self.put(
            document(
                "StorageClass",
                "storage.k8s.io/v1",
                name,
                provisioner=DRIVER if name == "fast" else "kubernetes.io/no-provisioner",
                volumeBindingMode="WaitForFirstConsumer" if waits else "Immediate",
                allowedTopologies=[topology] if zones else [],
            )
        )

    @rule(node=st.sampled_from(NODES), limit=st.integers(0, 3), limited=st.booleans())
    def csi_node(self, node: str, limit: int, limited: bool) -> None:
        drivers = [
            {"name": name, "nodeID": node, **({"allocatable": {"count": limit}} if limited else {})}
            for name in (DRIVER, "ebs.csi.aws.com")
        ]
        self.put(document("CSINode", "storage.k8s.io/v1", node, spec={"drivers": drivers}))

    @rule(capacity=st.booleans())
    def csi_driver(self, capacity: bool) -> None:
        spec = {"storageCapacity": capacity}
        self.put(document("CSIDriver", "storage.k8s.io/v1", DRIVER, spec=spec))

    @rule(zone=st.sampled_from("ab"), size=st.integers(0, 3))
    def capacity(self, zone: str, size: int) -> None:
        self.put(
            document(
                "CSIStorageCapacity",
                "storage.k8s.io/v1",
                f"room-{zone}",
                storageClassName="fast",
                nodeTopology={"matchLabels": {ZONE: zone}},
                capacity=f"{size}Gi",
            )
        )

    @rule(node=st.sampled_from(NODES), number=st.integers(0, VOLUMES - 1))
    def attachment(self, node: str, number: int) -> None:
        spec = {
            "attacher": DRIVER,
            "nodeName": node,
            "source": {"persistentVolumeName": f"pv{number}"},
        }
        self.put(document("VolumeAttachment", "storage.k8s.io/v1", f"at{number % 3}", spec=spec))

    @rule(data=st.data())
    def object_removed(self, data: st.DataObject) -> None:
        if self.stored:
            key = data.draw(st.sampled_from(sorted(self.stored)))
            self.tell(ObjectRemoved(self.stored.pop(key)))

    @rule()
    def unreserved(self) -> None:
        """No assumed object is written: the API server's objects count again."""
        for item in self.cache._objects.assumed():
            self.tell(RestoreObject(item))


TestVolumes = VolumeHistory.TestCase
TestVolumes.settings = examples(steps=25)
