"""Measures how long the event loop stands still where one user has many objects:
`python -m tests.budget.stand_stills [--objects 10000] [CASE...]`.

For each place where the work of one attempt, message or question grows with the number of
somebody's objects, prints the milliseconds of processor time of the longest part during which
nothing else runs, and of all parts together. Not a test, because times differ from run to run; the
tests of each place count calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from time import thread_time
from typing import Any

import click
import msgspec

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import AssignedPodAdded, ListCached, NodeAdded, ObjectPut
from berth.actors.messages.queue import (
    ClusterChanged,
    FlushBackoff,
    FlushUnschedulable,
    ListQueued,
    NextPod,
    PendingPodAdded,
    UseProfiles,
)
from berth.actors.process.collector import tune_collector
from berth.actors.queue.effects import HandOut
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.events import WILDCARD, Action, ClusterEvent, Resource
from berth.actors.scheduling.framework.questions import PAUSE
from berth.actors.scheduling.kube.core import Namespace, Node, Pod, Service
from berth.actors.scheduling.kube.policy import PodDisruptionBudget
from berth.actors.scheduling.kube.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of, rules_of
from berth.config.types import KubeSchedulerConfiguration
from tests.kit import structs
from tests.kit.documents import Document
from tests.kit.handle import NoApi, Nowhere
from tests.kit.queue import rejected

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = 200
CONFIGURATION = KubeSchedulerConfiguration()
Part = Callable[[], object]


def pod(name: str, *, node: str = "", labels: Any = None, cpu: str = "1m", **spec: Any) -> Pod:
    return structs.pod(name, cpu, node, labels=labels or {"own": name}, **spec)


def node(number: int, cpu: int = 8) -> Node:
    name = f"n{number}"
    return structs.node(name, cpu, memory="64Gi", pods=20_000, labels={HOST: name})


def affinity(number: int, **scope: Any) -> Document:
    expression = {"key": "app", "operator": "In", "values": [f"never{number}"]}
    term = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [expression]}, **scope}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


class Times:
    """HintTimes by processor time."""

    now = staticmethod(thread_time)

    def hinting_of(self, plugin: str, event: str, hint: str) -> Callable[[float], None]:
        return lambda _: None


class Scene:
    """A cache, a scheduler and a queue."""

    def __init__(self, nodes: int = NODES) -> None:
        self.cache, self.scheduler = CacheState(), Scheduler(Random(1))
        self.profiles = profiles_of(CONFIGURATION, NoApi())
        rules = msgspec.structs.asdict(rules_of(CONFIGURATION, self.profiles))
        self.queue = QueueState(QueueRules(**rules, hint_times=Times()))
        for number in range(nodes):
            self.cache.handle(NodeAdded(node(number)))

    def put(self, kind: type[Any], document: Document) -> None:
        self.cache.handle(ObjectPut(msgspec.convert(document, kind)))

    def decide(self, about: Pod) -> Iterator[object]:
        """Decides about a pod; yields at each pause."""
        (profile,) = self.profiles.values()
        snapshot = self.cache.snapshot()
        steps = self.scheduler.steps(profile, PodInfo(about), snapshot, extended=False)
        for question in steps:
            assert question is PAUSE
            yield question

    def park(self, pods: int, spec: Callable[[int], Document]) -> None:
        for number in range(pods):
            now = number / 100
            self.queue.handle(PendingPodAdded(pod(f"p{number}", **spec(number))), now)
            for effect in self.queue.handle(NextPod(Nowhere()), now):
                assert isinstance(effect, HandOut) or number
                if isinstance(effect, HandOut):
                    self.queue.handle(rejected(effect.pod, "InterPodAffinity"), now)


def budgets(objects: int) -> Iterator[object]:
    """the next preemption, when all budgets are new; 40 requirements each"""
    scene = Scene()
    for number in range(objects):
        labels = {f"k{key}": f"w{number}" for key in range(3)}
        cpu = f"{8000 * NODES // objects - 2}m"
        scene.cache.handle(
            AssignedPodAdded(pod(f"e{number}", node=f"n{number % NODES}", labels=labels, cpu=cpu))
        )
        many = [
            {"key": f"k{key}", "operator": "NotIn", "values": [f"v{key}", f"w{number}"]}
            for key in range(40)
        ]
        metadata = {"name": f"b{number}", "namespace": "ns"}
        selector = {"matchExpressions": many}
        scene.put(PodDisruptionBudget, {"metadata": metadata, "spec": {"selector": selector}})
    scene.cache.snapshot()
    yield None
    yield from scene.decide(pod("high", cpu="4", priority=1000))


def victims(objects: int) -> Iterator[object]:
    """the next preemption, when all pods are on one node"""
    scene = Scene(1)
    for number in range(objects):
        low = pod(f"e{number}", node="n0", cpu=f"{max(8000 // objects, 1)}m")
        scene.cache.handle(AssignedPodAdded(low))
    scene.cache.snapshot()
    yield None
    yield from scene.decide(pod("high", cpu="4", priority=1000))


def snapshot(objects: int) -> Iterator[object]:
    """the next decision, when all pods of one node are new and 1,000 columns count pods"""
    scene = Scene()
    for number in range(1_000):
        for _ in scene.decide(pod(f"p{number}", **affinity(number))):
            pass
    for number in range(objects):
        scene.cache.handle(
            AssignedPodAdded(pod(f"e{number}", node="n0", labels={"app": f"{number}"}))
        )
    yield None
    yield from scene.decide(pod("small"))


def namespaces(objects: int) -> Iterator[object]:
    """a decision about a term with a namespaceSelector, after a change of a Namespace"""
    scene = Scene()
    for number in range(objects):
        scene.put(
            Namespace, {"metadata": {"name": f"ns{number}", "labels": {"team": f"t{number}"}}}
        )
    yield None
    scope = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}
    yield from scene.decide(pod("p", **affinity(0, **scope)))


def services(objects: int) -> Iterator[object]:
    """a decision about a pod, when all Services of its namespace are new"""
    scene = Scene()
    for number in range(objects):
        metadata = {"name": f"s{number}", "namespace": "ns"}
        selector = {"app": "a", f"k{number}": "v"}
        scene.put(Service, {"metadata": metadata, "spec": {"selector": selector}})
    yield None
    yield from scene.decide(pod("p", labels={"app": "a"}))


def volumes(objects: int) -> Iterator[object]:
    """a decision about a pod with a claim, when all volumes are new"""
    scene = Scene()
    claim = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"]},
    }
    scene.put(PersistentVolumeClaim, claim)
    for number in range(objects):
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": "/"},
        }
        scene.put(PersistentVolume, {"metadata": {"name": f"v{number}"}, "spec": spec})
    yield None
    source = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    yield from scene.decide(pod("p", volumes=[source]))


LATE = "WaitForFirstConsumer"


def waiting_for_volumes(scene: Scene, provisioner: str) -> Pod:
    """Returns a pod whose claim waits for its first consumer."""
    late = {"metadata": {"name": "s"}, "provisioner": provisioner, "volumeBindingMode": LATE}
    scene.put(StorageClass, late)
    claim = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "c"},
        "spec": {
            "storageClassName": "s",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    scene.put(PersistentVolumeClaim, claim)
    return pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])


def odd_volumes(objects: int) -> Iterator[object]:
    """a decision about a pod with a claim, when each new volume has 250 host names of its own"""
    scene = Scene()
    about = waiting_for_volumes(scene, "kubernetes.io/no-provisioner")
    for number in range(objects):
        terms = [
            {"matchExpressions": [{"key": HOST, "operator": "In", "values": values}]}
            for values in ([f"m{number}-{term}-{each}" for each in range(50)] for term in range(5))
        ]
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "s",
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        }
        document = {"metadata": {"name": f"v{number}"}, "spec": spec}
        scene.put(PersistentVolume, document | {"status": {"phase": "Available"}})
    yield None
    yield from scene.decide(about)


def odd_room(objects: int) -> Iterator[object]:
    """a decision about a pod with a claim, when new room has 20 demands of its own each"""
    scene = Scene()
    about = waiting_for_volumes(scene, "d")
    scene.put(CSIDriver, {"metadata": {"name": "d"}, "spec": {"storageCapacity": True}})
    for number in range(objects):
        expressions = [
            {"key": f"k{key}", "operator": "NotIn", "values": [f"v{number}-{e}" for e in range(10)]}
            for key in range(20)
        ]
        document = {
            "metadata": {"name": f"r{number}", "namespace": "ns"},
            "storageClassName": "s",
            "capacity": "1Mi",
            "nodeTopology": {"matchExpressions": expressions},
        }
        scene.put(CSIStorageCapacity, document)
    yield None
    yield from scene.decide(about)


def label_event(objects: int) -> Iterator[object]:
    """a change of a pod's label, when pods with affinity are parked"""
    scene = Scene(1)
    scene.park(objects, affinity)
    yield None
    old, new = (pod("other", node="n0", labels={"app": app}) for app in "ab")
    event = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
    scene.queue.handle(ClusterChanged(event, old, new), objects + 1e4)


def wake_all(objects: int) -> Iterator[object]:
    """an event that wakes all parked pods"""
    scene = Scene(1)
    scene.park(objects, affinity)
    yield None
    scene.queue.handle(ClusterChanged(WILDCARD, None, None), objects + 1e4)


def flush(objects: int) -> Iterator[object]:
    """the flush of pods that were parked for five minutes, and then of their backoff"""
    scene = Scene(1)
    scene.park(objects, affinity)
    yield None
    scene.queue.handle(FlushUnschedulable(), objects / 100 + 301)
    yield None
    scene.queue.handle(FlushBackoff(), objects + 1e4)


def reload(objects: int) -> Iterator[object]:
    """a reload of the configuration, when pods are parked"""
    scene = Scene(1)
    scene.park(objects, affinity)
    rules = msgspec.structs.asdict(rules_of(CONFIGURATION, scene.profiles))
    yield None
    scene.queue.handle(UseProfiles(**rules, changed=frozenset(scene.profiles)), objects + 1e4)


def lists(objects: int) -> Iterator[object]:
    """the list of all pods, for debug pages and comparisons"""
    scene = Scene(1)
    scene.park(objects, affinity)
    for number in range(objects):
        scene.cache.handle(AssignedPodAdded(pod(f"e{number}", node="n0")))
    yield None
    scene.queue.handle(ListQueued(Nowhere()), 0.0)
    yield None
    scene.cache.handle(ListCached(Nowhere()))


CASES: Mapping[str, Callable[[int], Iterator[object]]] = {
    case.__name__.replace("_", "-"): case
    for case in (
        budgets,
        victims,
        snapshot,
        namespaces,
        services,
        volumes,
        odd_volumes,
        odd_room,
        label_event,
        wake_all,
        flush,
        reload,
        lists,
    )
}


def measured(parts: Iterator[object]) -> list[float]:
    """Returns the seconds of each part after the first, which sets the scene."""
    next(parts)
    seconds, done = [], False
    while not done:
        began = thread_time()
        done = next(parts, done_ := object()) is done_
        seconds.append(thread_time() - began)
    return seconds


@click.command(help=(__doc__ or "").split("`")[0])
@click.option("--objects", default=10_000, show_default=True)
@click.argument("cases", nargs=-1, type=click.Choice([*CASES]))
def main(objects: int, cases: tuple[str, ...]) -> None:
    tune_collector()
    for name in cases or CASES:
        seconds = measured(CASES[name](objects))
        what = (CASES[name].__doc__ or "").strip()
        longest, total = (f"{1e3 * each(seconds):8.1f} ms" for each in (max, sum))
        click.echo(f"{name:12} longest {longest}  total {total}  {what}")


if __name__ == "__main__":
    main()
