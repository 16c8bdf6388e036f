"""The resizes of a node's pods: those that wait for room, and those in progress.

Mirrors pkg/kubelet/allocation/allocation_manager.go. A resize that the node cannot take now is
deferred, and tried again when a pod leaves or shrinks, and every three minutes. Those that request
no more come first, then those of higher priority, then those of Guaranteed pods, then those that
wait longest. An allocation is in effect a second later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.core import PodCondition, ResourceRequirements
from berth.actors.scheduling.kube.meta import version_of
from berth.actors.scheduling.kube.times import rfc3339

from ...objects.object_events import Reporter, event_about
from ...objects.structs import Document, Pod
from ...objects.writes import Create
from ..kubelet_writes import KubeletWrite, StatusPatch
from ..usage_models import PodUsage
from .actuation import actuate, allocated_status, is_actuated, memory_problem
from .allocation import (
    IN_PROGRESS,
    PENDING,
    Allocation,
    allocation_of,
    document_with,
    is_increase,
    reported_allocation,
    resource_document,
    same,
    with_allocation,
)

ACTUATION_SECONDS = 1.0
SYNC_SECONDS = 10.0  # until a resize that failed is tried again
FIRST_RETRY_SECONDS, RETRY_SECONDS = 30.0, 180.0
INFEASIBLE, DEFERRED, ERROR = "Infeasible", "Deferred", "Error"
NEVER = float("inf")
# Returns why the node cannot give a pod what its spec requests, as a reason and a message, both of
# them "" if it can, and the writes that make room.
Admit = Callable[[Pod, Allocation, datetime], tuple[str, str, list[KubeletWrite]]]
Usage = Callable[[Pod, datetime], PodUsage | None]


class Resizes:
    """The resizes of a node. It keeps an allocation only for pods whose spec requests other
    amounts.
    """

    def __init__(self, admit: Admit, usage: Usage, reporter: Reporter) -> None:
        self._admit = admit
        self._usage = usage
        self._reporter = reporter
        self._allocations: dict[str, Allocation] = {}  # by uid, as all that follows
        self._pending: dict[str, None] = {}
        self._progressing: dict[str, float] = {}  # when they are in effect
        self._completed: set[str] = set()  # the pods in progress whose completion has been reported
        self._retry_at = NEVER

    @property
    def due(self) -> float:
        """When to look next, in Unix time."""
        times = list(self._progressing.values())
        return min([*times, self._retry_at] if self._pending else times, default=NEVER)

    def allocated(self, pod: Pod) -> Pod:
        """Returns a pod whose spec requests its allocated resources."""
        allocation = self._allocations.get(pod.metadata.uid)
        return pod if allocation is None else with_allocation(pod, allocation)

    def allocated_document(self, pod: Document) -> Document:
        """Returns the document of a pod whose spec requests its allocated resources."""
        allocation = self._allocations.get(pod["metadata"]["uid"])
        return pod if allocation is None else document_with(pod, allocation)

    def put(self, before: Pod | None, pod: Pod, now: float) -> None:
        """Stores a new version of an admitted pod; `before` is the previous version."""
        uid = pod.metadata.uid
        if before is None or not _has_same_requests(before, pod):
            self._compare(before, pod, now)
        if _condition(pod, IN_PROGRESS) is not None:
            self._progressing.setdefault(uid, now + ACTUATION_SECONDS)
        elif uid in self._progressing and is_actuated(pod, allocation_of(self.allocated(pod))):
            del self._progressing[uid]
            self._completed.discard(uid)

    def _compare(self, before: Pod | None, pod: Pod, now: float) -> None:
        """Compares what the spec of a pod requests with what is allocated to it."""
        uid, desired = pod.metadata.uid, allocation_of(pod)
        if before is None:
            allocation = reported_allocation(pod)
        else:
            allocation = self._allocations.get(uid) or allocation_of(before)
        if not same(allocation, desired):
            self._allocations[uid] = allocation
            self._push(uid, now)
        else:
            self._allocations.pop(uid, None)
            if uid in self._pending or _condition(pod, PENDING) is not None:
                self._push(uid, now)  # the spec requests again what the pod has

    def remove(self, uid: str) -> None:
        for of in (self._allocations, self._pending, self._progressing):
            of.pop(uid, None)
        self._completed.discard(uid)

    def make_room(self, now: float) -> None:
        """Makes waiting resizes due now, because a pod has left or shrunk."""
        if self._pending:
            self._retry_at = min(self._retry_at, now)

    def _push(self, uid: str, now: float) -> None:
        self._pending[uid] = None
        self._retry_at = now

    def look(self, pods: Mapping[str, Pod], now: datetime) -> list[KubeletWrite]:
        """Does the due work. `pods` are the active pods by uid."""
        seconds = now.timestamp()
        writes: list[KubeletWrite] = []
        tried: set[str] = set()
        if self._pending and self._retry_at <= seconds:
            self._retry_at = seconds + RETRY_SECONDS
            for pod in self._in_order(pods[uid] for uid in self._pending if uid in pods):
                if pod.metadata.uid in self._pending:  # else another one has preempted it
                    tried.add(pod.metadata.uid)
                    writes += self._try_to_allocate(pod, now)
        due = [uid for uid, at in self._progressing.items() if at <= seconds and uid not in tried]
        for uid in due:
            if uid in pods:
                writes += self._put_into_effect(pods[uid], now)
            else:
                del self._progressing[uid]
        return writes

    # ------------------------------------------------------------------------------ allocation

    def _in_order(self, pods: Iterable[Pod]) -> list[Pod]:
        return sorted(pods, key=self._urgency)

    def _urgency(self, pod: Pod) -> tuple[object, ...]:
        allocation = self._allocations.get(pod.metadata.uid)
        pending = _condition(pod, PENDING)
        since = "" if pending is None else pending.last_transition_time or ""
        return (
            allocation is not None and is_increase(pod, allocation),
            -(pod.spec.priority or 0),
            pod.status.qos_class != "Guaranteed",
            since == "",
            since,
        )

    def _try_to_allocate(self, pod: Pod, now: datetime) -> list[KubeletWrite]:
        """Allocates the resources that a pod's spec requests, or reports why it cannot."""
        uid = pod.metadata.uid
        allocation = self._allocations.get(uid)
        if allocation is None:
            del self._pending[uid]
            observed = {"observedGeneration": pod.metadata.generation}
            return [_patch(pod, {**observed, "conditions": [_without(PENDING)]})]
        reason, message, writes = self._admit(pod, allocation, now)
        if not reason:
            del self._pending[uid], self._allocations[uid]
            return [*writes, *self._allocate(pod, now)]
        if reason == INFEASIBLE:
            del self._pending[uid]
        shown = INFEASIBLE if reason == INFEASIBLE else DEFERRED
        before = _condition(pod, PENDING)
        condition = _with_transition_time(
            before, PENDING, shown, message, pod.metadata.generation, now
        )
        new = before is None or (before.reason, before.observed_generation) != (
            shown,
            pod.metadata.generation,
        )
        if new:
            text = _summary(f"Pod resize {reason}", pod, pod.metadata.generation, message)
            writes.append(self._event(pod, "Warning", f"Resize{shown}", text, now))
        if new or (before is not None and before.message != message):
            observed = {"observedGeneration": pod.metadata.generation}
            writes.append(_patch(pod, {**observed, "conditions": [condition]}))
        return writes

    def _allocate(self, pod: Pod, now: datetime) -> list[KubeletWrite]:
        generation = pod.metadata.generation
        self._progressing[pod.metadata.uid] = now.timestamp() + ACTUATION_SECONDS
        self._completed.discard(pod.metadata.uid)
        condition = _with_transition_time(None, IN_PROGRESS, "", "", generation, now)
        status = {
            **allocated_status(pod, allocation_of(pod)),
            "observedGeneration": generation,
            "conditions": [condition, _without(PENDING)],
        }
        text = _summary("Pod resize started", pod, generation)
        event = self._event(pod, "Normal", "ResizeStarted", text, now)
        return [event, _patch(pod, status, versioned=True)]

    # ------------------------------------------------------------------------------- actuation

    def _put_into_effect(self, pod: Pod, now: datetime) -> list[KubeletWrite]:
        """Puts an allocation into effect, or reports why that must wait."""
        uid, seconds = pod.metadata.uid, now.timestamp()
        pod = self.allocated(pod)
        allocation = allocation_of(pod)
        before = _condition(pod, IN_PROGRESS)
        generation = pod.metadata.generation if before is None else before.observed_generation
        problem = memory_problem(pod, allocation, self._usage(pod, now))
        if problem:
            self._progressing[uid] = seconds + SYNC_SECONDS
            if before is not None and before.message == problem:
                return []
            condition = _with_transition_time(before, IN_PROGRESS, ERROR, problem, generation, now)
            text = _summary("Pod resize error", pod, generation, problem)
            return [
                self._event(pod, "Warning", "ResizeError", text, now),
                _patch(pod, {"conditions": [condition]}),
            ]
        # It counts as done once the server shows it.
        self._progressing[uid] = seconds + ACTUATION_SECONDS
        actuation = actuate(pod, allocation, rfc3339(now))
        writes: list[KubeletWrite] = []
        if uid not in self._completed:
            self._completed.add(uid)
            for name in actuation.restarted:
                text = f"Container {name} resize requires restart"
                writes.append(self._event(pod, "Normal", "Killing", text, now))
            text = _summary("Pod resize completed", pod, generation)
            writes.append(self._event(pod, "Normal", "ResizeCompleted", text, now))
        conditions = [*actuation.status.get("conditions", ()), _without(IN_PROGRESS)]
        status = {**actuation.status, "conditions": conditions}
        return [*writes, _patch(pod, status, versioned=True)]

    def _event(self, pod: Pod, type_: str, reason: str, message: str, now: datetime) -> Create:
        return Create("Event", event_about(pod, type_, reason, message, self._reporter, now))


def _has_same_requests(before: Pod, after: Pod) -> bool:
    old, new = before.spec, after.spec
    return (
        old.containers == new.containers
        and old.init_containers == new.init_containers
        and old.resources == new.resources
    )


def _condition(pod: Pod, kind: str) -> PodCondition | None:
    return next((each for each in pod.status.conditions if each.type == kind), None)


def _with_transition_time(
    before: PodCondition | None,
    kind: str,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> Document:
    """Returns a condition. Its transition time changes only with its reason."""
    time = rfc3339(now)
    same_reason = before is not None and before.reason == reason
    since = before.last_transition_time if before is not None and same_reason else time
    return {
        "type": kind,
        "status": "True",
        "reason": reason or None,
        "message": message or None,
        "lastProbeTime": time,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def _without(kind: str) -> Document:
    return {"type": kind, "$patch": "delete"}


def _patch(pod: Pod, status: Document, *, versioned: bool = False) -> StatusPatch:
    metadata = pod.metadata
    version = str(version_of(pod)) if versioned else ""
    return StatusPatch(
        "Pod", metadata.namespace, metadata.name, metadata.uid, status, version=version
    )


def _summary(title: str, pod: Pod, generation: int, error: str = "") -> str:
    """Returns the message of an event: the requests of the pod's containers, and the problem."""
    summary: Document = {}
    for field, containers in (
        ("initContainers", pod.spec.init_containers),
        ("containers", pod.spec.containers),
    ):
        if containers:
            summary[field] = [
                {"name": c.name, "resources": _sorted(c.resources)} for c in containers
            ]
    summary["generation"] = generation
    if error:
        summary["error"] = error
    return f"{title}: {msgspec.json.encode(summary).decode()}"


def _sorted(resources: ResourceRequirements) -> Document:
    document = resource_document(resources)
    fields = [field for field in ("limits", "requests") if document.get(field)]
    return {field: dict(sorted(document[field].items())) for field in fields}
