"""The statuses that a kubelet sets, as strategic merge patches: of pods that it evicts, kills,
restarts, preempts or rejects, and of nodes under pressure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ...objects.documents import container_documents
from ...objects.structs import (
    ContainerState,
    ContainerStatus,
    Document,
    Pod,
    PodStatus,
    Started,
    Terminated,
    Waiting,
)
from .thresholds import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE

TERMINATION_BY_KUBELET = "TerminationByKubelet"
KILLED = 137  # the exit code of a process that is killed
_REASONS = {
    MEMORY_PRESSURE: (
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ),
    DISK_PRESSURE: (
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ),
    PID_PRESSURE: (
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ),
}


def node_condition(kind: str, *, holds: bool, time: str) -> Document:
    """Returns the condition of a node about a kind of pressure."""
    reason, message = _REASONS[kind][0 if holds else 1]
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": time,
        "lastTransitionTime": time,
    }


def failed_status(pod: Pod, reason: str, message: str, disruption: str, time: str) -> Document:
    """Returns the status of a pod that its kubelet has ended.

    `disruption` is the message of its condition DisruptionTarget; "" gives it none.
    """
    conditions = [
        _condition(kind, holds=False, reason="PodFailed", time=time)
        for kind in ("Ready", "ContainersReady")
    ]
    if disruption:
        conditions.append(
            _condition(
                "DisruptionTarget",
                holds=True,
                reason=TERMINATION_BY_KUBELET,
                message=disruption,
                time=time,
            )
        )
    status: Document = {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "conditions": conditions,
    }
    for field, statuses in (
        ("containerStatuses", pod.status.container_statuses),
        ("initContainerStatuses", pod.status.init_container_statuses),
    ):
        if statuses:
            status[field] = container_documents(
                _killed_container(container, "Error", time) for container in statuses
            )
    return status


def rejected_status(reason: str, message: str, time: str) -> Document:
    """Returns the status of a pod that its kubelet does not admit."""
    message = f"Pod was rejected: {message}"
    return {"phase": "Failed", "reason": reason, "message": message, "startTime": time}


def _killed_container(status: ContainerStatus, reason: str, time: str) -> ContainerStatus:
    """Returns the status of a container after it was killed. The status of an ended container
    stays.
    """
    if status.state.running is None:
        return status
    ended = Terminated(
        exit_code=KILLED,
        reason=reason,
        started_at=status.state.running.started_at,
        finished_at=time,
    )
    return msgspec.structs.replace(
        status, ready=False, started=False, state=ContainerState(terminated=ended)
    )


def status_after_kill(status: PodStatus, name: str, time: str) -> PodStatus:
    """Returns the status of a pod after one of its containers was killed because memory ran out."""
    return _with_container(
        status, name, lambda before: _killed_container(before, "OOMKilled", time)
    )


def status_in_back_off(status: PodStatus, pod: Pod, name: str, seconds: float) -> PodStatus:
    """Returns the status of a pod while one of its killed containers waits for its restart."""
    message = f"back-off {seconds:.0f}s restarting failed container={name} pod={_place(pod)}"
    waiting = ContainerState(waiting=Waiting(reason="CrashLoopBackOff", message=message))
    return _with_container(
        status,
        name,
        lambda before: msgspec.structs.replace(before, state=waiting, last_state=before.state),
    )


def back_off_message(pod: Pod, name: str) -> str:
    return f"Back-off restarting failed container {name} in pod {_place(pod)}"


def _place(pod: Pod) -> str:
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"


def status_after_restart(status: PodStatus, name: str, time: str) -> PodStatus:
    """Returns the status of a pod after one of its killed containers was started again."""

    def start(before: ContainerStatus) -> ContainerStatus:
        ended = before.state if before.state.terminated is not None else before.last_state
        return msgspec.structs.replace(
            before,
            ready=True,
            started=True,
            restart_count=before.restart_count + 1,
            state=ContainerState(running=Started(started_at=time)),
            last_state=ended,
        )

    return _with_container(status, name, start)


def _with_container(
    status: PodStatus, name: str, change: Callable[[ContainerStatus], ContainerStatus]
) -> PodStatus:
    def changed_statuses(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
        return tuple(
            change(container) if container.name == name else container for container in statuses
        )

    return msgspec.structs.replace(
        status,
        container_statuses=changed_statuses(status.container_statuses),
        init_container_statuses=changed_statuses(status.init_container_statuses),
    )


def containers_patch(status: PodStatus, time: str) -> Document:
    """Returns the patch with the statuses of the containers, and whether all are ready.

    If no container will run again, the pod has failed.
    """
    statuses = (*status.container_statuses, *status.init_container_statuses)
    sleeping = [c.name for c in status.container_statuses if c.state.running is None]
    reason = "ContainersNotReady" if sleeping else ""
    message = f"containers with unready status: [{' '.join(sleeping)}]" if sleeping else ""
    conditions = [
        _condition(kind, holds=not sleeping, reason=reason, message=message, time=time)
        for kind in ("Ready", "ContainersReady")
    ]
    patch: Document = {"conditions": conditions}
    for field, of in (
        ("containerStatuses", status.container_statuses),
        ("initContainerStatuses", status.init_container_statuses),
    ):
        if of:
            patch[field] = container_documents(of)
    if statuses and all(c.state.terminated is not None for c in statuses):
        patch["phase"] = "Failed"
    return patch


def _condition(
    kind: str, *, holds: bool, time: str, reason: str = "", message: str = ""
) -> Document:
    """Returns a condition of a pod. An empty reason or message removes the earlier one."""
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason or None,
        "message": message or None,
        "lastTransitionTime": time,
    }
