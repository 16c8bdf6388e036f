"""Hollow nodes: they register, report Ready, and say that whatever is bound to them runs."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio
import structlog
from anyio.abc import TaskStatus

from actors.client.rest import ApiError, Client, ConnectionFailedError
from actors.client.watch import Changed, Listed, Reflector
from actors.kube.core import Pod
from actors.runtime.clock import Clock

log = structlog.get_logger(__name__)
ZONES = ("zone-a", "zone-b", "zone-c")


def hollow_node(number: int) -> dict[str, Any]:
    """The manifest of the node of this number: 8 cores, 32Gi, one of three zones in turn."""
    name = f"node-{number}"
    amounts = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": ZONES[(number - 1) % len(ZONES)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


async def run_kubelets(
    client: Client, clock: Clock, rng: Random, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Run every pod that is bound to any node: Running at once, gone as soon as it is deleted."""
    task_status.started()
    bound = Reflector(client, "/api/v1/pods", Pod, clock, rng, "fieldSelector=spec.nodeName!=")
    async for told in bound.changes():
        match told:
            case Listed(items):
                for pod in items:
                    await _look_after(client, clock, pod)
            case Changed(pod):
                await _look_after(client, clock, pod)
            case _:
                pass


async def _look_after(client: Client, clock: Clock, pod: Pod) -> None:
    path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"
    try:
        if pod.metadata.deletion_timestamp is not None:
            await client.call("DELETE", path, dict, {"gracePeriodSeconds": 0})
        elif pod.status.phase == "Pending":
            started = clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
            await client.patch(
                f"{path}/status", {"status": {"phase": "Running", "startTime": started, "conditions": ready}}, dict
            )
    except (ApiError, ConnectionFailedError) as failure:
        log.debug("pod not looked after", pod=f"{pod.metadata.namespace}/{pod.metadata.name}", error=str(failure))
