"""One kubelet in virtual time: leaks, full disks, limits, restarts, and when it looks."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from berth.tools.kubernetes.kubelet.pressure.kubelet_settings import DEFAULTS
from berth.tools.kubernetes.kubelet.pressure.node_pressure import MOST_KILLS, NEVER
from berth.tools.kubernetes.kubelet.pressure.thresholds import Amount, Threshold
from berth.tools.kubernetes.kubelet.usage_models import Rule, Scenario
from berth.tools.kubernetes.objects.structs import Pod
from tests.kit.pressure import Kubelets

from .objects import SYSTEM_CRITICAL

NODE = "node-1"
HOUR = 3600.0


def limited(memory: str = "", disk: str = "") -> list[dict[str, object]]:
    limits = {"memory": memory, "ephemeral-storage": disk}
    return [
        {"name": "app", "resources": {"limits": {k: v for k, v in limits.items() if v}}},
    ]


def times(world: Kubelets, text: str) -> list[float]:
    return [seconds for seconds, said in world.history if text in said]


def test_a_node_whose_pods_say_nothing_is_never_looked_at() -> None:
    world = Kubelets(1)
    for _ in range(50):
        world.start(NODE)
    assert world.nodes[NODE].due == NEVER
    world.run(24 * HOUR)
    assert (world.looks, world.history) == (0, [])


def test_a_steady_pod_costs_a_look_an_hour() -> None:
    world = Kubelets(1)
    world.start(NODE, "memory=1Gi, cpu=2 noise 10%, ephemeral-storage=1Gi")
    world.run(24 * HOUR)
    assert world.looks < 50
    assert world.history == []


def test_a_leak_is_evicted_and_the_condition_outlasts_it() -> None:
    world = Kubelets(1)
    world.start(NODE, "memory=2Gi")
    leak = world.start(NODE, "memory=1Gi+5Mi/s")
    world.run(2 * HOUR)
    # 29596Mi are left above the threshold of 100Mi.
    (evicted,) = times(world, "Evicted")
    assert 29596 / 5 < evicted <= 29596 / 5 + 10
    assert times(world, "MemoryPressure=True") == [evicted]
    (ended,) = times(world, "MemoryPressure=False")
    assert 300 <= ended - evicted <= 310
    status = world.pods[leak]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert world.conditions[leak]["DisruptionTarget"] == "True"
    assert world.annotations[leak]["starved_resource"] == "memory"
    assert world.looks < 100


def test_one_pod_goes_at_a_time_and_only_as_many_as_necessary() -> None:
    world = Kubelets(1)
    names = [world.start(NODE, f"memory=10900Mi+{rate}Mi/s") for rate in (0, 1, 2)]
    world.run(HOUR)
    assert [name for name in names if world.pods[name]["status"]["phase"] == "Failed"] == names[2:]


def test_disk_of_dead_containers_is_reclaimed_before_another_pod_is_evicted() -> None:
    world = Kubelets(1)
    world.start(NODE, "ephemeral-storage=10Gi")
    writer = world.start(NODE, "ephemeral-storage=1Gi+100Mi/s")
    world.run(HOUR)
    assert [s for s in world.said() if "Evicted" in s] == [
        s for s in world.said() if s.startswith(f"{writer}: Evicted")
    ]
    assert len(times(world, "Evicted")) == 1
    (ended,) = times(world, "DiskPressure=False")
    assert 300 <= ended - times(world, "Evicted")[0] <= 311


def test_unused_images_are_reclaimed_first() -> None:
    images = [
        {"names": ["used"], "sizeBytes": 10 << 30},
        {"names": ["unused"], "sizeBytes": 50 << 30},
    ]
    world = Kubelets(1, status={"images": images})
    containers = [{"name": "app", "image": "used"}]
    world.start(NODE, "volume.v=30Gi+1Mi/s", containers=containers, volumes=[VOLUME])
    world.run(2 * HOUR)
    assert world.said()[0].startswith(f"{NODE}: EvictionThresholdMet")
    assert world.said()[1:] == [f"{NODE}: images ['used']", *PRESSURE]


VOLUME = {"name": "v", "emptyDir": {}}
NO_PRESSURE = [
    f"{NODE}: DiskPressure=False",
    f"{NODE}: NodeHasNoDiskPressure: Node {NODE} status is now: NodeHasNoDiskPressure",
]
PRESSURE = [
    f"{NODE}: DiskPressure=True",
    f"{NODE}: NodeHasDiskPressure: Node {NODE} status is now: NodeHasDiskPressure",
    *NO_PRESSURE,
]


def test_a_pod_that_exceeds_its_own_limit_goes_without_pressure() -> None:
    world = Kubelets(1)
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}
    name = world.start(NODE, "volume.v=1000Mi+1Mi/s", volumes=[volume])
    world.run(HOUR)
    (evicted,) = times(world, 'Usage of EmptyDir volume "v" exceeds the limit "1Gi". ')
    assert 24 < evicted <= 34
    assert world.conditions[name].get("DisruptionTarget") is None
    assert world.pods[name]["status"]["reason"] == "Evicted"
    assert times(world, "Pressure") == []


def test_a_container_beyond_its_memory_limit_is_killed_and_restarted_with_back_off() -> None:
    world = Kubelets(1)
    name = world.start(NODE, "memory=60Mi+1Mi/s", containers=limited("100Mi"))
    world.run(400)
    # It runs for 41 seconds each time; restarts wait for 0, 10, 20, 40 and 80 seconds.
    assert times(world, "app running") == [41, 92, 153, 234, 355]
    assert times(world, "app waiting") == [82, 133, 194, 275, 396]
    (status,) = world.pods[name]["status"]["containerStatuses"]
    assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
    assert status["lastState"]["terminated"]["exitCode"] == 137
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["restartCount"] == 5


def test_a_pod_that_never_restarts_fails_when_it_is_killed() -> None:
    world = Kubelets(1)
    containers = limited("100Mi")
    name = world.start(NODE, "memory=60Mi+1Mi/s", containers=containers, restartPolicy="Never")
    world.run(HOUR)
    assert world.said() == [f"{name}: app terminated 0"]
    assert world.pods[name]["status"]["phase"] == "Failed"


def test_memory_that_is_exhausted_between_two_steps_is_taken_by_the_kernel() -> None:
    world = Kubelets(1)
    world.start(NODE, "memory=20Gi", qos="Guaranteed")
    name = world.start(NODE, "memory=1Gi+500Mi/s")
    world.run(60)
    assert (
        world.said()[0] == f"{NODE}: SystemOOM: System OOM encountered, victim process: app, pid: 1"
    )
    assert world.said()[1] == f"{name}: app running 1"
    assert world.history[0][0] == 23  # 11 Gi, less a bit, at 500Mi a second
    assert "Evicted" not in " ".join(world.said()[:2])


def test_wrong_usage_is_told_once_and_counts_as_none() -> None:
    world = Kubelets(1)
    name = world.start(NODE, "memory=lots")
    world.run(HOUR)
    (said,) = world.said()
    assert said.startswith(f"{name}: InvalidUsage: annotation berth.dev/usage: 'memory=lots'")


def test_a_pod_of_a_model_is_looked_at_each_interval() -> None:
    def model(pod: Pod, seconds: float) -> dict[str, float]:
        return {"memory": 2**30 if seconds < 1000 else 33 * 2**30}

    world = Kubelets(1, scenario=Scenario([Rule(model)]))
    world.start(NODE)
    world.run(1020)
    assert world.looks > 100
    assert len(times(world, "SystemOOM")) > 0


def test_soft_thresholds_end_a_pod_after_their_grace_period() -> None:
    soft = Threshold("memory.available", Amount("10Gi"), 90.0)
    world = Kubelets(1, msgspec.structs.replace(DEFAULTS, thresholds=(soft,)))
    world.start(NODE, "memory=21Gi+10Mi/s to 25Gi")
    world.run(HOUR)
    pressure, evicted = times(world, "MemoryPressure=True")[0], times(world, "Evicted")[0]
    assert 102 < pressure <= 113
    assert 90 <= evicted - pressure < 100


def test_a_full_node_rejects_pods_and_a_critical_one_preempts() -> None:
    world = Kubelets(1)
    half = [{"name": "app", "resources": {"requests": {"cpu": "4"}}}]
    first = world.start(NODE, containers=half, qos="Burstable")
    world.start(NODE, containers=half, qos="Burstable")
    third = world.start(NODE, containers=half, qos="Burstable")
    message = "Node didn't have enough resource: cpu, requested: 4000, used: 8000, capacity: 8000"
    assert world.said() == [f"{third}: OutOfcpu: {message}"]
    status = world.pods[third]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"] == f"Pod was rejected: {message}"
    critical = world.start(NODE, containers=half, priority=SYSTEM_CRITICAL)
    assert world.pods[critical]["status"]["phase"] == "Running"
    preempted = [n for n, pod in world.pods.items() if pod["status"].get("reason") == "Preempting"]
    assert len(preempted) == 1
    world.delete(preempted[0])
    world.delete(first if first in world.pods else critical)
    again = world.start(NODE, containers=half, qos="Burstable")
    assert world.pods[again]["status"]["phase"] == "Running"


def test_pressure_rejects_best_effort_pods_alone() -> None:
    world = Kubelets(1)
    world.start(NODE, "memory=32700Mi")
    world.run(30)
    assert times(world, "MemoryPressure=True") != []
    rejected = world.start(NODE)
    assert world.pods[rejected]["status"]["reason"] == "Evicted"
    assert world.said()[-1] == f"{rejected}: Evicted: The node had condition: [MemoryPressure]. "
    burstable = [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]
    admitted = world.start(NODE, containers=burstable, qos="Burstable")
    assert world.pods[admitted]["status"]["phase"] == "Running"


def test_pressure_that_another_kubelet_reported_is_taken_back() -> None:
    world = Kubelets(1, status={"conditions": [{"type": "DiskPressure", "status": "True"}]})
    assert world.nodes[NODE].due == 0.0
    world.watch(1)
    world.run(20)
    assert world.said() == NO_PRESSURE


def leaky(nodes: int, seed: int) -> Kubelets:
    """Returns nodes with steady, leaking, writing and restarting pods that are replaced."""
    rng, world = Random(seed), Kubelets(nodes, replaces=True)
    for number, node in enumerate(world.nodes):
        for _ in range(3):
            world.start(node, f"memory={rng.randint(100, 900)}Mi noise 5%, cpu=100m")
        world.start(node, f"memory=1Gi+{rng.randint(1, 8)}Mi/s")
        if number % 2:
            world.start(node, f"ephemeral-storage=1Gi+{rng.randint(2, 20)}Mi/s")
        if number % 5 == 0:
            world.start(node, "memory=60Mi+1Mi/s", containers=limited("2Gi"))
    return world


@pytest.mark.full("long")
def test_the_same_seed_gives_the_same_history() -> None:
    worlds = [leaky(10, seed) for seed in (1, 1, 2)]
    for world in worlds:
        world.run(3 * HOUR)
    assert worlds[0].history == worlds[1].history != worlds[2].history
    assert len(times(worlds[0], "Evicted")) > 10


@pytest.mark.full("long")
@pytest.mark.parametrize(
    "usages",
    [
        ("memory=1Gi+40Mi/s",),
        ("memory=30Gi+5Mi/s to 31Gi", "memory=500Mi spike 1Gi every 5m for 30s"),
        ("memory=31Gi noise 5%", "memory=100Mi+1Mi/s"),
        ("ephemeral-storage=1Gi+200Mi/s", "logs=10Gi+50Mi/s", "volume.v=20Gi"),
        ("inodes=1000+20000/s", "volume.v.inodes=5000+100/s"),
        ("memory=20Gi+300Mi/s", "memory=10Gi", "ephemeral-storage=84Gi+1Mi/s"),
        ("memory=10Gi-10Mi/s to 1Gi", "memory=21Gi+12Mi/s after 2m"),
        ("volume.v=30Gi spike 60Gi at 7m for 2m",),
    ],
)
def test_a_kubelet_sees_the_same_as_if_it_looked_every_second(usages: tuple[str, ...]) -> None:
    histories = []
    for watches in (False, True):
        world = Kubelets(1)
        for usage in usages:
            world.start(NODE, usage, volumes=[VOLUME])
        if watches:
            world.watch(1500)
        else:
            world.run(1500)
        histories.append(world.history)
    assert histories[0] == histories[1]
    assert histories[0] != []


def test_many_containers_are_killed_over_several_looks() -> None:
    world = Kubelets(1)
    names = [f"c{number}" for number in range(60)]
    usage = ", ".join(f"{name}/memory=1Gi" for name in names)
    containers = [{"name": name} for name in names]
    name = world.start(NODE, usage, restartPolicy="Never", containers=containers)
    world.run(1)
    assert len(times(world, "SystemOOM")) == 60 - 32  # Gi
    assert world.looks >= (60 - 32) / MOST_KILLS
    ends = [status["state"] for status in world.pods[name]["status"]["containerStatuses"]]
    assert sum("terminated" in end for end in ends) == 60 - 32
