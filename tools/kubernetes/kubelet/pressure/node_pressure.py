"""The kubelet's management of one node: its pods, when it next looks at them, and what it then
writes.

A look kills what exceeds its memory, and once each monitoring interval steps the eviction manager.
Curves tell the most that pods can use in the time ahead. So the kubelet looks again only when
something may happen, and sees the same as if it looked all the time. A node whose pods say nothing
about their usage is never looked at.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial

import msgspec

from berth.actors.scheduling.kube.core import ContainerImage, Node
from berth.actors.scheduling.kube.meta import version_of
from berth.actors.scheduling.kube.times import rfc3339

from ...objects.documents import documents_of
from ...objects.object_events import Reporter, event_about
from ...objects.properties import holds, is_finished
from ...objects.structs import Document, Pod, PodStatus
from ...objects.writes import Create
from ..hollow_nodes import condition_event
from ..kubelet_writes import KubeletWrite, StatusPatch
from ..resizing.allocation import Allocation
from ..resizing.resizes import Resizes
from ..usage_models import (
    DeadContainer,
    PodUsage,
    Scenario,
    UsageError,
    is_constant,
    is_described,
    is_foreseeable,
    usage_of,
    with_most_pids,
)
from . import oom, statuses
from .admitted_pods import Room, qos_of
from .eviction_manager import CONTAINERS, IMAGES, Eviction, Manager
from .image_garbage import PERIOD_SECONDS, Collector, used_images
from .kubelet_settings import MONITORING_SECONDS, Settings
from .local_storage import limit_exceeded
from .messages import EVICTED
from .observations import has_same_machine, machine_of, observe
from .pod_admission import PREEMPTED, PREEMPTING, infeasible, under_pressure, wrong_os
from .thresholds import CONDITIONS, IMAGEFS, Observation

CLEANUP_SECONDS = 1.0  # until the kubelet sees that an evicted pod is gone
OOM_SECONDS = 1.0
MOST_KILLS = 16  # of containers at a look; others follow at the next one
MOST_STRIDE = 256  # intervals; the longest time that the kubelet does not look
NEVER = float("inf")
NOTHING = PodUsage()
BAD_USAGE = "InvalidUsage"
PREEMPTION_CONDITION = "Pod was preempted by Kubelet to accommodate a critical pod."
Usages = Mapping[str, PodUsage]


class NodePressure:
    """The resources of a node and its pods, as its kubelet manages them.

    `due` is when to look next, as Unix time. Its pods are bound to the node; only admitted pods use
    resources. Unless it `restarts` the containers that the kernel kills, another part does. If
    resizes count `at_once`, it counts the room of pods as Kubernetes 1.37.
    """

    def __init__(
        self,
        node: Node,
        settings: Settings,
        scenario: Scenario,
        *,
        restarts: bool = True,
        at_once: bool = False,
    ) -> None:
        self._node = node
        self._settings = settings
        self._scenario = scenario
        self._machine = machine_of(node)
        self._manager = Manager(settings, self._machine.layout)
        self._reporter = Reporter("kubelet", node.metadata.name)
        self._reported = {
            kind for kind in CONDITIONS.values() if holds(node.status.conditions, kind)
        }
        self._images = node.status.images
        self._collector = Collector(settings)
        self._collect_at = 0.0
        self._is_filled = False  # the disk of images may be, until the next look
        self._failed_to_collect = False
        self._using: dict[str, Pod] = {}  # pods that say what they use, finished ones included
        # Pods whose usage never changes, by uid: the version, and what it uses.
        self._constant: dict[str, tuple[Pod, PodUsage]] = {}
        # Pods of these that keep their own limits, with the version of which this is true.
        self._within: dict[str, tuple[Pod, PodUsage]] = {}
        self._refused: set[str] = set()  # pods that this kubelet has ended or rejected
        self._collected: set[tuple[str, str, str]] = set()  # dead containers that are removed
        self._restarts = oom.Restarts()
        self._starts_again = restarts
        self._usage_problems: set[tuple[str, str]] = set()  # uids with the reported problems
        self._starved = ""
        self._phase = zlib.crc32(node.metadata.name.encode()) % int(MONITORING_SECONDS)
        self._step_at = 0.0
        self._stride = MOST_STRIDE
        self._look_at = 0.0 if self._reported else NEVER
        self._resizes = Resizes(self._admit_resize, self._usage, self._reporter)
        self._room = Room(self._resizes, at_once=at_once)

    @property
    def due(self) -> float:
        return min(self._look_at, self._resizes.due)

    @property
    def uid(self) -> str:
        return self._node.metadata.uid

    @property
    def conditions(self) -> tuple[str, ...]:
        return self._manager.conditions

    # --------------------------------------------------------------------------------- news

    def put_node(self, node: Node, now: datetime) -> list[KubeletWrite]:
        """Stores a new version of the node."""
        before, self._node = self._node, node
        machine = self._machine if has_same_machine(before, node) else machine_of(node)
        if machine != self._machine:
            self._within.clear()
            if machine.layout is not self._machine.layout:
                self._manager = Manager(self._settings, machine.layout)
            self._machine = machine
            self._wake(now)
        self._collector.detect(node.status.images, now.timestamp())
        if node.status.images != self._images:
            self._images = node.status.images
            self._wake(now)
        most = self._settings.most_pods
        if most is None or str(node.status.capacity.get("pods", "")) == str(most):
            return []
        pods = {"pods": str(most)}
        return [self._patch_node({"capacity": pods, "allocatable": pods})]

    def note_version(self, version: str) -> None:
        """Stores the version of the node after a heartbeat of its kubelet."""
        metadata = msgspec.structs.replace(self._node.metadata, resource_version=version)
        self._node = msgspec.structs.replace(self._node, metadata=metadata)

    def put(self, pod: Pod, now: datetime) -> None:
        """Stores a new version of a pod that is bound to this node."""
        uid, finished = pod.metadata.uid, is_finished(pod)
        before = self._room.pods.get(uid)
        if not finished and (
            uid in self._refused
            or (before is None and pod.status.phase in ("", "Pending"))
            or (before is not None and version_of(before) > version_of(pod))
        ):
            return  # not admitted yet, or older news
        if finished:
            self._collector.note_end(pod, now.timestamp())
            self._room.remove(uid, now.timestamp())
        else:
            self._room.put(pod, now.timestamp())
        if uid in self._using or is_described(pod, self._scenario):
            self._using[uid] = pod
            self._wake(now)

    def remove(self, pod: Pod, now: datetime) -> None:
        """Forgets a deleted pod."""
        uid = pod.metadata.uid
        if uid in self._room.pods:
            self._collector.note_end(pod, now.timestamp())
        self._room.remove(uid, now.timestamp())
        self._refused.discard(uid)
        self._constant.pop(uid, None)
        self._within.pop(uid, None)
        if self._using.pop(uid, None) is not None:
            self._collected = {key for key in self._collected if key[0] != uid}
            self._usage_problems = {
                problem for problem in self._usage_problems if problem[0] != uid
            }
            self._restarts.forget(uid)
            self._wake(now)

    def allocated(self, pod: Document) -> Document:
        """Returns a pod whose spec requests what this kubelet has allocated to it."""
        return self._resizes.allocated_document(pod)

    def _wake(self, now: datetime) -> None:
        """Makes the next look due now. The manager keeps the times of its steps."""
        seconds = now.timestamp()
        if self._step_at < seconds:
            self._step_at = self._interval_after(seconds)
        self._stride = MOST_STRIDE
        self._look_at = min(self._look_at, seconds)

    def _interval_after(self, seconds: float) -> float:
        """Returns the next time of a manager's step. The times differ from node to node."""
        return self._tick_after(seconds, MONITORING_SECONDS)

    def _tick_after(self, seconds: float, period: float) -> float:
        return ((seconds - self._phase) // period + 1) * period + self._phase

    # ---------------------------------------------------------------------------- admission

    def admit(self, pod: Pod, now: datetime) -> tuple[bool, list[KubeletWrite]]:
        """Returns whether the pod may start here, and the writes if it may not start, or preempts
        others.
        """
        uid = pod.metadata.uid
        if uid in self._room.pods:
            return True, []
        if uid in self._refused:
            return False, []
        writes: list[KubeletWrite] = []
        problem = under_pressure(pod, qos_of(pod), self._manager.conditions) or wrong_os(
            pod, self._node
        )
        if problem is None:
            problem, victims = self._room.check(pod, self._node)
            writes = self._preempt(victims, now)
        if problem is None:
            self._room.put(pod, now.timestamp())
            if is_described(pod, self._scenario):
                self._using[uid] = pod
                self._wake(now)
            return True, writes
        self._refused.add(uid)
        status = statuses.rejected_status(problem.reason, problem.message, rfc3339(now))
        event = self._event_about(pod, problem.reason, problem.message, now)
        return False, [event, _patch_pod(pod, status)]

    def _admit_resize(
        self, pod: Pod, allocation: Allocation, now: datetime
    ) -> tuple[str, str, list[KubeletWrite]]:
        """Admits a pod with the requests of its spec, as if it were new; see Resizes."""
        static = self._settings.static_managers
        problem = infeasible(pod, qos_of(pod), allocation, static) or under_pressure(
            pod, qos_of(pod), self._manager.conditions
        )
        writes: list[KubeletWrite] = []
        if problem is None:
            problem, victims = self._room.check_resized(pod, self._node)
            writes = self._preempt(victims, now)
        return ("", "", writes) if problem is None else (problem.reason, problem.message, writes)

    def _preempt(self, victims: Iterable[Pod], now: datetime) -> list[KubeletWrite]:
        writes: list[KubeletWrite] = []
        for victim in victims:
            writes += self._end(victim, PREEMPTING, PREEMPTED, PREEMPTION_CONDITION, {}, now)
        return writes

    def _usage(self, pod: Pod, now: datetime) -> PodUsage | None:
        with suppress(UsageError):
            return usage_of(pod, now, self._scenario)
        return None

    # -------------------------------------------------------------------------------- looks

    def look(self, now: datetime) -> list[KubeletWrite]:
        """Does the due work, and sets when to look next."""
        seconds = now.timestamp()
        writes = [*self._resizes.look(self._room.pods, now), *self._restart_due(now)]
        usages, problems = self._read(now)
        writes += problems
        writes += self._kill(usages, now)
        if 0 <= seconds - self._collect_at < MONITORING_SECONDS:
            writes += self._collect(usages, now)
        if seconds >= self._step_at:
            writes += self._step(usages, now)
        self._plan(now)
        return writes

    def _read(
        self, now: datetime, ahead: float = 0.0
    ) -> tuple[dict[str, PodUsage], list[KubeletWrite]]:
        """Returns the usage of pods by uid, and an event for each invalid description of usage."""
        usages: dict[str, PodUsage] = {}
        writes: list[KubeletWrite] = []
        for uid, pod in self._using.items():
            before = self._constant.get(uid)
            if before is not None and before[0] is pod:
                usages[uid] = before[1]
                continue
            try:
                usage = usage_of(pod, now, self._scenario, ahead)
            except UsageError as problem:
                if (uid, str(problem)) not in self._usage_problems:
                    self._usage_problems.add((uid, str(problem)))
                    writes.append(self._event_about(pod, BAD_USAGE, str(problem), now))
                continue
            if usage is not None:
                usages[uid] = with_most_pids(usage, self._settings.most_pids)
                if is_constant(pod, self._scenario):
                    self._constant[uid] = pod, usages[uid]
        return usages, writes

    def _observe(self, usages: Usages, without: Iterable[str] = ()) -> dict[str, Observation]:
        """Returns the available amounts, or what they would be without dead containers or unused
        images.
        """
        dead = [] if CONTAINERS in without else [left for _, left in self._dead_containers(usages)]
        images = self._used_images() if IMAGES in without else self._images
        return observe(
            self._machine, usages.values(), dead, sum(image.size_bytes for image in images)
        )

    def _dead_containers(
        self, usages: Usages
    ) -> Iterator[tuple[tuple[str, str, str], DeadContainer]]:
        for uid, usage in usages.items():
            for left in usage.dead:
                place = (uid, left.name, left.ended)
                if place not in self._collected:
                    yield place, left

    def _used_images(self) -> tuple[ContainerImage, ...]:
        return used_images(self._images, self._room.pods.values())

    def _collect(self, usages: Usages, now: datetime) -> list[KubeletWrite]:
        """Removes unused images if the disk is nearly full."""
        disk, pods = self._observe(usages).get(IMAGEFS), self._room.pods.values()
        collection = self._collector.collect(self._images, pods, disk, now.timestamp())
        writes = self._keep_images(collection.images)
        if collection.problem:
            writes.append(self._about_node("FreeDiskSpaceFailed", collection.problem, now))
            if self._failed_to_collect:
                writes.append(self._about_node("ImageGCFailed", collection.problem, now))
        self._failed_to_collect = bool(collection.problem)
        return writes

    def _keep_images(self, images: tuple[ContainerImage, ...]) -> list[KubeletWrite]:
        """Removes all images from the node but these."""
        if images == self._images:
            return []
        self._images = images
        return [self._patch_node({"images": documents_of(images)})]

    def _step(self, usages: Usages, now: datetime) -> list[KubeletWrite]:
        stats = {**dict.fromkeys(self._room.pods, NOTHING), **usages}
        step = self._manager.step(
            list(self._room.pods.values()),
            stats,
            self._observe(usages),
            partial(self._observe, usages),
            now.timestamp(),
        )
        writes: list[KubeletWrite] = []
        if step.starved and step.starved != self._starved:
            message = f"Attempting to reclaim {step.starved}"
            writes.append(self._about_node("EvictionThresholdMet", message, now))
        self._starved = step.starved
        if CONTAINERS in step.reclaimed:
            self._collected |= {place for place, _ in self._dead_containers(usages)}
        if IMAGES in step.reclaimed:
            writes += self._keep_images(self._used_images())
        writes += self._report(now)
        for eviction in step.evictions:
            writes += self._evict(eviction, now)
        seconds = now.timestamp()
        later = self._interval_after(seconds)
        self._step_at = seconds + CLEANUP_SECONDS if step.evictions else later
        return writes

    def _evict(self, eviction: Eviction, now: datetime) -> list[KubeletWrite]:
        disruption = eviction.message if eviction.under_pressure else ""
        return self._end(
            eviction.pod, EVICTED, eviction.message, disruption, eviction.annotations, now
        )

    def _end(
        self,
        pod: Pod,
        reason: str,
        message: str,
        disruption: str,
        annotations: dict[str, str],
        now: datetime,
    ) -> list[KubeletWrite]:
        """Ends a pod, and returns the event about it and its last status."""
        uid = pod.metadata.uid
        self._room.remove(uid, now.timestamp())
        self._using.pop(uid, None)  # until the watch tells what its dead containers leave
        self._refused.add(uid)
        status = statuses.failed_status(pod, reason, message, disruption, rfc3339(now))
        return [self._event_about(pod, reason, message, now, annotations), _patch_pod(pod, status)]

    def _report(self, now: datetime) -> list[KubeletWrite]:
        """Returns the write of the conditions that have changed."""
        holding = set(self._manager.conditions)
        changed = [
            kind for kind in dict.fromkeys(CONDITIONS.values()) if kind in holding ^ self._reported
        ]
        self._reported = holding
        if not changed:
            return []
        conditions = [
            statuses.node_condition(kind, holds=kind in holding, time=rfc3339(now))
            for kind in changed
        ]
        name = self._node.metadata.name
        events = [
            self._about_node(*condition_event(name, each), now, "Normal") for each in conditions
        ]
        return [self._patch_node({"conditions": conditions}), *events]

    # ------------------------------------------------------------------------------- memory

    def _kill(self, usages: dict[str, PodUsage], now: datetime) -> list[KubeletWrite]:
        """Kills containers until the memory suffices, and reads the usage of their pods again.

        A pod may have a thousand containers to kill, and each kill looks at all of them. So a look
        kills some of them, and writes the status of each pod once.
        """
        writes: list[KubeletWrite] = []
        after: dict[str, tuple[Pod, PodStatus]] = {}
        for _ in range(MOST_KILLS):
            victim = self._next_victim(usages)
            if victim is None:
                break
            pod = self._room.pods[victim.pod.metadata.uid]
            uid, name = pod.metadata.uid, victim.container
            if victim.of_node:
                message = f"System OOM encountered, victim process: {name}, pid: 1"
                writes.append(self._about_node("SystemOOM", message, now))
            status = statuses.status_after_kill(pod.status, name, rfc3339(now))
            if oom.restarts(pod, name):
                wait = self._restarts.wait(uid, name, now.timestamp())
                if wait:
                    status = statuses.status_in_back_off(status, pod, name, wait)
                    message = statuses.back_off_message(pod, name)
                    writes.append(self._event_about(pod, "BackOff", message, now))
                else:
                    status = statuses.status_after_restart(status, name, rfc3339(now))
            self._keep_status(pod, status)
            after[uid] = pod, status
            usage = usage_of(self._room.pods[uid], now, self._scenario)
            assert usage is not None
            usages[uid] = usage
        return [*writes, *(self._store(pod, status, now) for pod, status in after.values())]

    def _next_victim(self, usages: Usages) -> oom.Victim | None:
        pods, memory = self._room.pods, self._machine.memory
        used = [(pod, usages[uid]) for uid, pod in pods.items() if uid in usages]
        if sum([usage.memory for _, usage in used]) <= memory or not memory:
            # Then only pods can be beyond limits of their own.
            used = [
                (pod, usage) for pod, usage in used if not self._stays_within_limits(pod, usage)
            ]
        qos = {pod.metadata.uid: qos_of(pod) for pod, _ in used}
        return oom.next_victim(used, qos, memory)

    def _stays_within_limits(self, pod: Pod, usage: PodUsage) -> bool:
        """True if a pod is sure to stay within its own limits, because its usage never changes."""
        uid = pod.metadata.uid
        cached = self._within.get(uid)
        if cached is not None and cached[0] is pod and cached[1] is usage:
            return True
        constant = self._constant.get(uid)
        if constant is None or constant[0] is not pod or constant[1] is not usage:
            return False
        exceeds = oom.beyond_limit(pod, usage, qos_of(pod), self._machine.memory) or limit_exceeded(
            pod, usage, self._machine.layout
        )
        if not exceeds:
            self._within[uid] = constant
        return not exceeds

    def _restart_due(self, now: datetime) -> Iterator[KubeletWrite]:
        for uid, name in self._restarts.due(now.timestamp()):
            pod = self._room.pods.get(uid)
            if pod is not None and self._starts_again:
                yield self._store(
                    pod, statuses.status_after_restart(pod.status, name, rfc3339(now)), now
                )

    def _keep_status(self, pod: Pod, status: PodStatus) -> None:
        uid = pod.metadata.uid
        self._room.pods[uid] = self._using[uid] = msgspec.structs.replace(pod, status=status)

    def _store(self, pod: Pod, status: PodStatus, now: datetime) -> StatusPatch:
        """Stores a new status of a pod's containers, and returns the write of it."""
        self._keep_status(pod, status)
        return _patch_pod(pod, statuses.containers_patch(status, rfc3339(now)))

    # ----------------------------------------------------------------------------- planning

    def _plan(self, now: datetime) -> None:
        """Sets the time of the next look as late as possible, but before anything can happen."""
        seconds = now.timestamp()
        restart = self._restarts.next
        between = MONITORING_SECONDS / 2  # steps of the manager
        self._collect_at = self._tick_after(seconds - between, PERIOD_SECONDS) + between
        if self._step_at <= seconds + CLEANUP_SECONDS or not self._manager.is_resting:
            self._look_at = min(restart, self._before_step(now))
            return
        if not self._using and not self._manager.conditions:
            usages, _ = self._read(now)
            is_calm = self._manager.is_calm(self._future_amounts(usages))
            self._look_at = NEVER if is_calm else self._step_at
            if self._is_filled:
                self._look_at = min(self._look_at, self._collect_at)
            return
        stride = min(2 * self._stride, MOST_STRIDE)
        if not all(is_foreseeable(pod, self._scenario) for pod in self._using.values()):
            stride = 1
        while stride > 1 and not self._is_calm(now, self._time_after_steps(stride) - seconds):
            stride //= 2
        self._stride = stride
        at = self._time_after_steps(stride) if stride > 1 else self._before_step(now)
        if stride > 1 and self._is_filled:
            at = min(at, self._collect_at)
        end = self._manager.ends_at()
        if end is not None:
            at = min(at, max(self._interval_after(end - 1e-6), self._step_at))
        self._look_at = min(restart, at)

    def _time_after_steps(self, stride: int) -> float:
        return self._step_at + (stride - 1) * MONITORING_SECONDS

    def _before_step(self, now: datetime) -> float:
        """Returns the time of the next step, or an earlier time if memory may run out."""
        seconds = now.timestamp()
        usages, _ = self._read(now, max(self._step_at - seconds, OOM_SECONDS))
        lasts = self._next_victim(usages) is None
        return self._step_at if lasts else min(self._step_at, seconds + OOM_SECONDS)

    def _future_amounts(self, usages: Usages) -> dict[str, Observation]:
        """Returns the future available amounts, and notes if the image disk will be too full."""
        observations = self._observe(usages)
        self._is_filled = self._collector.is_due(observations.get(IMAGEFS))
        return observations

    def _is_calm(self, now: datetime, ahead: float) -> bool:
        """True if nothing can happen for this many seconds, unless a pod changes."""
        usages, _ = self._read(now, ahead)
        return (
            self._manager.is_calm(self._future_amounts(usages))
            and self._next_victim(usages) is None
            and not any(
                limit_exceeded(pod, usages[uid], self._machine.layout)
                for uid, pod in self._room.pods.items()
                if uid in usages and not self._stays_within_limits(pod, usages[uid])
            )
        )

    # ------------------------------------------------------------------------------- writes

    def _event_about(
        self,
        pod: Pod,
        reason: str,
        message: str,
        now: datetime,
        annotations: dict[str, str] | None = None,
    ) -> Create:
        event = event_about(pod, "Warning", reason, message, self._reporter, now)
        if annotations:
            event["metadata"]["annotations"] = annotations
        return Create("Event", event)

    def _about_node(
        self, reason: str, message: str, now: datetime, type_: str = "Warning"
    ) -> Create:
        return Create("Event", event_about(self._node, type_, reason, message, self._reporter, now))

    def _patch_node(self, status: Document) -> StatusPatch:
        metadata = self._node.metadata
        return StatusPatch("Node", "", metadata.name, metadata.uid, status)


def _patch_pod(pod: Pod, status: Document) -> StatusPatch:
    metadata = pod.metadata
    status["observedGeneration"] = metadata.generation
    for condition in status.get("conditions", ()):
        condition["observedGeneration"] = metadata.generation
    return StatusPatch("Pod", metadata.namespace, metadata.name, metadata.uid, status)
