"""What a pod asks for: its containers' requests added up as the API defines it.

Containers run together; init containers run before them one after the other, beside the sidecars started so far; so a
pod needs the larger of the two. Pod-level requests replace the sum for cpu, memory and huge pages; overhead comes on
top. While a pod is resized in place it counts the largest of what its spec asks for, what its node allocated and what
is in force. Amounts are added up exactly and rounded up once. Mirrors component-helpers' PodRequests.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.kube.core import Container, ContainerStatus, Pod, ResourceList
from actors.kube.quantity import capped, nano_value

Amounts = dict[str, int]
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
MISSING = {"cpu": DEFAULT_CPU_MILLI * 10**6, "memory": DEFAULT_MEMORY_BYTES * 10**9}


def pod_requests(pod: Pod, *, pod_level: bool = True, missing: Mapping[str, int] | None = None) -> Amounts:
    """cpu in thousandths of a core, all else in whole units.

    `pod_level`: let the pod's own `spec.resources` replace the sum of its containers. `missing`: billionths to count
    for each container that does not name the resource. Raises QuantityError.
    """
    infeasible = resize_is_infeasible(pod)
    total = _containers(pod, infeasible, missing or {})
    if pod_level and _has_pod_level_requests(pod):
        total.update(_pod_level(pod, infeasible))
    _add(total, _nanos(pod.spec.overhead))
    return {
        name: capped(-(-amount // 10**6)) if name == "cpu" else capped(-(-amount // 10**9))
        for name, amount in total.items()
    }


def nonzero_requests(pod: Pod, *, pod_level: bool = True) -> tuple[int, int]:
    """(milli-CPU, bytes of memory), a container that names none of one counting as 100m or 200Mi.

    Where the pod's own requests count, the defaults stand only for what the pod as a whole does not name.
    """
    missing: Mapping[str, int] = MISSING
    if pod_level and _has_pod_level_requests(pod):
        named = pod_requests(pod)
        missing = {name: amount for name, amount in MISSING.items() if name not in named}
    amounts = pod_requests(pod, pod_level=pod_level, missing=missing)
    return amounts.get("cpu", 0), amounts.get("memory", 0)


def _has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(map(_counts_at_pod_level, resources.requests))


def _counts_at_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _containers(pod: Pod, infeasible: bool, missing: Mapping[str, int]) -> Amounts:
    statuses = {s.name: s for s in (*pod.status.init_container_statuses, *pod.status.container_statuses)}

    def asked(container: Container) -> Amounts:
        return {**missing, **_in_force(container, statuses.get(container.name), infeasible)}

    total: Amounts = {}
    for container in pod.spec.containers:
        _add(total, asked(container))
    sidecars: Amounts = {}
    most_before: Amounts = {}
    for container in pod.spec.init_containers:
        amounts = asked(container)
        if container.restart_policy == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = sidecars
        else:
            _add(amounts, sidecars)
        _raise_to(most_before, amounts)
    _raise_to(total, most_before)
    return total


def _pod_level(pod: Pod, infeasible: bool) -> Amounts:
    assert pod.spec.resources is not None
    amounts: Amounts = {} if infeasible and _resizing(pod) else _nanos(pod.spec.resources.requests)
    if _resizing(pod):
        overhead = _nanos(pod.spec.overhead)
        status = pod.status.resources.requests if pod.status.resources is not None else {}
        for reported in (status, pod.status.allocated_resources):
            _raise_to(amounts, {n: a - overhead.get(n, 0) for n, a in _nanos(reported).items()})
    return {n: a for n, a in amounts.items() if _counts_at_pod_level(n)}


def _resizing(pod: Pod) -> bool:
    return pod.status.resources is not None or bool(pod.status.allocated_resources)


def _in_force(container: Container, status: ContainerStatus | None, infeasible: bool) -> Amounts:
    """The largest of spec, actuated and allocated; spec is left out while a resize is infeasible."""
    if status is None or status.resources is None:
        return _nanos(container.resources.requests)
    amounts = {} if infeasible else _nanos(container.resources.requests)
    _raise_to(amounts, _nanos(status.resources.requests))
    _raise_to(amounts, _nanos(status.allocated_resources))
    return amounts


def resize_is_infeasible(pod: Pod) -> bool:
    """True while the node says that it can never do the resize that the spec asks for."""
    return any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions)


def _nanos(resources: ResourceList) -> Amounts:
    return {name: nano_value(text) for name, text in resources.items()}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, -1):
            total[name] = amount
