"""Pods and what they use, for the tests of node pressure."""

from __future__ import annotations

from typing import Any

from berth.actors.scheduling.kube.quantity import value
from berth.tools.kubernetes.kubelet.usage_models import ContainerUsage, PodUsage, VolumeUsage
from berth.tools.kubernetes.objects.structs import Pod, read
from tests.kit import documents
from tests.kit.documents import Document

LOW, NORMAL, HIGH = -1, 0, 1
SYSTEM_CRITICAL, NODE_CRITICAL = 2_000_000_000, 2_000_001_000


def resources(cpu: str = "", memory: str = "", disk: str = "") -> Document:
    amounts = {"cpu": cpu, "memory": memory, "ephemeral-storage": disk}
    return {name: amount for name, amount in amounts.items() if amount}


def container(
    name: str, requests: Document | None = None, limits: Document | None = None
) -> Document:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}}


def pod(
    name: str,
    priority: int = NORMAL,
    requests: Document | None = None,
    limits: Document | None = None,
    qos: str = "BestEffort",
    annotations: Document | None = None,
    **spec: Any,
) -> Pod:
    """Returns a pod with one container of its own name, and an emptyDir."""
    volumes = [{"name": "local", "emptyDir": {}}]
    fields = {"containers": [container(name, requests, limits)], "volumes": volumes, **spec}
    fields |= {"annotations": annotations or {}, "status": {"phase": "Running", "qosClass": qos}}
    return read(documents.pod(name, priority=priority, **fields), Pod)


def uses(
    name: str,
    memory: str = "0",
    rootfs: str = "0",
    logs: str = "0",
    volume: str = "0",
    inodes: int = 0,
    pids: int = 0,
) -> PodUsage:
    """Returns the usage of a pod of this name, and of its volume."""
    used = ContainerUsage(
        name,
        memory=value(memory),
        rootfs=value(rootfs),
        logs=value(logs),
        inodes=inodes,
        pids=pids,
    )
    return PodUsage((used,), (VolumeUsage("local", value(volume)),))
