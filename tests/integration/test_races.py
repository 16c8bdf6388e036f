"""Races of kube-scheduler 1.36.2 and before, each as a story with faults: they do not happen here.

docs/races.md lists them, with the functions of kube-scheduler 1.36.2 that it was read from.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from berth.plugin import SUCCESS, CycleState, PodInfo, PreBindPlugin, Status
from berth.testing import (
    Cluster,
    Fault,
    decide,
    deployment,
    device_claim,
    node,
    nodes,
    pod,
    priority_class,
)
from berth.tools.testing.simulation.scenario import Scenario, ScenarioStep
from berth.tools.testing.simulation.simulation import Story, play
from berth.tools.testing.simulation.timeline import Timeline

pytestmark = pytest.mark.full("long")

Document = dict[str, Any]
HOSTNAME = "kubernetes.io/hostname"
HIGH = priority_class("high", 100)


def created(at: float, *objects: Document) -> tuple[ScenarioStep, ...]:
    return tuple(ScenarioStep(at, "create", body=each) for each in objects)


def told(*steps: ScenarioStep, seconds: float, faults: tuple[Fault, ...] = ()) -> Story:
    """Plays a story, in which every property must hold."""
    story = play(Scenario(seconds=seconds, steps=steps, faults=faults))
    assert story.violations == ()
    return story


def late(path: str, seconds: float) -> Fault:
    return Fault("watch-late", seconds=seconds, paths=(path,), clients=("kube-scheduler",))


def test_141694_a_victim_that_is_gone_before_the_second_preemption() -> None:
    """The second preemption of the same victim deletes nothing, so that no event follows it, and
    the preemptor is parked for five minutes.
    """
    story = told(
        *created(0, HIGH, *nodes(1, cpu=1), pod("low", cpu=1, terminationGracePeriodSeconds=0)),
        *created(10, pod("high", cpu=1, priorityClassName="high"), pod("other", cpu=5)),
        *created(11, *nodes(1, cpu=0.1, prefix="small")),
        seconds=60,
        faults=(late("/pods", 4.0),),
    )
    assert story.bound == 2


class Slow(PreBindPlugin):
    """Holds pods that are called slow in PreBind for ten minutes."""

    name = "Slow"

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        if info.pod.metadata.name == "slow":
            await anyio.sleep(600)
        return SUCCESS


@pytest.mark.cluster(nodes=1, plugins=[Slow])
async def test_140082_a_victim_that_is_in_pre_bind(cluster: Cluster) -> None:
    """The victim is cancelled without a deletion. If its event comes before the preemption has
    ended, the preemptor's gate drops it, and the preemptor is parked.
    """
    await cluster.add(HIGH, pod("slow", cpu=6))
    await cluster.run_for("5s")
    assert cluster.pod("slow").pending()
    await cluster.add(pod("high", cpu=6, priorityClassName="high"))
    await cluster.until(cluster.pod("high").placed_on, "1m")
    assert cluster.pods().bound_once()


def test_139162_a_preemptor_that_something_wakes_while_it_waits_for_its_victim() -> None:
    """The preemptor is gated when something else wakes it during its preemption, and a gated pod is
    not flushed: with a hint that misses the end of the victim it waits for ever.
    """
    victim = pod("low", cpu=1, terminationGracePeriodSeconds=30)
    labels = {"metadata": {"labels": {"any": "change"}}}
    story = told(
        *created(0, HIGH, *nodes(1, cpu=1), victim),
        *created(10, pod("high", cpu=1, priorityClassName="high")),
        *(ScenarioStep(10 + s, "patch", kind="Node", name="node-1", body=labels) for s in (1, 5)),
        seconds=60,
        faults=(Fault("slow", seconds=3.0, methods=("DELETE", "PATCH")),),
    )
    assert story.bound == 2


def test_139161_a_pod_with_two_anti_affinity_terms() -> None:
    """The deletion of a pod wakes only those all of whose terms it matched."""
    terms = [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
        for app in ("a", "b")
    ]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    neighbours = [
        pod(name, labels={"app": name}, terminationGracePeriodSeconds=0) for name in ("a", "b")
    ]
    story = told(
        *created(0, *nodes(1), *neighbours),
        *created(10, pod("shy", affinity=apart)),
        ScenarioStep(20, "delete", kind="Pod", name="a"),
        ScenarioStep(25, "delete", kind="Pod", name="b"),
        seconds=30,
    )
    assert story.bound == 3


def test_138324_a_pod_that_is_created_anew_while_its_attempt_fails() -> None:
    """Before 1.36, the attempt ended for the new uid: the old one stayed in flight, and events were
    kept for ever.

    That nothing stays in flight is the property `memory kept`.
    """
    steps: list[ScenarioStep] = [*created(0, *nodes(1, cpu=1))]
    for second in range(5, 40, 2):
        steps += created(second, pod("a", cpu=4))
        steps.append(ScenarioStep(second + 1.5, "delete", kind="Pod", name="a"))
    told(*steps, seconds=45, faults=(Fault("slow", seconds=1.4, methods=("PATCH",)),))


def test_134249_one_preemption_deletes_its_victim_once() -> None:
    """While the deletion is under way the preemptor may be tried again, and deletes it again."""
    others = [pod(f"other-{n}", cpu=0.1, terminationGracePeriodSeconds=0) for n in range(5)]
    steps = (
        *created(0, HIGH, *nodes(1, cpu=2), pod("low", cpu=1.5), *others[:4]),
        *created(10, pod("high", cpu=1.5, priorityClassName="high")),
        *(ScenarioStep(11 + n, "delete", kind="Pod", name=f"other-{n}") for n in range(4)),
    )
    slow = Fault("slow", seconds=6.0, methods=("DELETE",), clients=("kube-scheduler",))
    timeline = Timeline()
    story = play(Scenario(seconds=60, steps=steps, faults=(slow,)), timeline.follow)
    assert story.violations == ()
    deletions = [
        entry
        for entry in timeline.entries
        if entry.lane == "kube-scheduler request" and entry.text.startswith("DELETE")
    ]
    assert len(deletions) == 1


async def test_139602_a_condition_that_arrives_after_the_binding(cluster: Cluster) -> None:
    """PodScheduled=False of a failed attempt arrives after the attempt that binds the pod, and
    stays.
    """
    cluster.faults.add(
        Fault("refuse", code=500, paths=("/binding",), end=2),
        Fault("arrive-late", seconds=20, paths=("/status",), clients=("kube-scheduler",), end=4),
    )
    await cluster.add(nodes(1), pod("a"))
    await cluster.settled()
    conditions = cluster.get("Pod", "a")["status"]["conditions"]
    assert [each["status"] for each in conditions if each["type"] == "PodScheduled"] == ["True"]


def gpus(name: str, count: int) -> Document:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(count)]
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
    about = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**about, "metadata": {"name": f"gpus-{name}"}, "spec": spec}


def device_class() -> Document:
    about = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**about, "metadata": {"name": "gpu"}, "spec": {}}


def with_gpu(name: str) -> tuple[Document, Document]:
    claim = device_claim(f"gpu-of-{name}", "gpu")
    return claim, pod(name, devices=[claim], terminationGracePeriodSeconds=0)


def test_140831_a_claim_that_vanishes_without_its_last_update() -> None:
    """The hint ignores the deletion of a claim. If the update that freed its device was missed,
    pods that wait for the device are parked.
    """
    missed = Fault("watch-expired", paths=("/resourceclaims",), begin=19, end=30)
    story = told(
        *created(0, device_class(), *nodes(1), gpus("node-1", 1), *with_gpu("a")),
        *created(10, *with_gpu("b")),
        ScenarioStep(20, "delete", kind="Pod", name="a"),
        ScenarioStep(20, "delete", kind="ResourceClaim", name="gpu-of-a"),
        seconds=40,
        faults=(missed,),
    )
    assert story.bound == 2


def test_136269_many_claims_at_once_get_each_device_once() -> None:
    """Before 1.36, a device was given to two claims when claims changed while events were handled.

    That no device is held twice is a property of every story.
    """
    steps = [
        *created(0, device_class(), *nodes(4)),
        *created(0, *(gpus(f"node-{n}", 3) for n in range(1, 5))),
    ]
    for number in range(30):
        steps += created(5 + number * 0.05, *with_gpu(f"p{number}"))
    steps += [ScenarioStep(9 + n * 0.1, "delete", kind="Pod", name=f"p{n}") for n in range(10)]
    faults = (
        late("/resourceclaims", 0.7),
        Fault("unanswered", chance=0.2, paths=("/status",), clients=("kube-scheduler",)),
    )
    assert told(*steps, seconds=60, faults=faults).bound >= 12


def test_140437_a_device_whose_share_takes_no_capacity() -> None:
    """Whether a shared device is in use is asked of the capacity that is taken of it, so the
    counters of one whose share takes none are charged again.
    """
    shared = gpus("node-1", 1)
    shared["spec"]["pool"] = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    (device,) = shared["spec"]["devices"]
    device["allowMultipleAllocations"] = True
    device["capacity"] = {"memory": {"value": "4Gi"}}
    consumed = {"memory": {"value": "4Gi"}}
    device["consumesCounters"] = [{"counterSet": "memory", "counters": consumed}]
    spec = {
        **{key: value for key, value in shared["spec"].items() if key != "devices"},
        "sharedCounters": [{"name": "memory", "counters": consumed}],
    }
    counters = {**shared, "metadata": {"name": "counters"}, "spec": spec}
    held, claim = device_claim("held", "gpu"), device_claim("more", "gpu")
    share = {"request": "device", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    results = [{**share, "shareID": "8f0a5f6e-0c5e-4d8b-9a4e-000000000000"}]
    held["status"] = {"allocation": {"devices": {"results": results}}}
    others = (device_class(), shared, counters, held, claim)
    assert decide(pod("a", devices=[claim]), nodes(1), *others).node == "node-1"


def test_138885_all_devices_of_a_pool_with_counters() -> None:
    """Before 1.36.1 Filter panicked, as the candidates of the mode All did not know their pool."""
    counters = [{"name": "memory", "counters": {"memory": {"value": "8Gi"}}}]
    consumes = [{"counterSet": "memory", "counters": {"memory": {"value": "4Gi"}}}]
    devices = gpus("node-1", 2)
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    devices["spec"]["pool"] = pool
    for device in devices["spec"]["devices"]:
        device["consumesCounters"] = consumes
    sets = {
        "driver": "gpu.example.com",
        "nodeName": "node-1",
        "pool": pool,
        "sharedCounters": counters,
    }
    shared = {**devices, "metadata": {"name": "counters"}, "spec": sets}
    claim = device_claim("all", "gpu")
    exactly = {"deviceClassName": "gpu", "allocationMode": "All"}
    claim["spec"]["devices"]["requests"] = [{"name": "device", "exactly": exactly}]
    decision = decide(pod("a", devices=[claim]), nodes(1), device_class(), devices, shared, claim)
    assert decision.node == "node-1"


def test_139450_a_pod_that_comes_back_while_the_queue_waits() -> None:
    """A pod whose binding failed is handed out again before its first attempt is done, and is
    dropped from the queue.
    """
    refuse = Fault("refuse", code=500, chance=0.7, paths=("/binding",), end=40)
    web = deployment("web", replicas=12, cpu=0.1)
    assert told(*created(0, *nodes(2)), *created(5, web), seconds=60, faults=(refuse,)).bound == 12


def test_138951_images_of_volumes_are_not_counted_twice() -> None:
    """ImageLocality takes an image volume for one more container: kept under 1.36, not under 1.37,
    as tests/unit/actors/scheduling/plugins/test_image_locality.py shows of the scores.
    """
    volume = {"name": "v", "image": {"reference": "app"}}
    here = node("here", cpu=4)
    assert decide(pod("a", volumes=[volume]), [here]).node == "here"
