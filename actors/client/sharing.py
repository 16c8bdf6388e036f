"""What equal pods share: of the pods that one template made, what is the same is held once.

A cluster's pods come from few templates, and a pod's spec and labels are most of what is kept of
it: without this, 150,000 pods are a gigabyte. Objects are frozen, so that nobody can tell the
difference. Parts met long ago are forgotten, which costs memory alone. A spec is checked when it
is met first. Kubernetes has no name for it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TypeVar

import msgspec

from berth.actors.scheduling.kube.core import Pod, PodCondition, PodSpec, PodStatus
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.kube.reading import Reader

T = TypeVar("T")
MOST = 8192  # of each sort
_SPEC = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "node_name"))
_ENCODER = msgspec.msgpack.Encoder()
_SPECS, _STATUSES = Reader(PodSpec, "spec"), Reader(PodStatus, "status")


class Sharing:
    def __init__(self) -> None:
        self._specs: dict[bytes, PodSpec] = {}
        self._metadata: dict[bytes, ObjectMeta] = {}
        self._texts: dict[str, str] = {}

    def shared(self, item: T) -> T:
        """A pod, or one that is equal to it; other objects as they are. Raises UnreadableError."""
        if not isinstance(item, Pod):
            return item
        _STATUSES.check(item.status)
        spec, metadata = self._spec(item.spec), self._meta(item.metadata)
        conditions = tuple([self._condition(condition) for condition in item.status.conditions])
        status = (
            msgspec.structs.replace(item.status, conditions=conditions)
            if conditions
            else item.status
        )
        return msgspec.structs.replace(item, metadata=metadata, spec=spec, status=status)

    def _spec(self, spec: PodSpec) -> PodSpec:
        key = _ENCODER.encode(_SPEC(spec))
        if key not in self._specs:
            _SPECS.check(spec)
        first = _first(self._specs, key, spec)
        if first.node_name == spec.node_name:
            return first
        return msgspec.structs.replace(first, node_name=self._text(spec.node_name))

    def _meta(self, metadata: ObjectMeta) -> ObjectMeta:
        same = (
            metadata.generate_name,
            metadata.namespace,
            metadata.labels,
            metadata.owner_references,
        )
        first = _first(self._metadata, _ENCODER.encode(same), metadata)
        return msgspec.structs.replace(
            metadata,
            generate_name=first.generate_name,
            namespace=first.namespace,
            labels=first.labels,
            owner_references=first.owner_references,
        )

    def _condition(self, condition: PodCondition) -> PodCondition:
        """Its words are those of all pods, and its times those of the pod's other conditions."""
        since = condition.last_transition_time
        return msgspec.structs.replace(
            condition,
            type=self._text(condition.type),
            status=self._text(condition.status),
            reason=self._text(condition.reason),
            last_transition_time=None if since is None else self._text(since),
        )

    def _text(self, text: str) -> str:
        return _first(self._texts, text, text)


K = TypeVar("K")


def _first(known: dict[K, T], key: K, value: T) -> T:
    """The value that was met first under the key."""
    found = known.get(key)
    if found is not None:
        return found
    if len(known) >= MOST:
        known.clear()
    known[key] = value
    return value
