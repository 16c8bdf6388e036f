"""The words of an eviction under pressure: the pod's message, and the annotations of the event."""

from __future__ import annotations

from collections.abc import Iterable

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.quantity import binary_text, decimal_text, value

from ..usage_models import PodUsage
from .quantities import canonical
from .thresholds import DISK, RESOURCES, Observations, Threshold

EVICTED = "Evicted"
_EXCEEDS = "{} {} was using {}, request is {}, has larger consumption of {}. "


def eviction_message(
    resource: str,
    pod: Pod,
    usage: PodUsage | None,
    thresholds: Iterable[Threshold],
    observations: Observations,
) -> tuple[str, dict[str, str]]:
    """Returns the message and the annotations. They name the containers that exceed requests."""
    message = f"The node was low on resource: {resource}. "
    threshold = next(
        (t for t in thresholds if RESOURCES[t.signal] == resource and t.signal in observations),
        None,
    )
    if threshold is not None:
        observed = observations[threshold.signal]
        # Counts have decimal units, bytes and all shares of a capacity have binary ones.
        least = threshold.value.text(observed.capacity)
        available = (
            decimal_text(observed.available * 10**9)
            if resource in ("inodes", "pids")
            else binary_text(observed.available)
        )
        message += f"Threshold quantity: {least}, available: {available}. "
    if usage is None:
        return message, {}
    annotations: dict[str, str] = {}
    requests = pod.spec.resources.requests if pod.spec.resources is not None else {}
    if resource == "memory" and resource in requests:
        used, name = binary_text(usage.memory), pod.metadata.name
        message += _EXCEEDS.format("Pod", name, used, canonical(requests[resource]), resource)
        annotations |= {"offending_pod": name, "offending_pod_usage": used}
    exceeding = _containers_above_requests(resource, pod, usage)
    for container, amount, request in exceeding:
        message += _EXCEEDS.format("Container", container, amount, request, resource)
    return message, {
        **annotations,
        "offending_containers": ",".join(container for container, _, _ in exceeding),
        "offending_containers_usage": ",".join(amount for _, amount, _ in exceeding),
        "starved_resource": resource,
    }


def _containers_above_requests(
    resource: str, pod: Pod, usage: PodUsage
) -> list[tuple[str, str, str]]:
    """Returns name, usage and request of each container that uses more than it requests."""
    if resource not in ("memory", DISK):
        return []
    containers = {c.name: c for c in (*pod.spec.containers, *pod.spec.init_containers)}
    exceeding = []
    for used in usage.containers:
        container = containers.get(used.name)
        if container is None:
            continue
        amount = used.memory if resource == "memory" else used.rootfs + used.logs
        request = canonical(container.resources.requests.get(resource, "0"))
        if amount > value(request):
            exceeding.append((used.name, binary_text(amount), request))
    return exceeding
