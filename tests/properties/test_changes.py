"""Each change that is suggested for a pending pod places it: the objects are patched, created and
deleted, and read again from scratch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.tools.answers.explain.changes.world import edited
from berth.tools.answers.explain.cluster_source import completed_object
from berth.tools.answers.explain.decider import Explainer
from berth.tools.kubernetes.api.writes.evictions import PODS
from tests.kit.changes import CONFIGURATION, fits_after, suggested
from tests.kit.daemon import node, pod
from tests.kit.documents import Document, thing
from tests.kit.examples import examples
from tests.kit.stores import fresh_store

KINDS = {
    "selector",
    "affinity",
    "toleration",
    "requests",
    "spread",
    "port",
    "priority",
    "gate",
    "termination",
    "preemption",
    "provisioner",
    "uncordon",
    "taint",
    "label",
    "volume",
    "device",
    "room",
    "node",
}
SEEDS = (1, 3, 4, 5, 8, 10, 21, 23, 37, 72, 76, 113, 169)  # of clusters with each kind
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINTS = (
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "gpu", "effect": "NoExecute"},
    {"key": "slow", "value": "yes", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
)
COMMON: list[Document] = [
    *(
        thing("PriorityClass", name, value=value)
        for name, value in (("low", 10), ("high", 100), ("system-node-critical", 2_000_001_000))
    ),
    *(
        thing("StorageClass", mode, provisioner="csi.example.com", volumeBindingMode=mode)
        for mode in ("Immediate", "WaitForFirstConsumer")
    ),
    thing(
        "DeviceClass",
        "gpu",
        spec={"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
    ),
]


class _Cluster:
    """A small cluster that is short of much, and a pod that asks for much."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.objects: list[Document] = [*COMMON]
        names = [f"n{number}" for number in range(chance.randint(1, 4))]
        self.objects += [self._node(name) for name in names]
        for number in range(chance.randint(0, 2 * len(names))):
            self.objects.append(self._placed(f"p{number}", chance.choice(names)))
        if self._sometimes(0.2):
            nominated = pod("nominated", chance.choice("12"), priority=chance.choice((0, 1000)))
            nominated["status"]["nominatedNodeName"] = chance.choice(names)
            self.objects.append(nominated)
        self.pod = self._pending(names)

    def _sometimes(self, share: float = 0.25) -> bool:
        return self._chance.random() < share

    def _node(self, name: str) -> Document:
        chance = self._chance
        document = node(name, chance.choice("248"))
        labels = document["metadata"]["labels"]
        labels[ZONE] = chance.choice("ab")
        if self._sometimes(0.7):
            labels["disk"] = chance.choice(("ssd", "hdd"))
        taints = [taint for taint in TAINTS if self._sometimes(0.1)]
        document["spec"] = {"taints": taints} if taints else {}
        if self._sometimes(0.15):
            document["spec"]["unschedulable"] = True
        document["status"]["allocatable"] = {
            "cpu": chance.choice("248"),
            "memory": chance.choice(("4Gi", "8123Mi")),
            "pods": chance.choice(("3", "110")),
            **({"example.com/chip": "2"} if self._sometimes() else {}),
        }
        return document

    def _container(self) -> Document:
        chance = self._chance
        requests = {"cpu": chance.choice(("100m", "1", "3")), "memory": "1Gi"}
        container: Document = {"name": "c", "image": "i", "resources": {"requests": requests}}
        if self._sometimes(0.15):
            container["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
        return container

    def _placed(self, name: str, on: str) -> Document:
        document = pod(name, nodeName=on, containers=[self._container()], priority=0)
        metadata, spec = document["metadata"], document["spec"]
        metadata["labels"] = {"app": self._chance.choice(("web", "db"))}
        if self._sometimes(0.15):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if self._sometimes(0.15):
            spec["priority"] = self._chance.choice((50, 2_000_000_000))
        if self._sometimes(0.2):
            reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
            metadata["ownerReferences"] = [reference]
        if self._sometimes(0.1):
            spec["affinity"] = self._pod_affinity("podAntiAffinity")
        return document

    def _pod_affinity(self, kind: str) -> Document:
        term = {
            "labelSelector": {"matchLabels": {"app": self._chance.choice(("web", "db"))}},
            "topologyKey": self._chance.choice((HOSTNAME, ZONE)),
        }
        return {kind: {REQUIRED: [term]}}

    def _pending(self, names: list[str]) -> Document:
        """Returns a pod with one to three demands."""
        chance = self._chance
        document = pod("web", "1", priority=chance.choice((0, 0, 20)))
        document["metadata"]["labels"] = {"app": "web"}
        spec = document["spec"]
        container = spec["containers"][0]
        demands: tuple[Callable[[], None], ...] = (
            lambda: self._add_requests(container),
            lambda: container.update(ports=[{"containerPort": 80, "hostPort": 80}]),
            lambda: spec.update(nodeSelector=self._selector()),
            lambda: spec.update(affinity=self._node_affinity()),
            lambda: spec.update(affinity=self._pod_affinity("podAffinity")),
            lambda: spec.update(affinity=self._pod_affinity("podAntiAffinity")),
            lambda: spec.update(topologySpreadConstraints=[self._constraint()]),
            lambda: spec.update(schedulingGates=[{"name": "example.com/quota"}]),
            lambda: self._add_volume(spec),
            lambda: self._add_device(spec, names),
        )
        for demand in chance.sample(demands, chance.randint(1, 3)):
            demand()
        if self._sometimes(0.1):
            spec["preemptionPolicy"] = "Never"
        if self._sometimes(0.1):
            document["status"]["nominatedNodeName"] = chance.choice(names)
        return document

    def _add_requests(self, container: Document) -> None:
        requests = container["resources"]["requests"]
        if self._sometimes(0.2):
            requests["example.com/chip"] = "3"
            container["resources"]["limits"] = {"example.com/chip": "3"}
        else:
            requests[self._chance.choice(("cpu", "memory"))] = self._chance.choice(("3", "9G"))

    def _selector(self) -> Document:
        pairs = (("disk", "sdd"), ("dsik", "ssd"), ("disk", "hdd"), (ZONE, "c"), (ZONE, "a"))
        return dict(self._chance.sample(pairs, self._chance.randint(1, 2)))

    def _node_affinity(self) -> Document:
        chance = self._chance
        expressions = [
            {"key": "disk", "operator": "In", "values": [chance.choice(("ssd", "sdd"))]},
            {"key": ZONE, "operator": "NotIn", "values": ["a"]},
        ]
        terms = [{"matchExpressions": expressions[: chance.randint(1, 2)]}]
        if self._sometimes(0.3):
            field = {"key": "metadata.name", "operator": "In", "values": ["n9"]}
            terms.append({"matchFields": [field]})
        return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}

    def _constraint(self) -> Document:
        constraint = {
            "maxSkew": 1,
            "topologyKey": self._chance.choice((HOSTNAME, ZONE, "rack")),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        return constraint | ({"minDomains": 3} if self._sometimes(0.2) else {})

    def _add_volume(self, spec: Document) -> None:
        chance = self._chance
        claim: Document = thing(
            "PersistentVolumeClaim",
            "data",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": chance.choice(("Immediate", "WaitForFirstConsumer")),
            },
            status={"phase": "Pending"},
        )
        if self._sometimes(0.6):
            zone = {"key": ZONE, "operator": "In", "values": [chance.choice("abc")]}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
            volume = thing(
                "PersistentVolume",
                "pv",
                labels={ZONE: zone["values"][0]},
                spec={
                    "accessModes": ["ReadWriteOnce"],
                    "capacity": {"storage": "1Gi"},
                    "claimRef": {"namespace": "default", "name": "data", "uid": "data"},
                    "csi": {"driver": "csi.example.com", "volumeHandle": "pv"},
                    "nodeAffinity": {"required": terms},
                    "storageClassName": claim["spec"]["storageClassName"],
                },
                status={"phase": "Bound"},
            )
            claim["spec"]["volumeName"] = "pv"
            claim["status"] = {"phase": "Bound"}
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            self.objects.append(volume)
        self.objects.append(claim)
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]

    def _add_device(self, spec: Document, names: list[str]) -> None:
        on = self._chance.choice(names)
        pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(self._chance.randint(1, 2))]
        slice_spec = {"driver": "gpu.example.com", "nodeName": on, "pool": pool, "devices": devices}
        self.objects.append(_device_object("ResourceSlice", "gpus", spec=slice_spec))
        exactly = {"deviceClassName": "gpu", "count": 1, "allocationMode": "ExactCount"}
        requests = [{"name": "r", "exactly": exactly}]
        claim_spec = {"devices": {"requests": requests}}
        for number in range(self._chance.randint(0, 2)):
            result = {"request": "r", "driver": "gpu.example.com", "pool": on}
            results = [{**result, "device": f"gpu-{number}"}]
            status = {"allocation": {"devices": {"results": results}}}
            name = f"other-{number}"
            other = _device_object("ResourceClaim", name, spec=claim_spec, status=status)
            self.objects.append(other)
        self.objects.append(_device_object("ResourceClaim", "mine", spec=claim_spec))
        spec["resourceClaims"] = [{"name": "mine", "resourceClaimName": "mine"}]


def _device_object(kind: str, name: str, **parts: Any) -> Document:
    metadata = {"name": name, "uid": name}
    if kind == "ResourceClaim":
        metadata["namespace"] = "default"
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, **parts}


def _check(seed: int) -> Counter[str] | None:
    """Checks the suggestions for a random cluster; returns how many are of each kind, None if the
    pod is not pending.
    """
    cluster = _Cluster(Random(seed))
    changes = suggested(cluster.objects, cluster.pod)
    if changes is None:
        return None
    completed_object(PODS, cluster.pod, fresh_store())
    kinds, scratch = Counter[str](), Explainer(CONFIGURATION)
    for change in changes:
        kinds.update(change.kind.split(" and "))
        fitting = fits_after(change, cluster.objects, cluster.pod, scratch)
        assert fitting == list(change.nodes), (change, fitting)
        patched = [edit for edit in change.edits if edit.place == ("Pod", "default", "web")]
        document = cluster.pod
        for edit in patched:
            document = edited(edit, document) or {}
        completed_object(PODS, document, fresh_store())  # It is a valid pod still.
    return kinds


@pytest.mark.full("long")
@examples()
@given(st.integers(0, 2**32))
def test_each_change_places_the_pod(seed: int) -> None:
    assume(_check(seed) is not None)


def test_each_kind_occurs() -> None:
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        kinds += _check(seed) or Counter()
    assert kinds.keys() == KINDS, (KINDS - kinds.keys(), kinds.keys() - KINDS)
