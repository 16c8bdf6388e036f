"""The housekeeping of all kubelets: evictions, kills and resizes, on each node at its due time.

Only nodes with pods that say what they use are ever due. A node is left alone until the server has
answered its last writes, so that a kubelet sees its own writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush

import anyio
import msgspec
from anyio.abc import TaskGroup

from berth.actors.runtime.clock import Clock
from berth.config.feature_gates import changes_of
from berth.config.versions import CURRENT, Version

from ...kubernetes.kubelet.kubelet_writes import KubeletWrite, StatusPatch
from ...kubernetes.kubelet.pressure.kubelet_settings import Configuration, settings_for
from ...kubernetes.kubelet.pressure.node_pressure import NEVER, NodePressure
from ...kubernetes.kubelet.usage_models import NO_SCENARIO, Scenario
from ...kubernetes.objects.structs import Document, Node, Pod, read

PATCH = "application/strategic-merge-patch+json"
# Sends a request until it is answered; returns the answer, or None if it was refused.
Send = Callable[[str, str, Document, str], Awaitable[Document | None]]


class Setup(msgspec.Struct, frozen=True):
    """The settings of kubelets: the configurations of nodes and the usage of pods, which users
    give, and the version of Kubernetes.
    """

    configurations: Sequence[Configuration] = ()
    scenario: Scenario = NO_SCENARIO
    version: Version = CURRENT


NO_SETUP = Setup()


class Housekeeping:
    def __init__(self, send: Send, clock: Clock, group: TaskGroup, setup: Setup) -> None:
        self._send = send
        self._clock = clock
        self._group = group
        self._setup = setup
        self._nodes: dict[str, NodePressure] = {}
        self._pods: dict[str, dict[str, Pod]] = {}  # by node and uid, also of unknown nodes
        self._busy: dict[str, int] = {}  # nodes with writes on their way
        self._due: list[tuple[float, str]] = []  # a heap of times and nodes; old times stay in it
        self._planned: dict[str, float] = {}
        self._changed = anyio.Event()

    def put_node(self, node: Node) -> None:
        name, now = node.metadata.name, self._clock.wall()
        kubelet = self._nodes.get(name)
        if kubelet is None or kubelet.uid != node.metadata.uid:
            settings = settings_for(node.metadata.labels, self._setup.configurations)
            # The stages of pods start killed containers again.
            kubelet = NodePressure(
                node,
                settings,
                self._setup.scenario,
                restarts=False,
                at_once=changes_of(self._setup.version)["ResizeFootprint"],
            )
            self._nodes[name] = kubelet
            for pod in self._pods.get(name, {}).values():
                kubelet.put(pod, now)
        self._write(name, kubelet.put_node(node, now))

    def note_heartbeat(self, node: Document) -> None:
        """Stores a version of a node in which only times have changed."""
        metadata = node["metadata"]
        kubelet = self._nodes.get(metadata["name"])
        if kubelet is not None:
            kubelet.note_version(metadata["resourceVersion"])

    def remove_node(self, name: str) -> None:
        self._nodes.pop(name, None)

    def put(self, pod: Pod) -> None:
        """Stores a version of a bound pod."""
        name = pod.spec.node_name
        self._pods.setdefault(name, {})[pod.metadata.uid] = pod
        kubelet = self._nodes.get(name)
        if kubelet is not None:
            kubelet.put(pod, self._clock.wall())
            self._plan(name)

    def remove(self, pod: Pod) -> None:
        """Forgets a deleted pod."""
        name = pod.spec.node_name
        self._pods.get(name, {}).pop(pod.metadata.uid, None)
        kubelet = self._nodes.get(name)
        if kubelet is not None:
            kubelet.remove(pod, self._clock.wall())
            self._plan(name)

    def replace(self, pods: Sequence[Pod]) -> None:
        """Replaces all bound pods by those of a list. Running pods come first, because they were
        admitted.
        """
        listed = {pod.metadata.uid for pod in pods}
        for of_node in list(self._pods.values()):
            for pod in [pod for uid, pod in of_node.items() if uid not in listed]:
                self.remove(pod)
        for pod in sorted(pods, key=lambda pod: pod.status.phase in ("", "Pending")):
            self.put(pod)

    def admits(self, pod: Pod) -> bool:
        """True if the pod may start on its node; a rejected pod gets its last status."""
        name = pod.spec.node_name
        kubelet = self._nodes.get(name)
        if kubelet is None:
            return True
        admitted, writes = kubelet.admit(pod, self._clock.wall())
        self._write(name, writes)
        return admitted

    def allocated(self, pod: Document) -> Document:
        """Returns a pod whose spec requests what its kubelet has allocated to it."""
        kubelet = self._nodes.get(pod["spec"]["nodeName"])
        return pod if kubelet is None else kubelet.allocated(pod)

    async def run(self) -> None:
        """Does the due work of each node, until cancelled."""
        while True:
            now = self._clock.wall()
            while self._due and self._due[0][0] <= now.timestamp():
                at, name = heappop(self._due)
                if self._planned.get(name) != at:
                    continue
                del self._planned[name]
                if name in self._nodes and name not in self._busy:
                    self._write(name, self._nodes[name].look(now))
            self._changed = anyio.Event()
            async with anyio.create_task_group() as waiting:
                if self._due:
                    waiting.start_soon(self._wake, self._due[0][0])
                await self._changed.wait()
                waiting.cancel_scope.cancel()

    async def _wake(self, at: float) -> None:
        await self._clock.sleep(at - self._clock.wall().timestamp())
        self._changed.set()

    def _plan(self, name: str) -> None:
        """Enters the next due time of a node."""
        kubelet = self._nodes.get(name)
        if kubelet is None or name in self._busy or self._planned.get(name) == kubelet.due:
            return
        self._planned[name] = kubelet.due
        if kubelet.due != NEVER:
            if not self._due or kubelet.due < self._due[0][0]:
                self._changed.set()
            heappush(self._due, (kubelet.due, name))

    def _write(self, name: str, writes: Sequence[KubeletWrite]) -> None:
        """Sends the writes of a node side by side. Without writes, enters the next due time at
        once.
        """
        if not writes:
            self._plan(name)
            return
        self._busy[name] = self._busy.get(name, 0) + len(writes)
        for write in writes:
            self._group.start_soon(self._carry_out, name, write)

    async def _carry_out(self, name: str, write: KubeletWrite) -> None:
        answer = await self._send(*_request(write))
        if answer is not None and isinstance(write, StatusPatch):
            self._stored_answer(write.kind, answer)
        self._busy[name] -= 1
        if not self._busy[name]:
            del self._busy[name]
            self._plan(name)

    def _stored_answer(self, kind: str, answer: Document) -> None:
        """Stores an object from the server's answer to a write."""
        with suppress(msgspec.ValidationError):
            if kind == "Pod":
                self.put(read(answer, Pod))
            else:
                self.put_node(read(answer, Node))


def _request(write: KubeletWrite) -> tuple[str, str, Document, str]:
    if not isinstance(write, StatusPatch):
        namespace = write.document["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/events"
        return "POST", path, write.document, "application/json"
    within = f"namespaces/{write.namespace}/pods" if write.kind == "Pod" else "nodes"
    version = {"resourceVersion": write.version} if write.version else {}
    body = {"metadata": {"uid": write.uid, **version}, "status": write.status}
    return "PATCH", f"/api/v1/{within}/{write.name}/status", body, PATCH
