"""Nodes, leases and pods to decide on, and what decisions write."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from berth.actors.scheduling.kube.coordination import Lease
from berth.tools.kubernetes.objects.structs import Document, Node, Pod, read
from berth.tools.kubernetes.objects.writes import Create, Delete, Patch, Write

START = datetime(2026, 1, 1, tzinfo=UTC)
EARLIER = "2025-12-31T23:00:00Z"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def taint(text: str) -> Document:
    """Returns a taint from its text, as kubectl writes it: key=value:effect or key:effect."""
    key, _, effect = text.rpartition(":")
    key, _, value = key.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def node(
    name: str = "n1",
    ready: str = "True",
    *taints: str,
    heartbeat: str = EARLIER,
    labels: dict[str, str] | None = None,
    version: int = 1,
    **conditions: str,
) -> Node:
    """Returns a node; without a condition Ready if `ready` is empty."""
    about = {"uid": f"uid-{name}", "resourceVersion": str(version), "creationTimestamp": EARLIER}
    told = {"reason": "Kubelet", "message": "text"}
    times = {"lastHeartbeatTime": heartbeat, "lastTransitionTime": EARLIER}
    statuses = {**({"Ready": ready} if ready else {}), **conditions}
    listed = [{"type": kind, "status": word, **told, **times} for kind, word in statuses.items()]
    document = {
        "metadata": {"name": name, "labels": labels or {}, **about},
        "spec": {"taints": [taint(text) for text in taints]},
        "status": {"conditions": listed},
    }
    return read(document, Node)


def lease(name: str = "n1", renewed: int = 0, namespace: str = "kube-node-lease") -> Lease:
    document = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"lease-{name}",
                     "resourceVersion": str(renewed + 1)},
        "spec": {"renewTime": f"2026-01-01T00:{renewed // 60:02}:{renewed % 60:02}.000000Z"},
    }  # fmt: skip
    return read(document, Lease)


def tolerates(text: str, seconds: int | None = None) -> Document:
    """Returns a toleration of the taint of this text; key:effect tolerates any value."""
    stated = taint(text)
    operator = "Equal" if "value" in stated else "Exists"
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {**stated, "operator": operator, **limit}


def pod(
    name: str = "p",
    *tolerations: Document,
    on: str = "n1",
    phase: str = "Running",
    ready: str = "True",
    reason: str = "",
    version: int = 1,
    conditions: Iterable[Document] = (),
    **metadata: Any,
) -> Pod:
    about = {"namespace": "n", "uid": f"uid-{name}", "resourceVersion": str(version), **metadata}
    mine = {"type": "Ready", "status": ready, "reason": "Mine", "lastTransitionTime": EARLIER}
    document = {
        "metadata": {"name": name, **about},
        "spec": {"nodeName": on, "tolerations": list(tolerations)},
        "status": {"phase": phase, "reason": reason, "conditions": [mine, *conditions]},
    }
    return read(document, Pod)


def deleted(writes: Iterable[Write]) -> list[str]:
    return [write.name for write in writes if isinstance(write, Delete)]


def patched(writes: Iterable[Write]) -> list[Patch]:
    return [write for write in writes if isinstance(write, Patch)]


def events(writes: Iterable[Write]) -> list[tuple[str, str]]:
    """Returns reason and message of each event."""
    return [
        (write.document["reason"], write.document["message"])
        for write in writes
        if isinstance(write, Create) and write.kind == "Event"
    ]


def taints_in(write: Patch) -> list[str]:
    """Returns the taints that a patch of a node leaves, without the prefix of Kubernetes' own."""
    return [
        f"{each['key'].removeprefix('node.kubernetes.io/')}:{each['effect']}"
        for each in write.body["spec"]["taints"]
    ]
