"""Hollow nodes: their manifests, and the status that a healthy kubelet gives a node."""

from __future__ import annotations

from ..objects import Document, Node, condition_of

ZONES = ("zone-a", "zone-b", "zone-c")
AMOUNTS = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}


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
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def node_status(node: Node, address: str, time: str) -> Document:
    """Returns the fields missing in a node's status, as a healthy kubelet would set them."""
    status = node.status
    missing: Document = {}
    if not status.capacity:
        missing["capacity"] = status.allocatable or AMOUNTS
    if not status.allocatable:
        missing["allocatable"] = status.capacity or AMOUNTS
    if condition_of(status.conditions, "Ready") is None:
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }
        missing["conditions"] = [{**ready, "lastHeartbeatTime": time, "lastTransitionTime": time}]
    if not status.addresses:
        named = {"type": "Hostname", "address": node.metadata.name}
        missing["addresses"] = [{"type": "InternalIP", "address": address}, named]
    if not status.node_info.kubelet_version:
        system = {
            "operatingSystem": "linux",
            "architecture": "amd64",
            "osImage": "hollow",
            "kernelVersion": "hollow",
        }
        missing["nodeInfo"] = {
            **system,
            "containerRuntimeVersion": "hollow://1",
            "kubeletVersion": "v1.36.2",
        }
    return missing
