"""Hollow nodes: their manifests, and the status that a healthy kubelet gives a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from berth.actors.scheduling.kube.times import time_of

from ..objects.structs import Document
from .stages.actions import Action, PatchObject, PostHeartbeat, RecordEvent
from .stages.functions import NODE_CONDITIONS
from .stages.go_builtins import Functions

ZONES = ("zone-a", "zone-b", "zone-c")
AMOUNTS = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
# Whether a kubelet runs: the annotation of a node that stops it.
KUBELET, STOPPED = "berth.dev/kubelet", "stopped"
# The reasons of conditions that the node lifecycle controller sets while a kubelet is silent.
LOST = ("NodeStatusUnknown", "NodeStatusNeverUpdated")
# The conditions that kubelets own, as on a healthy node.
_HEALTHY = {
    condition["type"]: condition
    for condition in NODE_CONDITIONS
    if condition["type"] != "NetworkUnavailable"
}


def is_stopped(node: Document) -> bool:
    """True if an annotation stops the node's kubelet."""
    return is_stopped_by(node["metadata"].get("annotations") or {})


def is_stopped_by(annotations: Mapping[str, str]) -> bool:
    """True if these annotations of a node stop its kubelet."""
    return annotations.get(KUBELET) == STOPPED


def hollow_node(number: int) -> Document:
    """Returns the manifest of the node of this number: 8 cores, 32Gi, in one of three zones."""
    name = f"node-{number}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": ZONES[(number - 1) % len(ZONES)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": AMOUNTS,
            "allocatable": AMOUNTS,
            "conditions": [dict(_HEALTHY["Ready"])],
        },
    }


class NodeSteps:
    """The steps `register`, `heartbeat` and `recover`; `address` returns the address of a node.
    `release` is the kubelets' version.
    """

    def __init__(self, address: Callable[[str], str], began: str, release: str) -> None:
        self._address = address
        self._began = began
        self._release = release

    def due(self, step: str, node: Document, since: float) -> float | None:
        return since

    def run(self, step: str, node: Document, now: float) -> Iterator[Action]:
        time = time_of(now)
        match step:
            case "register":
                name = node["metadata"]["name"]
                status = missing_status(node, self._address(name), time, self._release)
                yield PatchObject({"status": status})
                if "nodeInfo" in status:  # the node is new
                    yield RecordEvent("Normal", "Starting", "Starting kubelet.")
                for condition in status.get("conditions", ()):
                    if condition.get("reason") == _HEALTHY[condition["type"]]["reason"]:
                        yield RecordEvent("Normal", *condition_event(name, condition))
            case "heartbeat":
                yield PostHeartbeat(tuple(_HEALTHY), time)
            case "recover":
                times = {"lastHeartbeatTime": time, "lastTransitionTime": time}
                lost = [
                    condition["type"]
                    for condition in node["status"]["conditions"]
                    if condition.get("reason") in LOST and condition["type"] in _HEALTHY
                ]
                conditions = [{**_HEALTHY[kind], **times} for kind in lost]
                yield PatchObject({"status": {"conditions": conditions}})
                for condition in conditions:
                    yield RecordEvent(
                        "Normal", *condition_event(node["metadata"]["name"], condition)
                    )

    def functions(self, node: Document, now: float) -> Functions:
        name = node["metadata"]["name"]
        return {
            "Now": lambda: time_of(now),
            "StartTime": lambda: self._began,
            "Version": lambda: "hollow",
            "NodeName": lambda: name,
            "NodeIP": lambda: self._address(name),
            "NodePort": lambda: None,
        }


def condition_event(node: str, condition: Document) -> tuple[str, str]:
    """Returns reason and message of the event that a kubelet writes about a new condition."""
    reason = condition["reason"].replace("Kubelet", "Node", 1)
    return reason, f"Node {node} status is now: {reason}"


def missing_status(node: Document, address: str, time: str, release: str) -> Document:
    """Returns the fields that a node's status lacks, with the values that a healthy kubelet would
    set.
    """
    status = node.get("status") or {}
    missing: Document = {}
    if not status.get("capacity"):
        missing["capacity"] = status.get("allocatable") or AMOUNTS
    if not status.get("allocatable"):
        missing["allocatable"] = status.get("capacity") or AMOUNTS
    have = {condition["type"]: condition for condition in status.get("conditions") or ()}
    posted = [
        _with_times(have.get(kind) or healthy, time)
        for kind, healthy in _HEALTHY.items()
        if not have.get(kind, {}).get("lastHeartbeatTime")
    ]
    if posted:
        missing["conditions"] = posted
    if not status.get("addresses"):
        named = {"type": "Hostname", "address": node["metadata"]["name"]}
        missing["addresses"] = [{"type": "InternalIP", "address": address}, named]
    if not (status.get("nodeInfo") or {}).get("kubeletVersion"):
        uid = str(node["metadata"].get("uid", ""))
        system = {
            "machineID": uid.replace("-", ""),
            "systemUUID": uid,
            "bootID": uid,
            "operatingSystem": "linux",
            "architecture": "amd64",
            "osImage": "hollow",
            "kernelVersion": "hollow",
        }
        missing["nodeInfo"] = {
            **system,
            "containerRuntimeVersion": "hollow://1",
            "kubeletVersion": release,
        }
    return missing


def _with_times(condition: Document, time: str) -> Document:
    """Returns a condition with its times; a condition that has held longer keeps its transition."""
    since = condition.get("lastTransitionTime") or time
    return {**condition, "lastHeartbeatTime": time, "lastTransitionTime": since}
