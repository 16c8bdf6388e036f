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
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.scheduling.kube.whole import with_json
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.config.feature_gates import DEFAULTS


class DocumentCluster:
    """A cluster of documents, which can be added, replaced and removed.

    `kinds` are the kinds that plugins declare, and `gates` the feature gates. If `whole`, pods and
    nodes keep the fields that only extenders read. Only nominations of pods whose scheduler name is
    in `schedulers` count.
    """

    def __init__(
        self,
        schedulers: Set[str],
        kinds: Iterable[WatchedKind] = (),
        gates: Mapping[str, bool] = DEFAULTS,
        *,
        whole: bool = False,
    ) -> None:
        self._schedulers = schedulers
        self._kinds = tuple(kinds)
        self._fields = GatedFields(gates)
        self._whole = whole
        self._cache = CacheState()

    def put(self, document: dict[str, Any]) -> None:
        """Adds an object, or replaces the object of the same name. Raises
        msgspec.ValidationError.
        """
        for item in self._items(document):
            match item:
                case Node() as node:
                    self._cache.handle(NodeAdded(node))
                case Pod() as pod if pod.status.phase in FINISHED:
                    pass
                case Pod() as pod if pod.spec.node_name:
                    self._cache.handle(AssignedPodAdded(pod))
                case Pod() as pod if (
                    pod.status.nominated_node_name and pod.spec.scheduler_name in self._schedulers
                ):
                    self.nominate(PodInfo(pod))
                case Pod():
                    pass
                case other:
                    self._cache.handle(ObjectPut(other))

    def remove(self, document: dict[str, Any]) -> None:
        """Removes an object. A pod must have a node."""
        for item in self._items(document):
            match item:
                case Node() as node:
                    self._cache.handle(NodeDeleted(node))
                case Pod() as pod:
                    self._cache.handle(AssignedPodDeleted(pod))
                case other:
                    self._cache.handle(ObjectRemoved(other))

    def nominate(self, info: PodInfo) -> None:
        self._cache.handle(Nominate(info, info.pod.status.nominated_node_name))

    def unnominate(self, key: str) -> None:
        """Withdraws the nomination of the pod of this key (namespace/name)."""
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

    def _items(self, document: dict[str, Any]) -> Iterator[HasMetadata]:
        for decoding in decoded(document, self._kinds):
            item = with_json(decoding, msgspec.json.encode(document)) if self._whole else decoding
            yield self._fields.drop(item) if isinstance(item, Pod) else item


def decoded(document: dict[str, Any], kinds: Iterable[WatchedKind]) -> Iterator[HasMetadata]:
    """Yields an object in the type of each of its kinds: a kind that berth knows, or some of
    `kinds`.

    Raises msgspec.ValidationError.
    """
    item = decode(document)
    if item is not None:
        yield item
    name = document.get("apiVersion"), document.get("kind")
    for kind in kinds:
        if (kind.api_version, kind.kind) == name:
            declared: HasMetadata = Reader(kind.type).convert(document)
            yield declared
