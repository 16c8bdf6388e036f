"""A scenario drawn from a seed: clients that create, change and delete, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from ...cluster.faults.vocabulary import Fault, Met
from ..builders import budget, claim, deployment, device_claim, job, node, pod, priority_class
from .scenario import Scenario, ScenarioStep

Document = dict[str, Any]
Choice = tuple[int, Callable[[], None]]
DEVICES = "devices.example.com"  # a driver, and the class of its devices
ANOTHER = "another"  # a namespace that may be deleted
STEP_SECONDS = 15.0  # between two steps, on average
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class Clients:
    """Draws the steps of the clients. What they have created is in `apps`, `pods` and `nodes`."""

    pauses = STEP_SECONDS
    most_replicas, most_scaled = 8, 8

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._number = 0
        self.apps: list[str] = []
        self.pods: list[str] = []
        self.nodes: list[str] = []
        self.steps: list[ScenarioStep] = []
        self._at = 0.0

    def choices(self) -> list[Choice]:
        """Returns what may be done next, each with its weight."""
        return [
            (6, self._new_app), (4, self._scale), (2, self._delete_app), (6, self._new_pod),
            (3, self._delete_pod), (2, self._new_job), (3, self._new_node), (2, self._delete_node),
            (2, self._cordon), (2, self._relabel), (3, self._evict), (1, self._new_budget),
            (2, self._new_pod_with_volume), (2, self._new_pod_with_device),
        ]  # fmt: skip

    def begin(self) -> None:
        for name, value in (("low", -10), ("high", 100)):
            self._create(priority_class(name, value))
        self._create(device_class())
        for _ in range(self._rng.randint(2, 6)):
            self._new_node()

    def run(self, seconds: float) -> None:
        choices = self.choices()
        weights = [weight for weight, _ in choices]
        while (at := self._at + self._rng.expovariate(1 / self.pauses)) < seconds:
            self._at = round(at, 3)
            ((_, act),) = self._rng.choices(choices, weights)
            act()

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}-{self._number}"

    def _step(self, **fields: Any) -> None:
        self.steps.append(ScenarioStep(self._at, **fields))

    def _create(self, body: Document) -> None:
        self._step(verb="create", body=body)

    def _one_of(self, names: list[str]) -> str:
        return self._rng.choice(names) if names else ""

    def _spec(self, app: str) -> Document:
        """Returns fields of a pod's spec, often none."""
        rng = self._rng
        spec: Document = {}
        selector = {"matchLabels": {"app": app}}
        draw = rng.random()
        if draw < 0.15:
            spread = {"maxSkew": 1, "topologyKey": rng.choice([HOSTNAME, ZONE])}
            how = rng.choice(["DoNotSchedule", "ScheduleAnyway"])
            constraint = {**spread, "whenUnsatisfiable": how, "labelSelector": selector}
            spec["topologySpreadConstraints"] = [constraint]
        elif draw < 0.3:
            term = {"topologyKey": rng.choice([HOSTNAME, ZONE]), "labelSelector": selector}
            kind = rng.choice(["podAffinity", "podAntiAffinity"])
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec["affinity"] = {kind: required}
        elif draw < 0.4:
            spec["nodeSelector"] = {"disk": rng.choice(["ssd", "hdd"])}
        if rng.random() < 0.25:
            spec["priorityClassName"] = rng.choice(["low", "high"])
        spec["terminationGracePeriodSeconds"] = rng.choice([0, 1, 5, 30])
        return spec

    def _cpu(self) -> str:
        return f"{self._rng.choice([100, 250, 500, 1000, 1500, 3000])}m"

    def _new_app(self) -> None:
        name = self._name("app")
        self.apps.append(name)
        replicas = self._rng.randint(1, self.most_replicas)
        self._create(deployment(name, replicas=replicas, cpu=self._cpu(), **self._spec(name)))

    def _scale(self) -> None:
        if name := self._one_of(self.apps):
            body = {"spec": {"replicas": self._rng.randint(0, self.most_scaled)}}
            self._step(verb="patch", kind="Deployment", name=name, body=body)

    def _delete_app(self) -> None:
        if name := self._one_of(self.apps):
            self.apps.remove(name)
            self._step(verb="delete", kind="Deployment", name=name)

    def _new_pod(self) -> None:
        name = self._name("pod")
        self.pods.append(name)
        spec = self._spec(name)
        if self._rng.random() < 0.1:
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        self._create(pod(name, cpu=self._cpu(), labels={"app": name}, **spec))

    def _new_pod_with_volume(self) -> None:
        name = self._name("pod")
        self.pods.append(name)
        mode = self._rng.choice(["ReadWriteOnce", "ReadWriteOncePod"])
        self._create(claim(f"volume-{name}", accessModes=[mode]))
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": f"volume-{name}"}}
        self._create(pod(name, cpu=self._cpu(), labels={"app": name}, volumes=[volume]))

    def _new_pod_with_device(self) -> None:
        name = self._name("pod")
        self.pods.append(name)
        device = device_claim(f"device-{name}", DEVICES)
        self._create(device)
        self._create(pod(name, cpu=self._cpu(), labels={"app": name}, devices=[device]))

    def _delete_pod(self) -> None:
        if name := self._one_of(self.pods):
            self.pods.remove(name)
            self._step(verb="delete", kind="Pod", name=name)

    def _new_job(self) -> None:
        self._create(job(self._name("job"), completions=self._rng.randint(1, 4), cpu=self._cpu()))

    def _new_node(self) -> None:
        name, rng = self._name("node"), self._rng
        self.nodes.append(name)
        labels = {"disk": rng.choice(["ssd", "hdd"])}
        zone = rng.choice(["zone-a", "zone-b"])
        self._create(node(name, cpu=rng.choice([1, 2, 4, 8]), zone=zone, labels=labels, pods=20))
        if rng.random() < 0.4:
            self._create(slice_of(name, rng.randint(1, 3)))

    def _delete_node(self) -> None:
        if len(self.nodes) > 1:
            name = self._one_of(self.nodes)
            self.nodes.remove(name)
            self._step(verb="delete", kind="Node", name=name)

    def _cordon(self) -> None:
        if name := self._one_of(self.nodes):
            body = {"spec": {"unschedulable": self._rng.random() < 0.4}}
            self._step(verb="patch", kind="Node", name=name, body=body)

    def _relabel(self) -> None:
        if name := self._one_of(self.nodes):
            body = {"metadata": {"labels": {"disk": self._rng.choice(["ssd", "hdd"])}}}
            self._step(verb="patch", kind="Node", name=name, body=body)

    def _evict(self) -> None:
        if name := self._one_of(self.apps):
            self._step(verb="evict", name=name)

    def _new_budget(self) -> None:
        if name := self._one_of(self.apps):
            self._create(budget(self._name("budget"), app=name, max_unavailable=1))


def device_class() -> Document:
    selector = {"cel": {"expression": f'device.driver == "{DEVICES}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DEVICES},
        "spec": {"selectors": [selector]},
    }


def slice_of(name: str, count: int) -> Document:
    """Returns the devices of a node."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"device-{number}"} for number in range(count)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"devices-{name}"},
        "spec": {"driver": DEVICES, "nodeName": name, "pool": pool, "devices": devices},
    }


def drawn(seed: int, seconds: float) -> Scenario:
    """Returns the scenario of a seed."""
    rng = Random(seed)
    clients = Clients(rng)
    clients.begin()
    clients.run(seconds)
    schedulers = rng.choice([1, 1, 2])
    steps = [*clients.steps, *drawn_mishaps(rng, clients, seconds, schedulers)]
    return Scenario(
        seed=seed,
        seconds=seconds,
        schedulers=schedulers,
        faults=tuple(drawn_faults(rng, seconds, schedulers, most=5)),
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )


def drawn_mishaps(
    rng: Random, clients: Clients, seconds: float, schedulers: int
) -> list[ScenarioStep]:
    """Draws steps of nobody's will: compactions, restarts, and pods that others bind."""

    def at_some_time(**fields: Any) -> ScenarioStep:
        return ScenarioStep(round(rng.uniform(0, seconds), 3), **fields)

    steps = []
    for _ in range(rng.randint(0, 3)):
        steps.append(at_some_time(verb="compact"))
        number = rng.randrange(schedulers)
        steps.append(at_some_time(verb="restart", number=number))
    for name in rng.sample(clients.pods, len(clients.pods) // 8):
        target = rng.choice(clients.nodes)
        steps.append(at_some_time(verb="bind", name=name, node=target))
    return steps


def drawn_faults(
    rng: Random, seconds: float, schedulers: int, least: int = 0, most: int = 5
) -> list[Fault]:
    """Draws some faults, each for a part of the story."""
    everyone = rng.choice([("kube-scheduler",), ("kube-scheduler",), ()])
    writes = ("POST", "PATCH", "PUT", "DELETE")
    pause = rng.choice([1.0, 10.0, 40.0])
    kinds = [
        Fault("slow", chance=0.3, seconds=rng.choice([0.1, 2.0, 8.0]), clients=everyone),
        Fault("refuse", chance=0.2, code=rng.choice([429, 500, 503]), clients=everyone),
        Fault("refuse", chance=0.2, code=rng.choice([409, 410]), clients=everyone),
        Fault("refuse", chance=0.5, code=500, paths=("/binding",)),
        Fault("disk-full", chance=0.5, clients=everyone),
        Fault("lose", chance=0.1, methods=writes, clients=everyone),
        Fault("half-open", chance=0.05, clients=everyone),
        Fault("unanswered", chance=0.3, paths=("/binding",)),
        Fault("unanswered", chance=0.1, methods=writes, clients=everyone),
        Fault("truncated", chance=0.1, clients=everyone),
        Fault("arrive-late", chance=0.2, seconds=4.0, paths=("/binding",)),
        Fault("arrive-late", chance=0.1, seconds=4.0, methods=writes),
        Fault("older", seconds=rng.choice([5.0, 60.0]), chance=0.5, clients=everyone),
        Fault("watch-late", chance=0.2, seconds=rng.choice([0.05, 1.0, 5.0]), clients=everyone),
        Fault("watch-late", chance=0.5, seconds=3.0, paths=("/pods",)),
        Fault("watch-repeat", chance=0.3, clients=everyone),
        Fault("watch-cut", chance=0.1, clients=everyone),
        Fault("watch-garbage", chance=0.05, clients=everyone),
        Fault("watch-silent", chance=0.01, clients=everyone),
        Fault("watch-expired", chance=0.05, clients=everyone),
        Fault("server-restart", seconds=pause),
        Fault("server-restart-cold", seconds=pause),
        Fault("clock-jump", seconds=rng.choice([-3600.0, -2.0, 30.0, 3600.0])),
        Fault("compact"),
        Fault("namespace-gone", namespace=ANOTHER),
        Fault("foreign-bind", chance=0.1, seconds=rng.choice([0.0, 0.01, 1.0])),
        Fault("kill", seconds=pause, number=rng.randrange(schedulers)),
        Fault("stop", seconds=pause, number=rng.randrange(schedulers)),
        Fault("plugin-raise", chance=0.1),
        Fault("plugin-sleep", chance=0.05, seconds=rng.choice([0.1, 3.0])),
    ]
    faults = []
    for fault in rng.sample(kinds, rng.randint(least, most)):
        begin = round(rng.uniform(0, seconds / 2), 1)
        end = round(begin + rng.uniform(seconds / 20, seconds / 2), 1)
        ends = {} if fault.met is Met.TIME else {"end": end}
        faults.append(msgspec.structs.replace(fault, begin=begin, **ends))
    return faults
