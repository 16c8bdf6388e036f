"""Brings the containers of a pod to their allocated resources.

Mirrors computePodResizeAction and validateMemoryResizeAction of pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from berth.actors.scheduling.kube.core import ResourceRequirements
from berth.actors.scheduling.kube.quantity import value

from ...objects.documents import container_documents
from ...objects.structs import (
    Container,
    ContainerState,
    ContainerStatus,
    Document,
    Pod,
    Started,
    Terminated,
)
from ..usage_models import PodUsage
from .allocation import RESIZABLE, Allocation, amounts, resource_document

UNREADY = "containers with unready status: [{}]"


class Actuation(msgspec.Struct, frozen=True):
    """A patch of the status, and the containers that are restarted."""

    status: Document
    restarted: tuple[str, ...] = ()


def is_actuated(pod: Pod, allocation: Allocation) -> bool:
    """True if the running containers of a pod have their allocated resources."""
    of = allocation.containers
    return all(
        amounts(status.resources) == amounts(of[status.name])
        for status in _statuses(pod)
        if status.state.running is not None and status.name in of and status.resources is not None
    ) and (pod.status.resources is None or amounts(pod.status.resources) == amounts(allocation.pod))


def actuate(pod: Pod, allocation: Allocation, time: str) -> Actuation:
    """Gives a pod its allocated resources, and restarts the containers whose policy requires it."""
    restarted = _containers_to_restart(pod, allocation)

    def with_resources(statuses: Iterable[ContainerStatus]) -> list[Document]:
        return container_documents(
            _restarted_container(_with_container_resources(status, allocation), time)
            if status.name in restarted
            else _with_container_resources(status, allocation)
            for status in statuses
        )

    status: Document = {"containerStatuses": with_resources(pod.status.container_statuses)}
    if pod.status.init_container_statuses:
        status["initContainerStatuses"] = with_resources(pod.status.init_container_statuses)
    if allocation.pod is not None:
        status["resources"] = resource_document(allocation.pod)
    if restarted:
        unready = " ".join(
            status.name
            for status in pod.status.container_statuses
            if status.name in restarted or not status.ready
        )
        status["conditions"] = [
            {
                "type": kind,
                "status": "False",
                "reason": "ContainersNotReady",
                "message": UNREADY.format(unready),
                "lastTransitionTime": time,
            }
            for kind in ("ContainersReady", "Ready")
        ]
    return Actuation(status, restarted)


def allocated_status(pod: Pod, allocation: Allocation) -> Document:
    """Returns the patch that reports the allocated resources of a pod."""
    status: Document = {}
    for field, of in (
        ("containerStatuses", pod.status.container_statuses),
        ("initContainerStatuses", pod.status.init_container_statuses),
    ):
        if of:
            status[field] = container_documents(_allocated(each, allocation) for each in of)
    if allocation.pod is not None:
        status["allocatedResources"] = allocation.pod.requests
    return status


def memory_problem(pod: Pod, allocation: Allocation, usage: PodUsage | None) -> str:
    """Returns why memory limits cannot be decreased to the allocated ones; "" if they can."""
    restarted = _containers_to_restart(pod, allocation)
    running = [
        status
        for status in _statuses(pod)
        if status.state.running is not None and status.name not in restarted
    ]
    used = {} if usage is None else {each.name: each.memory for each in usage.containers}
    total = sum(used.get(status.name, 0) for status in running)
    problems = []
    limits = [_memory_limit(allocation.containers[c.name]) for c in pod.spec.containers]
    before = [_memory_limit(status.resources) for status in pod.status.container_statuses]
    now, then = (sum(listed) if all(listed) else 0 for listed in (before, limits))
    if allocation.pod is not None:
        now, then = _memory_limit(pod.status.resources), _memory_limit(allocation.pod) or then
    if then and (not now or then < now) and total >= then:
        problems.append(
            f"attempting to set pod memory limit ({then}) below current usage ({total})"
        )
    for status in running:
        now, then = (
            _memory_limit(status.resources),
            _memory_limit(allocation.containers.get(status.name)),
        )
        if then and (not now or then < now) and used.get(status.name, 0) >= then:
            problems.append(
                f'attempting to set container "{status.name}" memory limit ({then}) '
                f"below current usage ({total})"
            )
    if not problems:
        return ""
    together = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return f"cannot decrease memory limits: {together}"


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _containers_to_restart(pod: Pod, allocation: Allocation) -> tuple[str, ...]:
    containers = {c.name: c for c in (*pod.spec.init_containers, *pod.spec.containers)}
    return tuple(
        status.name
        for status in _statuses(pod)
        if status.state.running is not None
        and status.name in containers
        and _restarts(containers[status.name], status, allocation)
    )


def _restarts(container: Container, status: ContainerStatus, allocation: Allocation) -> bool:
    before, after = amounts(status.resources), amounts(allocation.containers[container.name])
    differing = {RESIZABLE[i % 2] for i in range(4) if before[i] != after[i]}
    return any(
        policy.resource_name in differing and policy.restart_policy == "RestartContainer"
        for policy in container.resize_policy
    )


def _allocated(status: ContainerStatus, allocation: Allocation) -> ContainerStatus:
    resources = allocation.containers.get(status.name)
    if resources is None or status.resources is None:
        return status
    return replace(status, allocated_resources=dict(resources.requests))


def _with_container_resources(status: ContainerStatus, allocation: Allocation) -> ContainerStatus:
    resources = allocation.containers.get(status.name)
    if resources is None or status.resources is None:
        return status
    return replace(status, allocated_resources=dict(resources.requests), resources=resources)


def _restarted_container(status: ContainerStatus, time: str) -> ContainerStatus:
    running = status.state.running
    ended = Terminated(
        reason="Completed",
        started_at=None if running is None else running.started_at,
        finished_at=time,
    )
    return replace(
        status,
        ready=False,
        started=False,
        restart_count=status.restart_count + 1,
        state=ContainerState(running=Started(started_at=time)),
        last_state=ContainerState(terminated=ended),
    )


def _memory_limit(resources: ResourceRequirements | None) -> int:
    return 0 if resources is None else value(resources.limits.get("memory", 0))
