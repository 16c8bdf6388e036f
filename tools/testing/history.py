"""What happened to the pods of a cluster: taken from its writes, so that nothing is missed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from berth.actors.leader.locks import ANNOTATION

from ..kubernetes.api.store import Store, StoreEvent
from ..kubernetes.api.types.resources import BY_KIND, Kind

Document = dict[str, Any]
MOST_KEPT = 5  # writes
RESTLESS = ("Event", "Lease")
POD, EVENT = BY_KIND["v1", "Pod"], BY_KIND["v1", "Event"]
# What other workloads make to have its pods.
BETWEEN = BY_KIND["apps/v1", "ReplicaSet"], BY_KIND["batch/v1", "Job"]


class PodLife(msgspec.Struct):
    """A pod from its creation on. `document` is its last form; `nodes` has the node of each of its
    bindings, in their order. `gone` is the second at which it was removed, None while it is there.
    """

    document: Document
    created: float
    nodes: list[str] = []
    gone: float | None = None

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.document["metadata"]["namespace"])


class PodHistory:
    """The lives of all pods, by their uids, in the order of their creation.

    `writes` counts the writes that move the cluster, which renewals of leases, heartbeats and
    events do not; `moved` is the second of the last of them.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.lives: dict[str, PodLife] = {}
        self._owners_of: dict[str, list[str]] = {}  # of ReplicaSets and Jobs, by their uids
        self.writes = 0
        self._last: deque[tuple[float, Kind, StoreEvent]] = deque(maxlen=MOST_KEPT)
        self.moved = 0.0

    def begin(self, store: Store) -> None:
        """Takes the pods into account that are there at the beginning."""
        for kind in BETWEEN:
            for stored in store.list(kind):
                self._note_owners(stored.document)
        for stored in store.list(POD):
            document = stored.document
            node = document["spec"].get("nodeName")
            nodes = [node] if node else []
            uid = document["metadata"]["uid"]
            self.lives[uid] = PodLife(document, self._now(), nodes)

    def in_namespace(self, namespace: str) -> list[PodLife]:
        """Returns the pods of a namespace, those that were removed too."""
        return [life for life in self.lives.values() if life.namespace == namespace]

    def last(self) -> Iterator[tuple[float, str]]:
        """Yields the last writes that moved the cluster, in words, each with its second."""
        for at, kind, event in self._last:
            metadata = event.after.document["metadata"]
            name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
            yield at, f"{event.type} {kind.kind} {name}"

    def owners(self, life: PodLife) -> set[str]:
        """Returns the names of the workloads that have a pod, by a ReplicaSet or a Job too. They
        may be gone.
        """
        owners = life.document["metadata"].get("ownerReferences") or ()
        above = (self._owners_of.get(owner["uid"], ()) for owner in owners)
        return {owner["name"] for owner in owners}.union(*above)

    def note(self, kind: Kind, event: StoreEvent) -> None:
        """Takes a write into account, as the journal of a Store."""
        restless = event.renews or event.is_heartbeat or kind.kind in RESTLESS
        if restless or _renews_record(event):
            return
        self.writes += 1
        self.moved = self._now()
        self._last.append((self.moved, kind, event))
        if kind is POD:
            self._note_pod(event)
        elif kind in BETWEEN:
            self._note_owners(event.after.document)

    def _note_owners(self, document: Document) -> None:
        metadata = document["metadata"]
        if owners := metadata.get("ownerReferences"):
            self._owners_of[metadata["uid"]] = [owner["name"] for owner in owners]

    def _note_pod(self, event: StoreEvent) -> None:
        document = event.after.document
        uid = document["metadata"]["uid"]
        life = self.lives.get(uid)
        if life is None:
            life = self.lives[uid] = PodLife(document, self._now())
        node = document["spec"].get("nodeName")
        before = event.before.document["spec"].get("nodeName") if event.before else None
        if node and node != before:
            life.nodes.append(node)
        life.document = document
        if event.type == "DELETED":
            life.gone = self._now()


def _renews_record(event: StoreEvent) -> bool:
    """True for a write of an object that is a lock of an older kind."""
    annotations = event.after.document["metadata"].get("annotations") or {}
    return ANNOTATION in annotations and event.before is not None
