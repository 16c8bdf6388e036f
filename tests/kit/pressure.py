"""Kubelets under node pressure in virtual time, without an API server.

What a kubelet writes is there at once. A pod that fails is replaced on the next node without
pressure, if the test asks for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count
from typing import Any

from berth.actors.scheduling.kube.times import rfc3339
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.kubernetes.kubelet.kubelet_writes import KubeletWrite, StatusPatch
from berth.tools.kubernetes.kubelet.pressure.kubelet_settings import DEFAULTS, Settings
from berth.tools.kubernetes.kubelet.pressure.node_pressure import NEVER, NodePressure
from berth.tools.kubernetes.kubelet.usage_models import NO_SCENARIO, Scenario
from berth.tools.kubernetes.objects.structs import Node, Pod, read
from berth.tools.kubernetes.objects.writes import Create
from tests.kit.documents import Document

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class Kubelets:
    """Some nodes, their pods, and the history of what their kubelets wrote: seconds and text."""

    def __init__(
        self,
        nodes: int,
        settings: Settings = DEFAULTS,
        scenario: Scenario = NO_SCENARIO,
        *,
        replaces: bool = False,
        **node_fields: Any,
    ) -> None:
        self.seconds = 0.0
        self.history: list[tuple[float, str]] = []
        self.pods: dict[str, Document] = {}
        self.conditions: dict[str, dict[str, str]] = defaultdict(dict)
        self.annotations: dict[str, dict[str, str]] = {}  # of the latest event, by object
        self.looks = 0
        self._replaces = replaces
        self._numbers = count(1)
        self._due: list[tuple[float, str]] = []
        self.nodes: dict[str, NodePressure] = {}
        self.documents: dict[str, Document] = {}
        for number in range(1, nodes + 1):
            document = hollow_node(number)
            name = document["metadata"]["name"]
            document["metadata"] |= {"uid": name, **node_fields.get("metadata", {})}
            document["status"] |= node_fields.get("status", {})
            self.documents[name] = document
            self.nodes[name] = NodePressure(read(document, Node), settings, scenario)

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(START + self.seconds, UTC)

    def said(self) -> list[str]:
        return [text for _, text in self.history]

    def start(self, node: str, usage: str = "", name: str = "", **fields: Any) -> str:
        """Binds a pod to a node. Returns its name; if it is admitted, it runs at once."""
        name = name or f"pod-{next(self._numbers)}"
        annotations = {"berth.dev/usage": usage} if usage else {}
        spec = {"containers": [{"name": "app"}], "restartPolicy": "Always", **fields}
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "annotations": annotations,
                "resourceVersion": "1",
            },
            "spec": {**spec, "nodeName": node},
            "status": {"phase": "Pending", "qosClass": fields.get("qos", "BestEffort")},
        }
        kubelet = self.nodes[node]
        admitted, writes = kubelet.admit(self._pod(name), self.now)
        self._apply(node, writes)
        if admitted:
            running = {"running": {"startedAt": rfc3339(self.now)}}
            statuses = [
                {"name": c["name"], "state": running, "ready": True} for c in spec["containers"]
            ]
            status = {"phase": "Running", "startTime": rfc3339(self.now)}
            self._update(name, {**status, "containerStatuses": statuses})
        return name

    def delete(self, name: str) -> None:
        pod = self._pod(name)
        del self.pods[name]
        self.nodes[pod.spec.node_name].remove(pod, self.now)
        self._plan(pod.spec.node_name)

    def run(self, seconds: float) -> None:
        """Lets so much time pass; kubelets look when they are due."""
        end = self.seconds + seconds
        while self._due and self._due[0][0] <= START + end:
            at, node = heappop(self._due)
            if at == self.nodes[node].due:
                self.seconds = at - START
                self._look(node)
        self.seconds = end

    def watch(self, seconds: int) -> None:
        """Lets so much time pass; all kubelets look every second."""
        for _ in range(seconds):
            self.seconds += 1
            for node in self.nodes:
                self._look(node)

    def _look(self, node: str) -> None:
        self.looks += 1
        self._apply(node, self.nodes[node].look(self.now))
        self._plan(node)

    def _plan(self, node: str) -> None:
        due = self.nodes[node].due
        if due != NEVER:
            heappush(self._due, (due, node))

    def _apply(self, node: str, writes: Iterable[KubeletWrite]) -> None:
        for write in writes:
            if isinstance(write, Create):
                event = write.document
                about = event["involvedObject"]["name"]
                self.annotations[about] = event["metadata"].get("annotations", {})
                self._note(f"{about}: {event['reason']}: {event['message']}")
            else:
                self._patch(node, write)

    def _patch(self, node: str, write: StatusPatch) -> None:
        for condition in write.status.get("conditions", ()):
            self.conditions[write.name][condition["type"]] = condition["status"]
        if write.kind == "Node":
            for condition in write.status.get("conditions", ()):
                self._note(f"{node}: {condition['type']}={condition['status']}")
            if "images" in write.status:
                self._note(f"{node}: images {[i['names'][0] for i in write.status['images']]}")
            return
        self._update(write.name, write.status)
        if write.status.get("phase") == "Failed" and self._replaces:
            self._replace(write.name, node)
        for status in write.status.get("containerStatuses", ()):
            ((state, _),) = status["state"].items()
            self._note(f"{write.name}: {status['name']} {state} {status.get('restartCount', 0)}")

    def _replace(self, name: str, node: str) -> None:
        names = list(self.nodes)
        after = names.index(node) + 1
        calm = [n for n in names[after:] + names[:after] if not self.nodes[n].conditions]
        usage = self.pods[name]["metadata"]["annotations"].get("berth.dev/usage", "")
        spec = {k: v for k, v in self.pods[name]["spec"].items() if k != "nodeName"}
        self.start(calm[0], usage, **spec)
        self.delete(name)

    def _update(self, name: str, status: Document) -> None:
        document = self.pods[name]
        kept = {c["type"]: c for c in document["status"].get("conditions", ())}
        kept |= {c["type"]: c for c in status.get("conditions", ())}
        document["status"] |= {**status, "conditions": list(kept.values())}
        pod = self._pod(name)
        self.nodes[pod.spec.node_name].put(pod, self.now)
        self._plan(pod.spec.node_name)

    def _pod(self, name: str) -> Pod:
        return read(self.pods[name], Pod)

    def _note(self, text: str) -> None:
        self.history.append((self.seconds, text))
