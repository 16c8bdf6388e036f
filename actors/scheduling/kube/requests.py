"""The resource requests of a pod, computed from its containers' requests as the API defines them.

Containers run together. Init containers run before them, one at a time, beside the sidecars started
so far. A pod therefore needs the larger of the two sums. Pod-level requests replace the sum for
cpu, memory and huge pages; overhead is added. While a pod is resized in place, the largest of three
amounts counts: the one in its spec, the one that its node allocated, and the one in effect; of each
container, or, if the status is ResizedAtOnce, of the sum. Amounts are added up exactly and rounded
up once. Mirrors component-helpers' PodRequests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .core import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceList,
    ResourceRequirements,
)
from .meta import own
from .quantity import clamp_amount, nano_value

Amounts = dict[str, int]
_RESIZE = own(
    PodStatus, "container_statuses", "init_container_statuses", "resources", "allocated_resources"
)
_ALLOCATED = own(PodStatus, "allocated_resources")
_STATUS = own(PodStatus, *PodStatus.__struct_fields__)
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
DEFAULT_NANOS = {"cpu": DEFAULT_CPU_MILLI * 10**6, "memory": DEFAULT_MEMORY_BYTES * 10**9}


class ResizedAtOnce(PodStatus, frozen=True, kw_only=True):
    """The status of a pod whose containers are resized all at once or not at all. The pod then
    needs the largest of three sums, not the sum of the largest amounts. Belongs to the change
    ResizeFootprint.
    """


def resized_at_once(status: PodStatus) -> PodStatus:
    """Returns the status as a ResizedAtOnce, if the node has reported the pod's resources."""
    if not reports_resources(status):
        return status
    return ResizedAtOnce(**dict(zip(PodStatus.__struct_fields__, _STATUS(status), strict=True)))


def pod_requests(
    pod: Pod,
    *,
    pod_level: bool = True,
    status: bool = True,
    at_once: bool = False,
    defaults: Mapping[str, int] | None = None,
) -> Amounts:
    """Returns cpu in thousandths of a core, all else in whole units, from 0 to the largest int64.

    If `pod_level`, the pod's own `spec.resources` replaces the sum of its containers. If `status`,
    the status of a resize counts, with `at_once` as if it were ResizedAtOnce. `defaults` gives the
    billionths to count for each container that does not request a resource. Raises QuantityError.
    """
    infeasible = status and resize_is_infeasible(pod)
    if status and (at_once or isinstance(pod.status, ResizedAtOnce)):
        total = _largest_sum_of_states(pod, defaults or {}, infeasible=infeasible)
        pod_level_of = _pod_level_at_once
    else:
        total = _containers(pod, defaults or {}, infeasible=infeasible, status=status)
        pod_level_of = _pod_level
    if pod_level and _has_pod_level_requests(pod):
        total.update(pod_level_of(pod, infeasible=infeasible, status=status))
    add(total, nanos(pod.spec.overhead))
    return in_units(total)


def unit_of(resource: str) -> int:
    """Returns the unit in which a resource is compared with a node, in billionths."""
    return 10**6 if resource == "cpu" else 10**9


def in_units(amounts: Amounts) -> Amounts:
    """Returns amounts in billionths in the units of `pod_requests`, rounded up."""
    return {name: clamp_amount(-(-amount // unit_of(name))) for name, amount in amounts.items()}


def nonzero_requests(pod: Pod, *, pod_level: bool = True, status: bool = True) -> tuple[int, int]:
    """Returns milli-CPU and bytes; a container without a request counts as 100m and 200Mi.

    If the pod's own requests count, the defaults apply only to a resource that no request of the
    pod names.
    """
    defaults: Mapping[str, int] = DEFAULT_NANOS
    if pod_level and _has_pod_level_requests(pod):
        named = pod_requests(pod, status=status)
        defaults = {name: amount for name, amount in DEFAULT_NANOS.items() if name not in named}
    amounts = pod_requests(pod, pod_level=pod_level, status=status, defaults=defaults)
    return amounts.get("cpu", 0), amounts.get("memory", 0)


def exact_requests(spec: PodSpec) -> Amounts:
    """Returns the requests of a pod's spec in billionths. Raises QuantityError."""
    return _exact(spec, lambda resources: resources.requests, grows_from_zero=True)


def exact_limits(spec: PodSpec) -> Amounts:
    """Returns the limits of a pod's spec in billionths. Overhead is added to the limits that are
    not 0.

    Raises QuantityError.
    """
    return _exact(spec, lambda resources: resources.limits, grows_from_zero=False)


def _exact(
    spec: PodSpec, read: Callable[[ResourceRequirements], ResourceList], *, grows_from_zero: bool
) -> Amounts:
    def of(container: Container) -> Amounts:
        return nanos(read(container.resources))

    total = _largest_sum(spec, of, of)
    if spec.resources is not None:
        own = nanos(read(spec.resources))
        total.update({name: own[name] for name in own if counts_at_pod_level(name)})
    overhead = nanos(spec.overhead)
    add(total, {n: a for n, a in overhead.items() if grows_from_zero or total.get(n)})
    return total


def _has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(map(counts_at_pod_level, resources.requests))


def counts_at_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _containers(
    pod: Pod, defaults: Mapping[str, int], *, infeasible: bool, status: bool
) -> Amounts:
    reported = (
        (*pod.status.container_statuses, *pod.status.init_container_statuses) if status else ()
    )
    statuses = {container.name: container for container in reported}

    def requested(container: Container) -> Amounts:
        status = statuses.get(container.name)
        return {**defaults, **_in_effect(container, status, infeasible=infeasible)}

    def of_init(container: Container) -> Amounts:
        """Returns the requests in the spec, as an init container cannot be resized."""
        return {**defaults, **nanos(container.resources.requests)}

    return _largest_sum(pod.spec, requested, of_init)


def _largest_sum_of_states(pod: Pod, defaults: Mapping[str, int], *, infeasible: bool) -> Amounts:
    """Returns for each resource the largest of three amounts: requested in the spec, allocated by
    the node, and in effect. The node reports the latter two for the pod, or for its containers.
    """
    status = pod.status
    reported = (*status.init_container_statuses, *status.container_statuses)
    statuses = {container.name: container for container in reported}

    def requested(container: Container) -> Amounts:
        return {**defaults, **nanos(container.resources.requests)}

    def allocated(container: Container) -> Amounts:
        state = statuses.get(container.name)
        if state is not None and state.allocated_resources:
            return {**defaults, **nanos(state.allocated_resources)}
        return dict(defaults) if infeasible else requested(container)

    def in_effect(container: Container) -> Amounts:
        state = statuses.get(container.name)
        if state is not None and state.resources is not None and state.resources.requests:
            return {**defaults, **nanos(state.resources.requests)}
        return allocated(container)

    largest: Amounts = {} if infeasible else _largest_sum(pod.spec, requested, requested)
    whole = status.resources
    if whole is not None and whole.requests and status.allocated_resources:
        return _largest(largest, whole.requests, status.allocated_resources)
    _raise_to(largest, _largest_sum(pod.spec, in_effect, in_effect))
    _raise_to(largest, _largest_sum(pod.spec, allocated, allocated))
    return largest


def _largest_sum(
    spec: PodSpec,
    amounts_of: Callable[[Container], Amounts],
    of_init: Callable[[Container], Amounts],
) -> Amounts:
    """Returns the sum of the containers, or the largest sum during an init container, if that is
    larger. `of_init` gives the requests of init containers that are no sidecars.
    """
    total: Amounts = {}
    for container in spec.containers:
        add(total, amounts_of(container))
    sidecars: Amounts = {}
    max_init: Amounts = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            amounts = amounts_of(container)
            add(total, amounts)
            add(sidecars, amounts)
            so_far = {name: sidecars[name] for name in amounts}
        else:
            amounts = of_init(container)
            so_far = {name: amount + sidecars.get(name, 0) for name, amount in amounts.items()}
        # Resources that only earlier sidecars request have counted since the latest of these.
        _raise_to(max_init, so_far)
    _raise_to(total, max_init)
    return total


def _pod_level(pod: Pod, *, infeasible: bool, status: bool) -> Amounts:
    """Returns the pod's own requests, which replace the sum of its containers' requests."""
    assert pod.spec.resources is not None
    amounts = nanos(pod.spec.resources.requests)
    if status and pod.status.resources is not None:
        actuated, allocated = pod.status.resources.requests, pod.status.allocated_resources
        in_effect = _largest({} if infeasible else amounts, actuated, allocated)
        amounts = {name: in_effect.get(name, 0) for name in amounts}
    return {n: a for n, a in amounts.items() if counts_at_pod_level(n)}


def _pod_level_at_once(pod: Pod, *, infeasible: bool, status: bool) -> Amounts:
    """Returns the pod's own requests for a ResizedAtOnce status, with those that only the status
    names. The containers' requests replace those that it lacks.
    """
    assert pod.spec.resources is not None
    assert status
    amounts = nanos(pod.spec.resources.requests)
    if pod.status.resources is not None:
        actuated, allocated = pod.status.resources.requests, pod.status.allocated_resources
        amounts = _largest({} if infeasible else amounts, actuated, allocated)
    return {n: a for n, a in amounts.items() if counts_at_pod_level(n)}


def _in_effect(
    container: Container, status: ContainerStatus | None, *, infeasible: bool
) -> Amounts:
    amounts = nanos(container.resources.requests)
    if status is None or status.resources is None:
        return amounts
    return _largest(
        {} if infeasible else amounts, status.resources.requests, status.allocated_resources
    )


def _largest(amounts: Amounts, *others: ResourceList) -> Amounts:
    largest = {**amounts}
    for other in others:
        _raise_to(largest, nanos(other))
    return largest


def reports_resources(status: PodStatus) -> bool:
    """True if a status has resources for the pod that may differ from those of the spec, or says
    that those of the spec do not count.
    """
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources
        or _ALLOCATED(status)
        or (status.conditions and _is_infeasible(status))
    )


def resize_of(pod: Pod) -> tuple[object, ...]:
    """Returns the parts of the status that count for the pod's requests."""
    return (*_RESIZE(pod.status), resize_is_infeasible(pod))


def resize_is_infeasible(pod: Pod) -> bool:
    """True while the node reports that it can never perform the resize that the spec requests."""
    return _is_infeasible(pod.status)


def _is_infeasible(status: PodStatus) -> bool:
    for condition in status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def nanos(resources: ResourceList) -> Amounts:
    """Returns amounts in billionths. Raises QuantityError."""
    return {name: nano_value(text) for name, text in resources.items()}


def add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
