"""Makes a cluster from documents: the snapshot that the scheduler would have of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

import msgspec

from berth.actors.cache.state import (
    CacheState,
    Lend,
)
from berth.actors.messages.cache import (
    AssignedPodAdded,
    NodeAdded,
    Nominate,
    ObjectPut,
    TakeSnapshot,
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


class _Ignored:
    def set(self, value: Snapshot) -> None:
        """Does nothing: the snapshot is taken from the effect instead."""


def snapshot_of(
    objects: Iterable[dict[str, object]],
    schedulers: Set[str],
    info: PodInfo | None = None,
    kinds: Iterable[WatchedKind] = (),
    gates: Mapping[str, bool] = DEFAULTS,
    *,
    whole: bool = False,
) -> Snapshot:
    """Returns the cluster of these objects, for a decision about the pod `info`. `kinds` are those
    that plugins declare, and `gates` the feature gates. If `whole`, pods and nodes keep the fields
    that only extenders read.

    Only nominations of pods whose scheduler name is in `schedulers` count. Raises
    msgspec.ValidationError for an object of the wrong shape.
    """
    cache, fields = CacheState(), GatedFields(gates)
    for document, decoding in ((d, item) for d in objects for item in decoded(d, kinds)):
        item = with_json(decoding, msgspec.json.encode(document)) if whole else decoding
        match item:
            case Node() as node:
                cache.handle(NodeAdded(node))
            case Pod() as pod if pod.status.phase in FINISHED:
                pass
            case Pod() as pod if pod.spec.node_name:
                cache.handle(AssignedPodAdded(fields.drop(pod)))
            case Pod() as pod if (
                pod.status.nominated_node_name and pod.spec.scheduler_name in schedulers
            ):
                nominated = PodInfo(fields.drop(pod))
                cache.handle(Nominate(nominated, pod.status.nominated_node_name))
            case Pod():
                pass
            case other:
                cache.handle(ObjectPut(other))
    if info is not None and info.pod.status.nominated_node_name:
        cache.handle(Nominate(info, info.pod.status.nominated_node_name))
    (lend,) = cache.handle(TakeSnapshot(_Ignored()))
    assert isinstance(lend, Lend)
    return lend.snapshot


def decoded(document: dict[str, object], kinds: Iterable[WatchedKind]) -> Iterator[HasMetadata]:
    """Yields an object in the type of each of its kinds: one that berth knows, or some of `kinds`.

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
