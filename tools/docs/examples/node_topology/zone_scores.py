"""The scores of NUMA nodes by the scoring strategies of scheduler-plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from statistics import variance

from berth.plugin import MAX_NODE_SCORE

from .alignment import Room, fits, room_of
from .demand import PodDemand
from .topologies import FARTHEST, Amounts, NumaNodes

Weights = Mapping[str, int]
Strategy = Callable[[Amounts, Mapping[str, int], Weights], int]


def by_strategy(strategy: Strategy, demand: PodDemand, nodes: NumaNodes, weights: Weights) -> int:
    """Returns the mean of the containers' scores, or the pod's if pods are aligned as a whole."""
    if nodes.by_pod:
        return _lowest(strategy, demand.whole, nodes, weights)
    scores = [_lowest(strategy, each.requests, nodes, weights) for each in demand.containers]
    return sum(scores) // max(len(scores), 1)


def _lowest(strategy: Strategy, requests: Amounts, nodes: NumaNodes, weights: Weights) -> int:
    """Returns the lowest score of a NUMA node, of those into which something fits."""
    scores = (strategy(requests, has, weights) for has in nodes.available.values())
    return min(filter(None, scores), default=0)


def least_allocated(requests: Amounts, has: Mapping[str, int], weights: Weights) -> int:
    free = {name: has.get(name, 0) - wanted for name, wanted in requests.items()}
    return _weighted(free, requests, has, weights)


def most_allocated(requests: Amounts, has: Mapping[str, int], weights: Weights) -> int:
    return _weighted(requests, requests, has, weights)


def balanced_allocation(requests: Amounts, has: Mapping[str, int], _: Weights) -> int:
    parts = [wanted / has[name] if has.get(name) else 1.0 for name, wanted in requests.items()]
    if any(part > 1 for part in parts):
        return 0
    return int((1 - (variance(parts) if len(parts) > 1 else 0)) * MAX_NODE_SCORE)


def fewest_numa_nodes(demand: PodDemand, nodes: NumaNodes) -> int:
    """Prefers nodes where fewer NUMA nodes are needed, and of these those that are near."""
    room, needed, is_near = room_of(nodes), 0, True
    requests = [demand.whole] if nodes.by_pod else [each.requests for each in demand.containers]
    for each in requests:
        if not any(name in has for name in each for has in room.values()):
            continue  # NUMA nodes do not matter to it.
        found = _smallest(each, demand.is_guaranteed, room, nodes)
        if found is None:
            return 0
        needed = max(needed, len(found[0]))
        is_near = is_near and found[1]
        _take(each, room, found[0])
    if needed == 0:
        return MAX_NODE_SCORE
    part = MAX_NODE_SCORE // nodes.most
    return max(MAX_NODE_SCORE - needed * part + (part // 2 if is_near else 0), 0)


def _smallest(
    requests: Amounts, is_guaranteed: bool, room: Room, nodes: NumaNodes
) -> tuple[tuple[int, ...], bool] | None:
    """Returns the fewest NUMA nodes that have room together, the nearest to each other of these,
    and whether no other so many are nearer.
    """
    for count in range(1, len(room) + 1):
        sets = list(combinations(room, count))
        fitting = [each for each in sets if _fit_together(requests, is_guaranteed, room, each)]
        if fitting:
            best = min(fitting, key=lambda each: _distance(each, nodes))
            nearest = min(_distance(each, nodes) for each in sets)
            return best, _distance(best, nodes) == min(nearest, FARTHEST)
    return None


def _fit_together(
    requests: Amounts, is_guaranteed: bool, room: Room, numbers: tuple[int, ...]
) -> bool:
    if any(name not in room[number] for number in numbers for name in requests):
        return False
    sums = {name: sum(room[number][name] for number in numbers) for name in requests}
    return all(fits(name, wanted, sums, is_guaranteed) for name, wanted in requests.items())


def _distance(numbers: tuple[int, ...], nodes: NumaNodes) -> float:
    """Returns the mean distance between the NUMA nodes of a set."""
    pairs = [nodes.costs.get((a, b), FARTHEST) for a in numbers for b in numbers]
    return sum(pairs) / len(pairs)


def _take(requests: Amounts, room: Room, numbers: tuple[int, ...]) -> None:
    for name, wanted in requests.items():
        left = wanted
        for has in (room[number] for number in numbers):
            taken = min(left, has[name])
            has[name] -= taken
            left -= taken


def _weighted(amounts: Amounts, requests: Amounts, has: Mapping[str, int], weights: Weights) -> int:
    """Returns the weighted mean of which part of each resource an amount is, of 100; 0 for one that
    does not fit.
    """
    total = score = 0
    for name, wanted in requests.items():
        weight, there = max(weights.get(name, 1), 1), has.get(name, 0)
        total += weight
        if there > 0 and wanted <= there:
            score += weight * (amounts[name] * MAX_NODE_SCORE // there)
    return score // max(total, 1)
