"""What a pod asks for: its containers' requests added up as the API defines it.

Containers run together; init containers run before them one after the other, beside the sidecars
started so far; so a pod needs the larger of the two. Pod-level requests replace the sum for cpu,
memory and huge pages; overhead comes on top. While a pod is resized in place it counts the largest
of what its spec asks for, what its node allocated and what is in force. Amounts are added up
exactly and rounded up once. Mirrors component-helpers' PodRequests.
"""

from __future__ import annotations

from collections.abc import Mapping

from berth.actors.scheduling.kube.core import Container, ContainerStatus, Pod, ResourceList
from berth.actors.scheduling.kube.quantity import nano_value, room

Amounts = dict[str, int]
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
MISSING = {"cpu": DEFAULT_CPU_MILLI * 10**6, "memory": DEFAULT_MEMORY_BYTES * 10**9}


def pod_requests(
    pod: Pod,
    *,
    pod_level: bool = True,
    status: bool = True,
    missing: Mapping[str, int] | None = None,
) -> Amounts:
    """cpu in thousandths of a core, all else in whole units, from 0 to the largest int64.

    `pod_level`: let the pod's own `spec.resources` replace the sum of its containers. `status`:
    look at what the status says of a resize. `missing`: billionths to count for each container that
    does not name the resource. Raises QuantityError.
    """
    infeasible = status and resize_is_infeasible(pod)
    total = _containers(pod, missing or {}, infeasible=infeasible, status=status)
    if pod_level and _has_pod_level_requests(pod):
        total.update(_pod_level(pod, infeasible=infeasible, status=status))
    _add(total, _nanos(pod.spec.overhead))
    return {
        name: room(-(-amount // 10**6)) if name == "cpu" else room(-(-amount // 10**9))
        for name, amount in total.items()
    }


def nonzero_requests(pod: Pod, *, pod_level: bool = True, status: bool = True) -> tuple[int, int]:
    """(milli-CPU, bytes of memory), a container that names none of one counting as 100m or 200Mi.

    Where the pod's own requests count, the defaults stand only for what the pod as a whole does not
    name.
    """
    missing: Mapping[str, int] = MISSING
    if pod_level and _has_pod_level_requests(pod):
        named = pod_requests(pod, status=status)
        missing = {name: amount for name, amount in MISSING.items() if name not in named}
    amounts = pod_requests(pod, pod_level=pod_level, status=status, missing=missing)
    return amounts.get("cpu", 0), amounts.get("memory", 0)


def _has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(map(_counts_at_pod_level, resources.requests))


def _counts_at_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _containers(pod: Pod, missing: Mapping[str, int], *, infeasible: bool, status: bool) -> Amounts:
    reported = (
        (*pod.status.container_statuses, *pod.status.init_container_statuses) if status else ()
    )
    statuses = {container.name: container for container in reported}

    def asked(container: Container) -> Amounts:
        return {
            **missing,
            **_in_force(container, statuses.get(container.name), infeasible=infeasible),
        }

    total: Amounts = {}
    for container in pod.spec.containers:
        _add(total, asked(container))
    sidecars: Amounts = {}
    most_before: Amounts = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            amounts = asked(container)
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = sidecars
        else:  # It cannot be resized: what its status says does not count.
            amounts = {**missing, **_nanos(container.resources.requests)}
            _add(amounts, sidecars)
        _raise_to(most_before, amounts)
    _raise_to(total, most_before)
    return total


def _pod_level(pod: Pod, *, infeasible: bool, status: bool) -> Amounts:
    """What counts in the place of the containers' sum, for the resources that the pod's own
    requests name.
    """
    assert pod.spec.resources is not None
    amounts = _nanos(pod.spec.resources.requests)
    if status and pod.status.resources is not None:
        actuated, allocated = pod.status.resources.requests, pod.status.allocated_resources
        in_force = _largest({} if infeasible else amounts, actuated, allocated)
        amounts = {name: in_force.get(name, 0) for name in amounts}
    return {n: a for n, a in amounts.items() if _counts_at_pod_level(n)}


def _in_force(container: Container, status: ContainerStatus | None, *, infeasible: bool) -> Amounts:
    amounts = _nanos(container.resources.requests)
    if status is None or status.resources is None:
        return amounts
    return _largest(
        {} if infeasible else amounts, status.resources.requests, status.allocated_resources
    )


def _largest(amounts: Amounts, *others: ResourceList) -> Amounts:
    largest = {**amounts}
    for other in others:
        _raise_to(largest, _nanos(other))
    return largest


def resize_is_infeasible(pod: Pod) -> bool:
    """True while the node says that it can never do the resize that the spec asks for."""
    pending = next((c for c in pod.status.conditions if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def _nanos(resources: ResourceList) -> Amounts:
    return {name: nano_value(text) for name, text in resources.items()}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
