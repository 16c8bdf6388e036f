"""Whether the containers of a pod find room, each in one NUMA node."""

from __future__ import annotations

from collections.abc import Mapping

from .demand import PodDemand, is_native
from .topologies import Amounts, NumaNodes

Room = dict[int, dict[str, int]]  # what is left in each NUMA node, by its number


def room_of(nodes: NumaNodes) -> Room:
    return {number: dict(amounts) for number, amounts in nodes.available.items()}


def unaligned(demand: PodDemand, by_pod: bool, room: Room) -> str:
    """Takes what a pod needs from the room, with the kubelet's choice: the first NUMA node into
    which the container fits. Returns what does not fit into one, or "".
    """
    if by_pod:
        number = first_fitting(demand.whole, demand.is_guaranteed, room)
        if number is None:
            return "pod"
        take(demand.whole, demand.is_guaranteed, room[number])
        return ""
    for container in demand.containers:
        number = first_fitting(container.requests, demand.is_guaranteed, room)
        if number is None:
            return f"{container.kind}container"
        if not container.passes:
            take(container.requests, demand.is_guaranteed, room[number])
    return ""


def first_fitting(requests: Amounts, is_guaranteed: bool, room: Room) -> int | None:
    """Returns the first NUMA node with room for all that is requested. Devices and storage may
    belong to none, and then fit into each.
    """
    bound = [
        name
        for name, wanted in requests.items()
        if wanted > 0
        and (not _may_be_of_the_host(name) or any(name in has for has in room.values()))
    ]
    for number, has in room.items():
        if all(name in has and fits(name, requests[name], has, is_guaranteed) for name in bound):
            return number
    return None


def fits(resource: str, wanted: int, has: Mapping[str, int], is_guaranteed: bool) -> bool:
    """True if there is enough. Pods that are not Guaranteed share CPUs and memory with others, and
    need none of their own.
    """
    shared = not is_guaranteed and _is_shared(resource)
    return shared or has.get(resource, 0) >= wanted


def take(requests: Amounts, is_guaranteed: bool, has: dict[str, int]) -> None:
    for name, wanted in requests.items():
        if name in has and (is_guaranteed or not _is_shared(name)):
            has[name] = max(has[name] - wanted, 0)


def _is_shared(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _may_be_of_the_host(resource: str) -> bool:
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)
