"""The resources that a kubelet has allocated to a pod.

They are those of the spec, until a resize changes the spec and before the kubelet agrees.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from berth.actors.scheduling.kube.core import ResourceRequirements
from berth.actors.scheduling.kube.quantity import nano_value
from berth.actors.scheduling.kube.requests import pod_requests

from ...objects.structs import Container, Document, Pod

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
RESIZABLE = ("cpu", "memory")


class Allocation(msgspec.Struct, frozen=True):
    """The resources of each container, and those of the pod itself, if it has its own."""

    containers: dict[str, ResourceRequirements]
    pod: ResourceRequirements | None = None


def allocation_of(pod: Pod) -> Allocation:
    """Returns the resources in the spec of a pod."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return Allocation({c.name: c.resources for c in containers}, pod.spec.resources)


def same(before: Allocation, after: Allocation) -> bool:
    """True if the two allocations have equal amounts, so that a resize changes nothing."""
    old, new = before.containers, after.containers
    return (
        amounts(before.pod) == amounts(after.pod)
        and old.keys() == new.keys()
        and all(amounts(old[name]) == amounts(new[name]) for name in old)
    )


def amounts(resources: ResourceRequirements | None) -> tuple[int | None, ...]:
    """Returns the requests and limits that a resize can change, in billionths."""
    if resources is None:
        return (None,) * 4
    return tuple(
        nano_value(listed[name]) if name in listed else None
        for listed in (resources.requests, resources.limits)
        for name in RESIZABLE
    )


def with_allocation(pod: Pod, allocation: Allocation) -> Pod:
    """Returns a pod whose spec requests the allocated resources."""

    def sized(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        of = allocation.containers
        return tuple(replace(c, resources=of.get(c.name, c.resources)) for c in containers)

    spec = replace(
        pod.spec,
        containers=sized(pod.spec.containers),
        init_containers=sized(pod.spec.init_containers),
        resources=allocation.pod,
    )
    return replace(pod, spec=spec)


def document_with(pod: Document, allocation: Allocation) -> Document:
    """Returns the document of a pod whose spec requests the allocated resources."""
    spec = dict(pod["spec"])
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [
                {
                    **container,
                    "resources": resource_document(allocation.containers[container["name"]]),
                }
                for container in spec[field]
            ]
    spec.pop("resources", None)
    if allocation.pod is not None:
        spec["resources"] = resource_document(allocation.pod)
    return {**pod, "spec": spec}


def resource_document(resources: ResourceRequirements) -> Document:
    """Returns requests and limits as a document of resources."""
    document: Document = msgspec.to_builtins(resources)
    return document


def reported_allocation(pod: Pod) -> Allocation:
    """Returns the allocation that the status of a pod shows, for a kubelet that has just started.

    The status has no allocated limits. While a resize is in progress, and no other one is pending,
    they are the limits in the spec, otherwise the limits in effect.
    """
    desired = allocation_of(pod)
    conditions = {condition.type for condition in pod.status.conditions}
    if IN_PROGRESS in conditions and PENDING not in conditions:
        return desired
    containers = dict(desired.containers)
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.resources is not None and status.name in containers:
            requests = dict(status.allocated_resources or status.resources.requests)
            containers[status.name] = replace(status.resources, requests=requests)
    own = pod.status.resources
    if own is not None and desired.pod is not None:
        own = replace(own, requests=dict(pod.status.allocated_resources or own.requests))
    return Allocation(containers, desired.pod if own is None or desired.pod is None else own)


def is_increase(pod: Pod, allocation: Allocation) -> bool:
    """True if the spec of a pod requests more cpu or memory than is allocated."""
    desired = pod_requests(pod, status=False)
    before = pod_requests(with_allocation(pod, allocation), status=False)
    return any(desired.get(name, 0) > before.get(name, 0) for name in RESIZABLE)


def requests_changed(pod: Pod, allocation: Allocation, resource: str) -> bool:
    """True if a container requests another amount in the spec than it was allocated."""
    index = RESIZABLE.index(resource)
    return any(
        amounts(resources)[index] != amounts(allocation.containers[name])[index]
        for name, resources in allocation_of(pod).containers.items()
    )
