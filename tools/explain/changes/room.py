"""Make room on a node: the fewest pods that must leave it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo

from ...hollow.kubelet.pressure.ranking import is_critical
from . import priority
from .change import Change, Who
from .edit import deletion_of
from .leaving import worded_pods
from .way import Way
from .world import World

MOST_LOOKED = 200
MOST_NODES = 3
MOST_PODS = 32
PODS = "pods"


def may_leave(pod: PodInfo) -> bool:
    """False for pods that the node needs, and for those that would come back to it."""
    owners = pod.pod.metadata.owner_references
    return not is_critical(pod.pod) and not any(owner.kind == "DaemonSet" for owner in owners)


def _lacks(pod: PodInfo, node: NodeInfo) -> dict[str, int]:
    """Returns how much of each resource a node lacks."""
    wanting = {**pod.requests, PODS: 1}
    used = {**node.requested, PODS: len(node.pods)}
    lacks = {
        name: amount + used.get(name, 0) - node.allocatable.get(name, 0)
        for name, amount in wanting.items()
        if amount
    }
    return {name: lack for name, lack in lacks.items() if lack > 0}


def _of(pod: PodInfo, resource: str) -> int:
    return 1 if resource == PODS else pod.requests.get(resource, 0)


def _enough(node: NodeInfo, lacks: dict[str, int]) -> list[PodInfo] | None:
    """Returns the fewest pods that have what the node lacks, those of the lowest priority first;
    all if it lacks no resource, and None if all have too little.
    """
    pods = [pod for pod in node.pods.values() if may_leave(pod)]
    pods.sort(key=lambda pod: (pod.priority, pod.key))
    if not lacks:
        return pods[:MOST_PODS]
    for pod in pods:
        if all(_of(pod, name) >= lack for name, lack in lacks.items()):
            return [pod]
    chosen: list[PodInfo] = []
    missing = dict(lacks)
    while missing and pods and len(chosen) < MOST_PODS:
        best = max(pods, key=lambda pod: _share(pod, missing))
        pods.remove(best)
        chosen.append(best)
        missing = {
            name: left for name, lack in missing.items() if (left := lack - _of(best, name)) > 0
        }
    return None if missing else chosen


def _share(pod: PodInfo, missing: dict[str, int]) -> float:
    return sum(min(1.0, _of(pod, name) / lack) for name, lack in missing.items())


def _needed(world: World, node: str, pods: Sequence[PodInfo]) -> list[str]:
    """Returns those of the pods that must leave a node; none if it is not enough that all do."""
    keys = [pod.key for pod in pods]
    with world.changed([deletion_of(key) for key in keys]):
        if node not in world.nodes():
            return []
    for key in reversed(keys):
        others = [other for other in keys if other != key]
        if not others:
            break
        with world.changed([deletion_of(other) for other in others]):
            if node in world.nodes():
                keys = others
    return keys


def _share_of(lacks: dict[str, int], node: NodeInfo) -> float:
    return sum(lack / max(node.allocatable.get(name, 0), 1) for name, lack in lacks.items())


def _candidates(world: World) -> list[tuple[int, str, list[PodInfo]]]:
    """Returns the nodes where the fewest pods would have to leave, among those that lack least."""
    short = []
    for name in world.helped_by_room():
        info = world.node_info(name)
        lacks = _lacks(world.info, info)
        short.append((_share_of(lacks, info), name, lacks))
    candidates = []
    for _, name, lacks in sorted(short, key=lambda each: each[:2])[:MOST_LOOKED]:
        pods = _enough(world.node_info(name), lacks)
        if pods:
            candidates.append((len(pods), name, pods))
    return sorted(candidates, key=lambda each: each[:2])[:MOST_NODES]


def changes(world: World) -> Iterator[Change]:
    results = []
    for _, name, pods in _candidates(world):
        keys = _needed(world, name, pods)
        if keys:
            results.append((len(keys), name, keys))
    for number, name, keys in sorted(results)[:1]:
        sentence = f"Move {worded_pods(keys)} away from {name}"
        size = number / (number + 2)
        yield Change("room", Who.ADMIN, size, sentence, tuple(map(deletion_of, keys)))
        if world.preempted is None:
            there = world.node_info(name).pods
            yield from priority.raised(world, max(there[key].priority for key in keys))


WAY = Way(changes)
