"""Makes a cluster from documents: the snapshot that the scheduler would have of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import msgspec

from berth.actors.cache.state import (
    CacheState,
)
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    NodeAdded,
    NodeDeleted,
    Nominate,
    ObjectPut,
    ObjectRemoved,
    Unnominate,
)
from berth.actors.scheduling.kube.core import (
    FINISHED,
    Node,
    Pod,
)
from berth.actors.scheduling.kube.gated_fields import GatedFields
from berth.actors.scheduling.kube.kinds import (
    WatchedKind,
    decode,
)
from berth.actors.scheduling.kube.meta import HasMetadata, key
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.whole import with_json
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.config.feature_gates import DEFAULTS

from .plugin_handle import HeldObjects

Document = dict[str, Any]


class DocumentCluster:
    """A cluster of documents, which can be added, replaced and removed.

    `kinds` are the kinds that plugins declare, and `gates` the feature gates. If `whole`, pods and
    nodes keep the fields that only extenders read. Only nominations of pods whose scheduler name is
    in `schedulers` count. Plugins see the `held` objects, which are kept up to date.
    """

    def __init__(
        self,
        schedulers: Set[str],
        kinds: Iterable[WatchedKind] = (),
        gates: Mapping[str, bool] = DEFAULTS,
        *,
        whole: bool = False,
        held: HeldObjects | None = None,
    ) -> None:
        self._schedulers = schedulers
        self._kinds = tuple(kinds)
        self._fields = GatedFields(gates)
        self._nominates_gated = gates["GatedNominations"]
        self._whole = whole
        self._held = HeldObjects() if held is None else held
        self._cache = CacheState()

    def put(self, document: Document) -> None:
        """Adds an object. Raises msgspec.ValidationError."""
        self.replace(None, document)

    def replace(
        self, before: Document | None, document: Document | None, *, counts: bool = True
    ) -> None:
        """Puts an object in the place of another one; None stands for no object. If it does not
        count, plugins alone see it.

        Raises msgspec.ValidationError, and changes nothing, for an object of the wrong shape.
        """
        added = [] if document is None else list(decoded(document, self._kinds))
        gone = [] if before is None else list(decoded(before, self._kinds))
        for item in gone:
            self._held.drop(item)
        self._held.hold(added)
        for item in gone if counts else ():
            if document is None or (isinstance(item, Pod) and _takes_room(item)):
                self._remove(item)
        for item in added if counts else ():
            whole = with_json(item, msgspec.json.encode(document)) if self._whole else item
            self._add(self._fields.drop(whole) if isinstance(whole, Pod) else whole)

    def put_declared(self, document: Document) -> None:
        """Adds an object in the types of the kinds that plugins declare alone. Raises
        msgspec.ValidationError.
        """
        items = list(_declared(document, self._kinds))
        self._held.hold(items)
        for item in items:
            self._cache.handle(ObjectPut(item))

    def _add(self, item: HasMetadata) -> None:
        match item:
            case Node() as node:
                self._cache.handle(NodeAdded(node))
            case Pod() as pod if _takes_room(pod):
                self._cache.handle(AssignedPodAdded(pod))
            case Pod() as pod:
                if self._holds_room(pod):
                    self.nominate(PodInfo(pod))
                else:
                    self.unnominate(key(pod))
            case other:
                self._cache.handle(ObjectPut(other))

    def _remove(self, item: HasMetadata) -> None:
        match item:
            case Node() as node:
                self._cache.handle(NodeDeleted(node))
            case Pod() as pod if _takes_room(pod):
                self._cache.handle(AssignedPodDeleted(pod))
            case Pod() as pod:
                self.unnominate(key(pod))
            case other:
                self._cache.handle(ObjectRemoved(other))

    def _holds_room(self, pod: Pod) -> bool:
        """True if the nomination of a pending pod counts. With 1.36 a pod with scheduling gates
        has none until they are gone, as if the scheduler had just started.
        """
        return (
            bool(pod.status.nominated_node_name)
            and pod.spec.scheduler_name in self._schedulers
            and pod.status.phase not in FINISHED
            and (self._nominates_gated or not pod.spec.scheduling_gates)
        )

    def nominate(self, info: PodInfo) -> None:
        self._cache.handle(Nominate(info, info.pod.status.nominated_node_name))

    def unnominate(self, key: str) -> None:
        """Removes the nomination of the pod of this key (namespace/name)."""
        self._cache.handle(Unnominate(key))

    def assume(self, item: HasMetadata) -> None:
        """Replaces an object that is no pod and no node by the version that a plugin assumes."""
        self._cache.handle(ObjectPut(item))

    def withdraw(self, item: HasMetadata) -> None:
        """Removes an object that a plugin assumed."""
        self._cache.handle(ObjectRemoved(item))

    def snapshot(self) -> Snapshot:
        """Returns the cluster as it is now. It is always the same snapshot, brought up to date."""
        return self._cache.snapshot()


def _takes_room(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def decoded(document: Document, kinds: Iterable[WatchedKind]) -> Iterator[HasMetadata]:
    """Yields an object in the type of each of its kinds: a kind that berth knows, or some of
    `kinds`.

    Raises msgspec.ValidationError.
    """
    item = decode(document)
    if item is not None:
        yield item
    yield from _declared(document, kinds)


def _declared(document: Document, kinds: Iterable[WatchedKind]) -> Iterator[HasMetadata]:
    name = document.get("apiVersion"), document.get("kind")
    for kind in kinds:
        if (kind.api_version, kind.kind) == name:
            declared: HasMetadata = Reader(kind.type).convert(document)
            yield declared
