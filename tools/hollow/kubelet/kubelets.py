"""The kubelets of all nodes: they complete the status of nodes, and report pods as running.

A pod waits until its volumes are bound and attached, and its devices allocated. Containers are
hollow: they start and stop at once. They run for ever, except in pods of Jobs and in pods with an
annotation that gives the seconds to run.
"""

from __future__ import annotations

from collections import defaultdict
from ipaddress import IPv4Address
from itertools import count
from random import Random

import anyio
from anyio.abc import TaskGroup, TaskStatus

from berth.actors.client.rest import (
    ApiError,
    Client,
    ConnectionFailedError,
)
from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    Reflector,
)
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.logger import get_logger
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import ResourceClaim
from berth.actors.scheduling.kube.meta import HasMetadata, key

from ...apiserver.resources import KINDS
from .. import mounts
from ..devices import preparation
from ..events import Reporter, about
from ..objects import Document, Node, condition_of
from .nodes import node_status
from .statuses import creating_status, running_status, succeeded_status

log = get_logger(__name__)
RUN_SECONDS = "berth.dev/run-seconds"
FAILED = "FailedPrepareDynamicResources"
REPORT_SECONDS = 1.0
JOB_SECONDS = 1.0
PODS_AT_ONCE = 64
RETRY_SECONDS = 0.5
_NODE_ADDRESSES = IPv4Address("172.16.0.1")
_POD_ADDRESSES = IPv4Address("10.244.0.1")


def run_seconds(pod: Pod) -> float | None:
    """Returns how long the containers run; None for ever, as in pods that are restarted."""
    if pod.spec.restart_policy not in ("Never", "OnFailure"):
        return None
    text = pod.metadata.annotations.get(RUN_SECONDS)
    if text is not None:
        try:
            return max(float(text), 0.0)
        except ValueError:
            log.warning(
                "annotation is not a number", pod=key(pod), annotation=RUN_SECONDS, value=text
            )
    of_job = any(
        owner.controller and owner.kind == "Job" for owner in pod.metadata.owner_references
    )
    return JOB_SECONDS if of_job else None


async def run_kubelets(
    client: Client,
    clock: Clock,
    rng: Random,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Acts as the kubelet of every node until cancelled."""
    async with anyio.create_task_group() as group:
        kubelets = _Kubelets(client, clock, group)
        group.start_soon(
            kubelets.follow_nodes, Reflector(client, "/api/v1/nodes", Node, clock, rng)
        )
        bound = Reflector(client, "/api/v1/pods", Pod, clock, rng, "fieldSelector=spec.nodeName!=")
        types = {type_.__name__: type_ for type_ in mounts.FOLLOWED}
        for kind in KINDS:
            if kind.kind in types:
                type_ = types[kind.kind]
                stored = Reflector(client, kind.path(), type_, clock, rng)
                group.start_soon(kubelets.follow_storage, type_, stored)
            elif kind.kind == preparation.FOLLOWED:
                claims = Reflector(client, kind.path(), ResourceClaim, clock, rng)
                group.start_soon(kubelets.follow_claims, kind.version, claims)
        group.start_soon(kubelets.follow_pods, bound)
        task_status.started()


class _Kubelets:
    """The kubelets: the addresses of nodes, and the pods that wait, end or are being removed."""

    def __init__(self, client: Client, clock: Clock, group: TaskGroup) -> None:
        self._client = client
        self._clock = clock
        self._group = group
        self._limiter = anyio.CapacityLimiter(PODS_AT_ONCE)
        self._addresses: dict[str, str] = {}
        self._waiting: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._pending: dict[str, Pod] = {}  # the latest version of each pod that has not started
        self._mounts = mounts.Mounts()
        self._preparation = preparation.Preparation()
        self._reported: dict[str, str] = {}  # why a pod waits for devices, by uid
        self._reporting: set[str] = set()
        self._ending: set[str] = set()
        self._removing: set[str] = set()
        self._node_numbers, self._pod_numbers = count(), count()

    async def follow_nodes(self, nodes: Reflector[Node]) -> None:
        async for change in nodes.changes():
            match change:
                case ObjectsListed(items):
                    for name in self._addresses.keys() - {item.metadata.name for item in items}:
                        del self._addresses[name]
                    for item in items:
                        self._node(item)
                case ObjectChanged(node):
                    self._node(node)
                case ObjectDeleted(node):
                    self._addresses.pop(node.metadata.name, None)

    def _node(self, node: Node) -> None:
        name, internal = node.metadata.name, condition_of(node.status.addresses, "InternalIP")
        address = (
            (internal and internal.address)
            or self._addresses.get(name)
            or str(_NODE_ADDRESSES + next(self._node_numbers))
        )
        self._addresses[name] = address
        missing = node_status(node, address, self._time())
        if missing:
            body = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "status": missing,
            }
            self._group.start_soon(self._patch, f"/api/v1/nodes/{name}/status", body)
        for pod in self._waiting.pop(name, {}).values():
            self._group.start_soon(self._start, pod)

    async def follow_storage(self, kind: type[HasMetadata], stored: Reflector[HasMetadata]) -> None:
        """Starts the pods whose volumes have become ready."""
        async for change in stored.changes():
            match change:
                case ObjectsListed(items):
                    pods = self._mounts.replace(kind, items)
                case ObjectChanged(obj):
                    pods = self._mounts.put(obj)
                case ObjectDeleted(obj):
                    pods = self._mounts.remove(obj)
            for pod in pods:
                self._group.start_soon(self._start, pod)

    async def follow_claims(self, version: str, claims: Reflector[ResourceClaim]) -> None:
        """Starts the pods whose devices have become ready."""
        async for change in claims.changes():
            pods: list[Pod] = []
            match change:
                case ObjectsListed(items):
                    pods = self._preparation.replace(items, version)
                case ObjectChanged(claim):
                    pods = self._preparation.put(claim, version)
                case ObjectDeleted(claim):
                    self._preparation.remove(claim, version)
            for pod in pods:
                self._group.start_soon(self._start, pod)

    async def follow_pods(self, bound: Reflector[Pod]) -> None:
        async for change in bound.changes():
            match change:
                case ObjectsListed(items):
                    self._pending.clear()
                    for pod in items:
                        self._pod(pod)
                case ObjectChanged(pod):
                    self._pod(pod)
                case ObjectDeleted(pod):
                    self._pending.pop(pod.metadata.uid, None)
                    self._ending.discard(pod.metadata.uid)
                    self._removing.discard(pod.metadata.uid)
                    self._forget(pod)
                    if pod.spec.node_name in self._waiting:
                        self._waiting[pod.spec.node_name].pop(pod.metadata.uid, None)

    def _pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._pending.pop(uid, None)
        if pod.metadata.deletion_timestamp is not None:
            self._forget(pod)
            if uid not in self._removing:
                self._removing.add(uid)
                self._group.start_soon(self._remove, pod)
        elif pod.status.phase in ("Pending", ""):
            self._pending[uid] = pod
            if pod.spec.node_name in self._addresses:
                self._group.start_soon(self._start, pod)
            else:
                self._waiting[pod.spec.node_name][uid] = pod
        elif pod.status.phase == "Running" and uid not in self._ending:
            seconds = run_seconds(pod)
            if seconds is not None:
                self._ending.add(uid)
                self._group.start_soon(self._end, pod, seconds)

    async def _start(self, pod_before: Pod) -> None:
        """Starts the latest version of a pod, or reports that it waits for volumes or devices.

        The resourceVersion guards the write: if the pod has changed, the watch reports it again.
        """
        pod = self._pending.get(pod_before.metadata.uid)
        if pod is None:
            return
        host = self._addresses.get(pod.spec.node_name, "")
        unmounted, unprepared = self._mounts.wait(pod), self._preparation.wait(pod)
        if unmounted or unprepared:
            uid = pod.metadata.uid
            if unprepared and not unmounted and uid not in self._reporting:
                self._reporting.add(uid)
                self._group.start_soon(self._report, uid)
            if not pod.status.container_statuses:
                waits = creating_status(pod, host, self._time())
                body = {"metadata": _version(pod), "status": waits}
                await self._patch(_path(pod, "/status"), body)
            return
        address = (
            host
            if pod.spec.host_network
            else str(_POD_ADDRESSES + next(self._pod_numbers) % 65_000)
        )
        status = running_status(pod, host, address, self._time())
        await self._patch(_path(pod, "/status"), {"metadata": _version(pod), "status": status})

    async def _report(self, uid: str) -> None:
        """Writes an event why a pod still waits for devices, unless the last event said the same.

        Waits for a moment first, because the watch of claims may be later than that of pods.
        """
        await self._clock.sleep(REPORT_SECONDS)
        self._reporting.discard(uid)
        pod = self._pending.get(uid)
        why = "" if pod is None else self._preparation.wait(pod)
        if pod is None or why in ("", self._reported.get(uid)):
            return
        self._reported[uid] = why
        message = f"Failed to prepare dynamic resources: {why}"
        reporter = Reporter("kubelet", pod.spec.node_name)
        event = about(pod, "Warning", FAILED, message, reporter, self._clock.wall())
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/events"
        await self._send_until_answered("POST", path, event, "application/json")

    def _forget(self, pod: Pod) -> None:
        self._mounts.forget(pod)
        self._preparation.forget(pod)
        self._reported.pop(pod.metadata.uid, None)

    async def _end(self, pod: Pod, seconds: float) -> None:
        await self._clock.sleep(seconds)
        if pod.metadata.uid not in self._ending or pod.metadata.uid in self._removing:
            return
        await self._patch(_path(pod, "/status"), {"status": succeeded_status(pod, self._time())})

    async def _remove(self, pod: Pod) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
        await self._send_until_answered("DELETE", _path(pod), options, "application/json")

    async def _patch(self, path: str, body: Document) -> None:
        await self._send_until_answered(
            "PATCH", path, body, "application/strategic-merge-patch+json"
        )

    async def _send_until_answered(
        self, method: str, path: str, body: Document, content_type: str
    ) -> None:
        """Repeats a write until the server answers.

        After a refusal, the next change from the watch decides what to do.
        """
        while True:
            async with self._limiter:
                try:
                    await self._client.call(method, path, dict, body, content_type)
                except ConnectionFailedError as failure:
                    log.debug("API server not reached", path=path, error=str(failure))
                except ApiError as refused:
                    report = log.debug if refused.code in (404, 409) else log.warning
                    report("write refused", path=path, error=str(refused))
                    return
                else:
                    return
            await self._clock.sleep(RETRY_SECONDS)

    def _time(self) -> str:
        return self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")


def _path(pod: Pod, subresource: str = "") -> str:
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}{subresource}"


def _version(pod: Pod) -> Document:
    return {"resourceVersion": pod.metadata.resource_version}
