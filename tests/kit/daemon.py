"""The whole scheduler in virtual time with an API server in memory; builders for its objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
from anyio.abc import TaskStatus

from berth.actors import system
from berth.actors.client.extender.calls import Extenders
from berth.actors.scheduling.kube.kinds import NODES, PODS
from berth.actors.telemetry.instruments import Instruments
from berth.config.load import from_mapping
from berth.config.options import Options
from tests.kit import documents
from tests.kit.clock import VirtualClock
from tests.kit.documents import Document, thing
from tests.kit.small_api import NOTHING, Hostile, SmallApi
from tests.kit.tasks import beside


class Daemon:
    """A running scheduler. `started` is set after its start. `hostile` is as in SmallApi.put."""

    def __init__(
        self, seed: int = 1, api: SmallApi | None = None, clock: VirtualClock | None = None
    ) -> None:
        self.clock = clock or VirtualClock()
        self.api = api or SmallApi(self.clock, Random(seed))
        self.started = anyio.Event()

    async def advance(self, seconds: float) -> None:
        """Moves the time forward by a second at a time, so that all writes are seen in between."""
        for _ in range(round(seconds)):
            await self.clock.advance(1.0)
        await self.clock.settle()

    def node_of(self, name: str) -> str:
        """Returns the node of a pod in the default namespace, or ""."""
        host: str = self.api.documents(PODS.path)[f"default/{name}"]["spec"].get("nodeName", "")
        return host

    def message_of(self, name: str) -> str:
        """Returns the message of the PodScheduled condition of a pod in "default", or ""."""
        conditions = self.api.documents(PODS.path)[f"default/{name}"]["status"].get(
            "conditions", ()
        )
        return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")

    def put_node(self, name: str, cpu: str = "4", hostile: Hostile = NOTHING) -> None:
        self.api.put(NODES.path, name, node(name, cpu), hostile)

    def put_pod(
        self, name: str, cpu: str = "100m", spec: Document | None = None, hostile: Hostile = NOTHING
    ) -> None:
        """Creates or updates a pod in the default namespace; `spec` is merged into its spec."""
        before = self.api.documents(PODS.path).get(f"default/{name}")
        manifest = pod(name, cpu, "default", **(spec or {}))
        if isinstance(before, dict) and before.get("spec", {}).get("nodeName"):
            manifest["spec"]["nodeName"] = before["spec"]["nodeName"]
        self.api.put(PODS.path, f"default/{name}", manifest, hostile)


@asynccontextmanager
async def daemon(
    configuration: Document | None = None,
    options: Options = system.DEFAULT_OPTIONS,
    existing: Daemon | None = None,
    instruments: Instruments | None = None,
) -> AsyncIterator[Daemon]:
    """Runs a scheduler until the block ends. Raises the error that ended the scheduler earlier."""
    running = existing or Daemon()
    document: Document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **(configuration or {}),
    }

    async def run() -> None:
        async with Extenders() as extenders:
            status = _Started(running.started)
            scheduler = system.Daemon(
                from_mapping(document),
                running.api,
                extenders,
                running.clock,
                Random(1),
                options,
                instruments=instruments,
            )
            await scheduler.run(task_status=status)

    async with beside(run):
        await running.clock.advance(0)  # A refused stream is followed by a list at once.
        yield running
        await running.clock.settle()


class _Started(TaskStatus[None]):
    def __init__(self, event: anyio.Event) -> None:
        self._event = event

    def started(self, value: None = None) -> None:
        self._event.set()


def node(name: str, cpu: str = "4", **labels: str) -> Document:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return thing(
        "Node",
        name,
        uid=f"node-{name}",
        labels={"kubernetes.io/hostname": name, **labels},
        spec={},
        status={"capacity": amounts, "allocatable": amounts},
    )


def pod(name: str, cpu: str = "100m", namespace: str = "default", **spec: Any) -> Document:
    fields = {"uid": f"pod-{name}", "status": {"phase": "Pending"}, **spec}
    return documents.pod(name, cpu, namespace=namespace, requests={"memory": "64Mi"}, **fields)
