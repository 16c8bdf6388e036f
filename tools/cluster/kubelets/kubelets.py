"""The kubelets of all nodes: they play the stages of pods and nodes.

A pod waits until its volumes are bound and attached, and its devices allocated. Containers are
hollow. What happens to a pod, and when, is in the files of stages; see `stages`. Housekeeping
admits pods, and evicts them under pressure. State is derived from the objects alone, so kubelets
that are started again go on where they stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import anyio
from anyio.abc import TaskGroup, TaskStatus

from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
)
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube import core
from berth.actors.scheduling.kube.devices import ResourceClaim
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.times import rfc3339

from ...kubernetes.api.types.resources import KINDS
from ...kubernetes.devices import preparation
from ...kubernetes.kubelet.addresses import Addresses
from ...kubernetes.kubelet.annotations import BAD_ANNOTATION, AnnotationProblems
from ...kubernetes.kubelet.containers import is_marked, progress
from ...kubernetes.kubelet.hollow_nodes import NodeSteps, is_stopped
from ...kubernetes.kubelet.images import Images
from ...kubernetes.kubelet.pod_steps import PodSteps
from ...kubernetes.kubelet.pressure.kubelet_settings import settings_for
from ...kubernetes.kubelet.readiness import Readiness
from ...kubernetes.kubelet.stages.actions import RecordEvent
from ...kubernetes.kubelet.stages.lives import uid_of
from ...kubernetes.objects.structs import Document, Node, Pod, read
from ...kubernetes.storage import volume_mounts
from ..controllers.cluster_access import Changes, ClusterAccess, Heartbeat
from .housekeeping import NO_SETUP, Housekeeping, Setup
from .leases import SECONDS, Leases
from .stage_files import Stages, read_stages
from .stage_player import Player, event_about, path_of
from .static_pods import StaticPodPlace, StaticPods
from .write_retries import PATCHES, Writer

FAILED = "FailedPrepareDynamicResources"
REPORT_SECONDS = 1.0


async def run_kubelets(
    access: ClusterAccess,
    clock: Clock,
    rng: Random,
    stages: Stages | None = None,
    setup: Setup = NO_SETUP,
    lease_seconds: int = SECONDS,
    *,
    task_status: TaskStatus[Callable[[str], bool]] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Acts as the kubelet of every node until cancelled; by default with the shipped stages. Starts
    with a function that tells of a pod, by its uid, whether a kubelet acts on it at a known time.
    """
    async with anyio.create_task_group() as group:
        leases = Leases(access, clock, rng, group, lease_seconds)
        group.start_soon(leases.run)
        kubelets = _Kubelets(access, clock, rng, stages or read_stages(), setup, leases, group)
        group.start_soon(kubelets.follow_nodes, access.follow("/api/v1/nodes", dict))
        bound = access.follow("/api/v1/pods", dict, "fieldSelector=spec.nodeName!=")
        types = {type_.__name__: type_ for type_ in volume_mounts.FOLLOWED}
        for kind in KINDS:
            if kind.kind in types:
                type_ = types[kind.kind]
                read = partial(kubelets.follow_storage, type_)
                if not access.follow_later(group, kind.path(), type_, read):
                    group.start_soon(read, access.follow(kind.path(), type_))
            elif kind.kind == preparation.FOLLOWED:
                read_claims = partial(kubelets.follow_claims, kind.version)
                if not access.follow_later(group, kind.path(), ResourceClaim, read_claims):
                    group.start_soon(read_claims, access.follow(kind.path(), ResourceClaim))
        group.start_soon(kubelets.follow_pods, bound)
        group.start_soon(kubelets.housekeeping.run)
        group.start_soon(kubelets.static_pods.run)
        task_status.started(kubelets.is_due)


class _Kubelets:
    """The kubelets: the addresses of their nodes, and the pods of each."""

    def __init__(
        self,
        access: ClusterAccess,
        clock: Clock,
        rng: Random,
        stages: Stages,
        setup: Setup,
        leases: Leases,
        group: TaskGroup,
    ) -> None:
        self._clock = clock
        self._group = group
        self._writer = Writer(access, clock)
        self._leases = leases
        self._addresses: dict[str, str] = {}
        self._free = Addresses("172.16.0.1")
        self._running: set[str] = set()  # the nodes whose kubelets run
        self._unknown: set[str] = set()  # the nodes that count as silent
        self._listed = anyio.Event()  # the nodes have been listed
        self._pods_on: dict[str, dict[str, None]] = defaultdict(dict)  # uids, by node
        self._readiness = Readiness()
        self._reported: dict[str, str] = {}  # why a pod waits for devices, by uid
        self._reporting: set[str] = set()
        self._problems = AnnotationProblems()
        self._latest: tuple[Document | None, Pod] = None, Pod()
        began = rfc3339(clock.wall())
        self._images = Images()
        self._reporting_images: set[str] = set()
        self.housekeeping = Housekeeping(self._writer.send, clock, group, setup)
        self.static_pods = StaticPods(self._writer.send, clock)
        self._configurations = setup.configurations
        self._pod_steps = PodSteps(
            self._readiness,
            self._images,
            self._address,
            self._admits,
            self.housekeeping.allocated,
            self._note_images,
            began,
        )
        node_steps = NodeSteps(self._address, began, setup.version.release)
        self._pods = Player(stages.pods, self._pod_steps, self._writer, clock, rng, group)
        self._nodes = Player(stages.nodes, node_steps, self._writer, clock, rng, group)

    def is_due(self, uid: str) -> bool:
        """True if a kubelet acts on a pod at a known time."""
        return self._pods.is_due(uid)

    async def follow_nodes(self, nodes: Changes[Document]) -> None:
        async for change in nodes.changes():
            match change:
                case ObjectsListed(items):
                    for name in sorted(self._addresses.keys() - {_name(item) for item in items}):
                        self._forget_node(name)
                    for item in items:
                        self._free.note(_internal(item))
                    for item in items:
                        self._admit(item)
                    self._nodes.replace([item for item in items if not is_stopped(item)])
                    self._listed.set()
                case Heartbeat(node) if _name(node) in self._running:
                    self.housekeeping.note_heartbeat(node)
                    self._nodes.put(node)
                case ObjectChanged(node):
                    self._admit(node)
                    if not is_stopped(node):
                        self._nodes.put(node)
                case ObjectDeleted(node):
                    self._forget_node(_name(node))
                    self._nodes.remove(uid_of(node))
                    self._problems.forget(uid_of(node))

    def _forget_node(self, name: str) -> None:
        self._stop(name)
        self._addresses.pop(name, None)
        self._unknown.discard(name)
        self._images.forget(name)
        self._group.start_soon(self._leases.remove, name)

    def _admit(self, node: Document) -> None:
        """Starts or stops the kubelet of a node, and notes the address of the node."""
        name = _name(node)
        own = _internal(node) or self._addresses.get(name)
        self._addresses[name] = own or self._free.take()
        self._images.put(node)
        self._report_annotations(node)
        if is_stopped(node):
            self._stop(name)
            self._nodes.remove(uid_of(node))
            return
        self.housekeeping.put_node(read(node, Node))
        returns = name in self._unknown
        if _is_unknown(node):
            self._unknown.add(name)
            returns = False
        else:
            self._unknown.discard(name)
        if name not in self._running:
            self._running.add(name)
            self._leases.begin(name, uid_of(node))
            self._begin_static_pods(node)
            returns = True
        if returns and self._pods_on.get(name):
            self._group.start_soon(self._resume, name)

    def _begin_static_pods(self, node: Document) -> None:
        labels = node["metadata"].get("labels") or {}
        settings = settings_for(labels, self._configurations)
        if settings.static_pods is not None:
            place = StaticPodPlace(
                _name(node), uid_of(node), Path(settings.static_pods), settings.file_check
            )
            self.static_pods.put_node(place)

    def _stop(self, name: str) -> None:
        self._running.discard(name)
        self.static_pods.remove_node(name)
        self._leases.end(name)
        self.housekeeping.remove_node(name)
        for uid in self._pods_on.get(name, ()):
            self._pods.remove(uid)

    def _admits(self, pod: Document) -> bool:
        return self.housekeeping.admits(self._read(pod))

    def _read(self, pod: Document) -> Pod:
        """Returns the object of a pod; the latest is read once, though it is asked for twice."""
        if self._latest[0] is not pod:
            self._latest = pod, read(pod, Pod)
        return self._latest[1]

    def _note_images(self, name: str) -> None:
        """Reports the images of a node after a moment."""
        if name not in self._reporting_images:
            self._reporting_images.add(name)
            self._group.start_soon(self._report_images, name)

    async def _report_images(self, name: str) -> None:
        await self._clock.sleep(REPORT_SECONDS)
        self._reporting_images.discard(name)
        body = {"status": {"images": self._images.status(name)}}
        await self._writer.send("PATCH", f"/api/v1/nodes/{name}/status", body, PATCHES["merge"])

    async def _resume(self, name: str) -> None:
        """Starts the pods of a node whose kubelet starts after them, or was taken for silent."""
        path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}"
        answer = await self._writer.read(path)
        for pod in answer["items"] if answer else ():
            for each in self._running_pods([pod]):
                self._pods.put(each)
                self._report_missing_devices(uid_of(each))
                self._report_ready(each)

    def _report_ready(self, pod: Document) -> None:
        """Reports a pod as ready again, if it is marked unready though its kubelet is not
        silent.
        """
        name = pod["spec"]["nodeName"]
        if not is_marked(pod) or name not in self._running or name in self._unknown:
            return
        pod = self.housekeeping.allocated(pod)
        conditions = progress(pod, self._clock.wall().timestamp()).status["conditions"]
        if conditions:
            path, body = f"{path_of(pod)}/status", {"status": {"conditions": conditions}}
            self._group.start_soon(self._writer.send, "PATCH", path, body, PATCHES["strategic"])

    def _address(self, name: str) -> str:
        return self._addresses.get(name, "")

    async def follow_storage(self, kind: type[HasMetadata], stored: Changes[HasMetadata]) -> None:
        """Starts the pods whose volumes have become ready."""
        async for change in stored.changes():
            match change:
                case ObjectsListed(items):
                    self._wake(self._readiness.mounts.replace(kind, items))
                case ObjectChanged(obj):
                    self._wake(self._readiness.mounts.put(obj))
                case ObjectDeleted(obj):
                    self._wake(self._readiness.mounts.remove(obj))

    async def follow_claims(self, version: str, claims: Changes[ResourceClaim]) -> None:
        """Starts the pods whose devices have become ready."""
        async for change in claims.changes():
            match change:
                case ObjectsListed(items):
                    self._wake(self._readiness.preparation.replace(items, version))
                case ObjectChanged(claim):
                    self._wake(self._readiness.preparation.put(claim, version))
                case ObjectDeleted(claim):
                    self._readiness.preparation.remove(claim, version)

    def _wake(self, pods: Iterable[core.Pod]) -> None:
        for pod in pods:
            self._pods.wake(pod.metadata.uid)
            self._report_missing_devices(pod.metadata.uid)

    async def follow_pods(self, bound: Changes[Document]) -> None:
        await self._listed.wait()
        async for change in bound.changes():
            match change:
                case ObjectsListed(items):
                    self._pods_on.clear()
                    self.housekeeping.replace([read(pod, Pod) for pod in items])
                    self.static_pods.replace(items)
                    for pod in items:
                        self._pod_steps.addresses.note((pod.get("status") or {}).get("podIP"))
                    self._pods.replace(list(self._running_pods(items)))
                    for pod in items:
                        self._report_missing_devices(uid_of(pod))
                        self._report_ready(pod)
                case ObjectChanged(pod):
                    self.housekeeping.put(self._read(pod))
                    self.static_pods.put(pod)
                    for each in self._running_pods([pod]):
                        self._pods.put(each)
                        self._report_missing_devices(uid_of(each))
                        self._report_ready(each)
                case ObjectDeleted(pod):
                    self.housekeeping.remove(read(pod, Pod))
                    self.static_pods.remove(pod)
                    self._forget(pod)

    def _running_pods(self, pods: Iterable[Document]) -> Iterator[Document]:
        """Yields the pods of kubelets that run. The other pods start when theirs do."""
        for pod in pods:
            name = pod["spec"]["nodeName"]
            self._pods_on[name][uid_of(pod)] = None
            if name in self._running:
                if "deletionTimestamp" in pod["metadata"]:
                    self._readiness.forget(pod)
                self._report_annotations(pod)
                yield pod

    def _forget(self, pod: Document) -> None:
        uid, name = uid_of(pod), pod["spec"]["nodeName"]
        self._pods.remove(uid)
        self._pod_steps.forget(pod)
        self._reported.pop(uid, None)
        self._problems.forget(uid)
        pods = self._pods_on.get(name)
        if pods is not None:
            pods.pop(uid, None)
            if not pods:
                del self._pods_on[name]

    def _report_annotations(self, document: Document) -> None:
        """Writes an event for each annotation of a pod or node that cannot be read."""
        for message in self._problems.new(document):
            event = RecordEvent("Warning", BAD_ANNOTATION, message)
            self._group.start_soon(self._write_event, document, event)

    def _report_missing_devices(self, uid: str) -> None:
        """Reports why a pod waits for devices, if it does."""
        pod = self._pods.get(uid)
        if pod is None or uid in self._reporting or not pod["spec"].get("resourceClaims"):
            return
        self._reporting.add(uid)
        self._group.start_soon(self._report, uid)

    async def _report(self, uid: str) -> None:
        """Writes an event why a pod still waits for devices, unless the last event said the same.

        Waits for a moment first, because the watch of claims may be later than that of pods.
        """
        await self._clock.sleep(REPORT_SECONDS)
        self._reporting.discard(uid)
        pod = self._pods.get(uid)
        if pod is None or pod["status"].get("phase") != "Pending":
            return
        unmounted, unprepared = self._readiness.lacks(pod)
        if unmounted or unprepared in ("", self._reported.get(uid)):
            return
        self._reported[uid] = unprepared
        message = f"Failed to prepare dynamic resources: {unprepared}"
        await self._write_event(pod, RecordEvent("Warning", FAILED, message))

    async def _write_event(self, about: Document, event: RecordEvent) -> None:
        document = event_about(about, event, self._clock.wall())
        path = f"/api/v1/namespaces/{document['metadata']['namespace']}/events"
        await self._writer.send("POST", path, document)


def _is_unknown(node: Document) -> bool:
    """True if the node lifecycle controller has found the kubelet of a node silent."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "Unknown" for each in conditions)


def _internal(node: Document) -> str | None:
    """Returns the internal address of a node, if its status has one."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((each["address"] for each in addresses if each["type"] == "InternalIP"), None)


def _name(document: Document) -> str:
    name: str = document["metadata"]["name"]
    return name
