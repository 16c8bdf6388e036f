"""Short stories, many of which are played: a few small nodes, up to thirty objects that want the
same room, volumes and devices, and three to eight faults within a minute.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ...cluster.faults.vocabulary import Fault
from ..builders import claim, device_claim, node, pod, priority_class, stateful_set
from ..demo.creation import STANDARD
from .chance import (
    ANOTHER,
    DEVICES,
    HOSTNAME,
    Choice,
    Clients,
    device_class,
    drawn_faults,
    drawn_mishaps,
    slice_of,
)
from .scenario import Scenario, ScenarioStep

Document = dict[str, Any]
LOCAL = "local"  # the class of volumes that are there before their claims
MODES = ["ReadWriteOnce", "ReadWriteOncePod"]
LOCKS = [(), (), ("endpointsleases", "leases"), ("configmapsleases", "leases")]


class CrowdedClients(Clients):
    """Clients whose objects get in each other's way."""

    pauses = 3.0
    most_replicas, most_scaled = 3, 4

    def begin(self) -> None:
        for name, value in (("low", -10), ("high", 100)):
            self._create(priority_class(name, value))
        self._create(priority_class("patient", 50, preemptionPolicy="Never"))
        self._create(device_class())
        self._create(STANDARD)
        self._create(local_class())
        for _ in range(self._rng.randint(1, 3)):
            self._new_node()
        for _ in range(self._rng.randint(0, 2)):
            self._new_app()
        if self._rng.random() < 0.5:
            self._new_budget()

    def choices(self) -> list[Choice]:
        return [
            (4, self._new_app), (3, self._scale), (2, self._delete_app), (6, self._new_pod),
            (3, self._delete_pod), (1, self._new_job), (1, self._new_node), (1, self._delete_node),
            (2, self._cordon), (1, self._relabel), (4, self._evict), (1, self._new_budget),
            (3, self._new_pod_with_volume), (3, self._new_pod_with_device),
            (1, self._new_stateful_set), (1, self._new_pod_elsewhere),
        ]  # fmt: skip

    def _cpu(self) -> str:
        return f"{self._rng.choice([250, 500, 500, 1000])}m"

    def _spec(self, app: str) -> Document:
        spec = super()._spec(app)
        if self._rng.random() < 0.4:
            spec["priorityClassName"] = self._rng.choice(["low", "high", "high", "patient"])
        return {**spec, "terminationGracePeriodSeconds": self._rng.choice([0, 0, 1, 5])}

    def _evict(self) -> None:
        for _ in range(self._rng.choice([1, 2])):
            super()._evict()

    def _new_node(self) -> None:
        name, rng = self._name("node"), self._rng
        self.nodes.append(name)
        labels = {"disk": rng.choice(["ssd", "hdd"])}
        zone = rng.choice(["zone-a", "zone-b"])
        self._create(node(name, cpu=rng.choice([1, 1, 2]), zone=zone, labels=labels, pods=8))
        if rng.random() < 0.5:
            self._create(slice_of(name, rng.randint(1, 2)))
        if rng.random() < 0.5:
            self._create(local_volume(name, rng.choice(MODES)))

    def _new_pod_with_volume(self) -> None:
        name, rng = self._name("pod"), self._rng
        storage_class = rng.choice([None, LOCAL, LOCAL])
        mode = rng.choice(MODES)
        self._create(claim(f"volume-{name}", storage_class=storage_class, accessModes=[mode]))
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": f"volume-{name}"}}
        self._new_pods_with(name, volumes=[volume])

    def _new_pod_with_device(self) -> None:
        name = self._name("pod")
        device = device_claim(f"device-{name}", DEVICES)
        self._create(device)
        self._new_pods_with(name, devices=[device])

    def _new_pods_with(self, name: str, **fields: Any) -> None:
        """Creates a pod, and sometimes another one that wants the same claim."""
        for suffix in self._rng.choice([("",), ("",), ("", "-too")]):
            self.pods.append(f"{name}{suffix}")
            spec = {**self._spec(name), **fields}
            self._create(pod(f"{name}{suffix}", cpu=self._cpu(), labels={"app": name}, **spec))

    def _new_stateful_set(self) -> None:
        template = [claim("data", storage_class=self._rng.choice([None, LOCAL]))]
        replicas = self._rng.randint(1, 2)
        name = self._name("set")
        self._create(stateful_set(name, replicas=replicas, cpu=self._cpu(), claims=template))

    def _new_pod_elsewhere(self) -> None:
        name = self._name("pod")
        self._create(pod(name, cpu=self._cpu(), namespace=ANOTHER, **self._spec(name)))


def local_class() -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": LOCAL},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def local_volume(node_name: str, mode: str) -> Document:
    on_node = {"key": HOSTNAME, "operator": "In", "values": [node_name]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"disk-{node_name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": [mode],
            "storageClassName": LOCAL,
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def _standing_still(rng: Random, seconds: float) -> list[Fault]:
    """Stops a scheduler in the middle of its requests until another one leads."""
    begin = round(rng.uniform(2.0, seconds / 2), 1)
    slow = Fault(
        "slow", chance=0.5, begin=begin - 2.0, end=begin, seconds=2.0, clients=("kube-scheduler",)
    )
    return [slow, Fault("stop", begin=begin, seconds=25.0, number=rng.randrange(2))]


def drawn_short(seed: int) -> Scenario:
    """Returns the short story of a seed."""
    rng = Random(f"short {seed}")
    seconds = float(rng.randint(10, 30))
    clients = CrowdedClients(rng)
    clients.begin()
    clients.run(seconds)
    schedulers = rng.choice([1, 1, 2])
    steps: list[ScenarioStep] = [
        *clients.steps,
        *drawn_mishaps(rng, clients, seconds, schedulers),
    ]
    locks, version = rng.choice(LOCKS), rng.choice(["1.36", "1.36", "1.37"])
    faults = drawn_faults(rng, seconds, schedulers, least=3, most=8)
    if schedulers > 1 and rng.random() < 0.5:
        faults += _standing_still(rng, seconds)
    return Scenario(
        seed=seed,
        seconds=seconds,
        schedulers=schedulers,
        locks=locks if schedulers > 1 else (),
        version=version,
        faults=tuple(faults),
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )
