"""The columns of pods: what `kubectl get pods` derives from the statuses of containers.

Init containers are read in order up to the first that has not finished. While there is such a
container, it determines the status, and only init containers count for restarts. After that, the
containers determine the status, and count for restarts together with sidecars (init containers with
restartPolicy Always), which also count as ready.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from ..types.api_documents import Document
from .column import (
    AGE,
    NAME,
    NONE,
    WIDE,
    Column,
    condition,
    entries,
    field,
    flag,
    mapping,
    number,
    text,
    value_at,
)
from .duration import human, moment

SUCCEEDED, FAILED = "Succeeded", "Failed"


class InitProgress(msgspec.Struct, frozen=True):
    """The statuses of the init containers up to the first that has not finished.

    `holdup` is the status shown for that container; "" if all have finished.
    """

    begun: list[Document]
    sidecars: list[Document]
    holdup: str
    main: bool
    """True if initialization is over, so that the containers' own statuses count."""


def _progress(pod: Document) -> InitProgress:
    specs = entries(pod, "spec", "initContainers")
    restartable = {text(spec, "name") for spec in specs if spec.get("restartPolicy") == "Always"}
    begun, sidecars, holdup = [], [], ""
    for index, status in enumerate(entries(pod, "status", "initContainerStatuses")):
        begun.append(status)
        sidecar = text(status, "name") in restartable
        if sidecar:
            sidecars.append(status)
        terminated = value_at(status, "state", "terminated")
        waiting = text(status, "state", "waiting", "reason")
        if terminated is not None and number(terminated, "exitCode") == 0:
            continue
        if sidecar and flag(status, "started"):
            continue
        if terminated is not None:
            holdup = f"Init:{_termination_reason(terminated)}"
        elif waiting not in ("", "PodInitializing"):
            holdup = f"Init:{waiting}"
        else:
            holdup = f"Init:{index}/{len(specs)}"
        break
    return InitProgress(
        begun, sidecars, holdup, not holdup or condition(pod, "Initialized") == "True"
    )


def _termination_reason(terminated: Document) -> str:
    """Returns the reason why a container terminated."""
    if signal := number(terminated, "signal"):
        unexplained = f"Signal:{signal}"
    else:
        unexplained = f"ExitCode:{number(terminated, 'exitCode')}"
    return text(terminated, "reason", default=unexplained)


def _is_running_and_ready(status: Document) -> bool:
    """True if a container is running and ready."""
    state = mapping(status, "state")
    waits = text(state, "waiting", "reason")
    return (
        not waits
        and state.get("terminated") is None
        and state.get("running") is not None
        and flag(status, "ready")
    )


def _ready(pod: Document, _: datetime) -> str:
    progress = _progress(pod)
    ready = sum(
        flag(status, "started")
        and flag(status, "ready")
        and value_at(status, "state", "terminated") is None
        for status in progress.sidecars
    )
    if progress.main:
        ready += sum(map(_is_running_and_ready, entries(pod, "status", "containerStatuses")))
    specs = entries(pod, "spec", "initContainers")
    total = len(entries(pod, "spec", "containers")) + sum(
        spec.get("restartPolicy") == "Always" for spec in specs
    )
    return f"{ready}/{total}"


def _status(pod: Document, _: datetime) -> str:
    phase, reason = text(pod, "status", "phase", default="Pending"), text(pod, "status", "reason")
    if pod["metadata"].get("deletionTimestamp"):
        if reason == "NodeLost":
            return "Unknown"
        if phase not in (SUCCEEDED, FAILED):
            return "Terminating"
    gated = any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated"
        for c in entries(pod, "status", "conditions")
    )
    progress = _progress(pod)
    shown = progress.holdup or ("SchedulingGated" if gated else reason or phase)
    return _container_status(pod, shown) if progress.main else shown


def _container_status(pod: Document, shown: str) -> str:
    """Returns the status by the containers, of which the first takes precedence; `shown` if they
    give none.
    """
    statuses, failure = entries(pod, "status", "containerStatuses"), ""
    for status in reversed(statuses):
        terminated = value_at(status, "state", "terminated")
        if waiting := text(status, "state", "waiting", "reason"):
            shown = waiting
        elif terminated is not None:
            shown = _termination_reason(terminated)
            if number(terminated, "exitCode"):
                failure = shown
    if shown != "Completed":
        return shown
    running = any(map(_is_running_and_ready, statuses))
    if running and condition(pod, "Ready") == "True":
        return "Running"
    return failure or ("NotReady" if running else shown)


def _restarts(pod: Document, now: datetime) -> str:
    progress = _progress(pod)
    counted = progress.begun
    if progress.main:
        counted = progress.sidecars + entries(pod, "status", "containerStatuses")
    restarts = sum(number(status, "restartCount") for status in counted)
    ends = [moment(text(status, "lastState", "terminated", "finishedAt")) for status in counted]
    last = max((end for end in ends if end is not None), default=None)
    return f"{restarts} ({human(now - last)} ago)" if restarts and last else str(restarts)


def _ip(pod: Document, _: datetime) -> str:
    addresses = [text(address, "ip") for address in entries(pod, "status", "podIPs")]
    return next(iter(addresses), "") or text(pod, "status", "podIP", default=NONE)


def _readiness_gates(pod: Document, _: datetime) -> str:
    gates = entries(pod, "spec", "readinessGates")
    passed = sum(condition(pod, text(gate, "conditionType")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


def row_conditions(pod: Document) -> list[Document]:
    """Returns the conditions of a row: Completed if the pod has finished."""
    phase = text(pod, "status", "phase")
    if phase not in (SUCCEEDED, FAILED):
        return []
    message = "All containers succeeded." if phase == SUCCEEDED else "A container failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


PODS = (
    NAME,
    Column("Ready", _ready, "How many of the pod's containers are ready."),
    Column("Status", _status, "The state of the pod and its containers."),
    Column("Restarts", _restarts, "How often containers were restarted, and when last."),
    AGE,
    Column("IP", _ip, "The pod's first address.", priority=WIDE),
    Column(
        "Node",
        field("spec", "nodeName", default=NONE),
        "The node the pod is bound to.",
        priority=WIDE,
    ),
    Column(
        "Nominated Node",
        field("status", "nominatedNodeName", default=NONE),
        "The node on which pods were preempted for it.",
        priority=WIDE,
    ),
    Column(
        "Readiness Gates", _readiness_gates, "How many readiness gates are passed.", priority=WIDE
    ),
)
