"""Suggestions to make room on a node by moving the fewest pods away.

Pods that their disruption budgets let go come first. If others must leave, the budgets are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.plugins.default_preemption.budgets import Budgets, violating

from ....kubernetes.kubelet.pressure.eviction_ranking import is_critical
from ..words import listed
from . import priority
from .anti_affinity import repelling_pods
from .change import ProposedChange, Who
from .edit import deletion_of
from .kind_of_change import Way
from .leaving_pods import pod_list
from .world import World

MOST_LOOKED = 200
MOST_NODES = 3
MOST_PODS = 32
PODS = "pods"


def may_leave(pod: PodInfo) -> bool:
    """False for pods that the node needs, and for pods whose controller creates them again on the
    node.
    """
    owners = pod.pod.metadata.owner_references
    return not is_critical(pod.pod) and not any(owner.kind == "DaemonSet" for owner in owners)


def _missing_resources(pod: PodInfo, node: NodeInfo) -> dict[str, int]:
    """Returns how much of each resource a node lacks."""
    lacks = {}
    for name, amount in pod.requests.items():
        lack = amount + node.requested.get(name, 0) - node.allocatable.get(name, 0)
        if amount and lack > 0:
            lacks[name] = lack
    if len(node.pods) >= node.allocatable.get(PODS, 0):
        lacks[PODS] = len(node.pods) + 1 - node.allocatable.get(PODS, 0)
    return lacks


def _requested_amount(pod: PodInfo, resource: str) -> int:
    return 1 if resource == PODS else pod.requests.get(resource, 0)


def _fewest_pods(
    node: NodeInfo, lacks: dict[str, int], in_the_way: Sequence[PodInfo], budgets: Budgets
) -> list[PodInfo] | None:
    """Returns the pods `in_the_way`, and the fewest others that have what the node then still
    lacks; None if too few may leave. If none is in the way and no resource is lacking, returns the
    first MOST_PODS of its pods that may leave.
    """
    if not all(map(may_leave, in_the_way)):
        return None
    chosen = list(in_the_way)
    there = [pod for pod in chosen if pod.key in node.pods]
    missing = _still_missing(lacks, there)
    pods = [pod for pod in node.pods.values() if may_leave(pod) and pod not in there]
    held = {pod.key for pod in pods if budgets and violating([pod], budgets)}
    pods.sort(key=lambda pod: (pod.key in held, pod.priority, pod.key))
    if not lacks and not chosen:
        return pods[:MOST_PODS]
    for pod in pods if missing else ():
        if not _still_missing(missing, [pod]):
            return [*chosen, pod]
    while missing and pods and len(chosen) < MOST_PODS:
        best = max(pods, key=lambda pod: (pod.key not in held, _share_of_need(pod, missing)))
        pods.remove(best)
        chosen.append(best)
        missing = _still_missing(missing, [best])
    return None if missing else chosen


def _still_missing(lacks: dict[str, int], pods: Sequence[PodInfo]) -> dict[str, int]:
    """Returns the amounts that are still lacking after these pods have left."""
    left = {
        name: lack - sum(_requested_amount(pod, name) for pod in pods)
        for name, lack in lacks.items()
    }
    return {name: lack for name, lack in left.items() if lack > 0}


def _share_of_need(pod: PodInfo, missing: dict[str, int]) -> float:
    return sum(min(1.0, _requested_amount(pod, name) / lack) for name, lack in missing.items())


def _pods_to_leave(world: World, node: str, pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Returns those of the pods that must leave a node; none if the pod fits not even after all
    have left.
    """

    def fits_without(leaving: Sequence[PodInfo]) -> bool:
        with world.changed([deletion_of(pod.key) for pod in leaving]):
            return world.fits(node)

    needed = list(pods)
    if not fits_without(needed):
        return []
    for pod in reversed(pods):
        others = [other for other in needed if other is not pod]
        if others and fits_without(others):
            needed = others
    return needed


def _share_of(lacks: dict[str, int], node: NodeInfo) -> float:
    return sum(lack / max(node.allocatable.get(name, 0), 1) for name, lack in lacks.items())


def _violated_budgets(pods: Sequence[PodInfo], budgets: Budgets) -> list[str]:
    """Returns the budgets that forbid the eviction of these pods now."""
    broken = violating(pods, budgets)
    namespaces = {pod.key: pod.pod.metadata.namespace for pod in pods}
    names = {
        f"{namespaces[key]}/{name}" for key, broken_names in broken.items() for name in broken_names
    }
    return sorted(names)


def _candidates(world: World, budgets: Budgets) -> list[tuple[str, list[PodInfo]]]:
    """Returns the nodes from which the fewest pods would have to leave, among those that lack
    least. Nodes whose budgets forbid it come last.
    """
    pod, domains = world.info, repelling_pods(world)
    short = []
    for name in world.helped_by_room():
        info = world.node_info(name)
        lacks = _missing_resources(pod, info)
        short.append((_share_of(lacks, info), name, lacks))
    candidates = []
    for _, name, lacks in sorted(short, key=lambda each: each[:2])[:MOST_LOOKED]:
        info = world.node_info(name)
        domain = [pod for item in info.labels.items() for pod in domains.get(item, ())]
        in_the_way = list({pod.key: pod for pod in domain}.values())
        if len(in_the_way) > MOST_PODS:
            continue
        pods = _fewest_pods(info, lacks, in_the_way, budgets)
        if pods:
            candidates.append((len(_violated_budgets(pods, budgets)), len(pods), name, pods))
    candidates.sort(key=lambda each: each[:3])
    return [(name, pods) for _, _, name, pods in candidates[:MOST_NODES]]


def changes(world: World) -> Iterator[ProposedChange]:
    results = []
    budgets = world.budgets()
    for name, pods in _candidates(world, budgets):
        needed = _pods_to_leave(world, name, pods)
        if needed:
            results.append((_violated_budgets(needed, budgets), len(needed), name, needed))
    results.sort(key=lambda each: (len(each[0]), *each[1:3]))
    for broken, number, name, pods in results[:1]:
        keys = [pod.key for pod in pods]
        are_there = all(key in world.node_info(name).pods for key in keys)
        where = f"away from {name}" if are_there else "out of the way"
        size = number / (number + 2)
        edits = tuple(map(deletion_of, keys))
        sentence = f"Move {pod_list(keys)} {where}"
        if broken:
            allow = "allows" if len(broken) == 1 else "allow"
            sentence += f", once the disruption budget {listed(broken)} {allow} it"
        yield ProposedChange("room", Who.ADMIN, size, sentence, edits)
        if world.preempted is None:
            yield from priority.higher_priority(world, max(pod.priority for pod in pods))


WAY = Way(changes)
