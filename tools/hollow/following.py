"""Keeps what a controller or driver knows of the cluster up to date, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyio.abc import TaskStatus

from berth.actors.client.rest import Client
from berth.actors.client.watch import (
    Changed,
    Deleted,
    Listed,
    Reflector,
)
from berth.actors.runtime.backoff import Rng
from berth.actors.runtime.clock import Clock

from ..apiserver.resources import Kind
from .cluster import Change, Cluster


class Following:
    """`changed` is called after each list and each event that changed what is known."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        clock: Clock,
        rng: Rng,
        changed: Callable[[Sequence[Change]], None],
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._clock = clock
        self._rng = rng
        self._changed = changed

    async def follow(self, kind: Kind, *, task_status: TaskStatus[None]) -> None:
        """Follows one kind until cancelled; started after the first list."""
        listed = False
        # The items of a list from a real API server have no kind.
        served = {"apiVersion": kind.api_version, "kind": kind.kind}
        stream = Reflector(self._client, kind.path(), dict, self._clock, self._rng)
        async for event in stream.changes():
            match event:
                case Listed(items):
                    documents = [{**item, **served} for item in items]
                    self._changed(self._cluster.replace(kind.kind, documents))
                    if not listed:
                        task_status.started()
                        listed = True
                case Changed(document):
                    self._tell(self._cluster.put(document))
                case Deleted(document):
                    self._tell(self._cluster.remove(document))

    def _tell(self, change: Change | None) -> None:
        if change is not None:
            self._changed((change,))
