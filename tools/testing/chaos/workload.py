"""Clients that create and delete pods, and remember what the API server acknowledged."""

from __future__ import annotations

from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import ApiError, Client, ConnectionFailedError, IgnoredAnswer

from ..builders import node, pod
from .program import ProgramError

Document = dict[str, Any]
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
RETRY_SECONDS = 0.2
BEGIN_SECONDS = 60.0  # for the nodes, before there are faults
PAUSE_SECONDS = 0.15  # between two writes, on average
CPU = (100, 250, 500, 1000, 2000)  # milli-CPUs of a pod


class Workload:
    """Pods on `nodes` nodes of 8 CPUs, about as many as fit. `alive` are the acknowledged pods that
    nobody has begun to delete, `gone` those whose deletion was acknowledged.
    """

    def __init__(self, client: Client, rng: Random, nodes: int) -> None:
        self._client = client
        self._rng = rng
        self._nodes = nodes
        self._number = 0
        self.alive: dict[str, int] = {}
        self.gone: set[str] = set()
        self.writes = 0
        self._refused = ""  # the last reason

    async def begin(self) -> None:
        """Creates the nodes. Raises ProgramError if the API server takes them not, as on a full
        disk.
        """
        with anyio.move_on_after(BEGIN_SECONDS) as begun:
            for number in range(self._nodes):
                await self._sent("POST", NODES, node(f"node-{number}", cpu=8))
        if begun.cancelled_caught:
            raise ProgramError(f"the API server takes no nodes: {self._refused}")

    async def run(self) -> None:
        """Creates and deletes pods until cancelled."""
        room = self._nodes * 8000
        while True:
            await anyio.sleep(self._rng.expovariate(1 / PAUSE_SECONDS))
            full = sum(self.alive.values()) > room * 0.9
            if self.alive and self._rng.random() < (0.8 if full else 0.3):
                await self._delete(self._rng.choice(list(self.alive)))
            else:
                await self._create()

    async def _create(self) -> None:
        self._number += 1
        name, cpu = f"pod-{self._number}", self._rng.choice(CPU)
        body = pod(name, cpu=f"{cpu}m", terminationGracePeriodSeconds=0)
        await self._sent("POST", PODS, body)
        self.alive[name] = cpu

    async def _delete(self, name: str) -> None:
        del self.alive[name]
        await self._sent("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        self.gone.add(name)

    async def _sent(self, method: str, path: str, body: Document) -> None:
        """Sends a write until it is done. A repeated write finds its own work: 409 or 404."""
        done = 409 if method == "POST" else 404
        tries = 0
        while True:
            tries += 1
            try:
                await self._client.call(method, path, IgnoredAnswer, body)
            except ConnectionFailedError as failed:
                self._refused = str(failed)
            except ApiError as refused:
                self._refused = str(refused)
                if refused.code == done and refused.reason != "Conflict":
                    break
            else:
                break
            await anyio.sleep(RETRY_SECONDS)
        self.writes += 1
