"""Shares equal parts of pods in memory, such as the spec that the pods of a template have in
common.

The pods of a cluster come from few templates, and most of the memory of a pod is its spec and its
labels: unshared, 150,000 pods take a gigabyte. Objects are frozen, so sharing has no other effect.
Parts that were last used long ago are forgotten, which costs only memory. A spec is checked when it
is first met. Kubernetes has no name for this.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..scheduling.kube.core import Pod, PodCondition, PodSpec, PodStatus
from ..scheduling.kube.meta import ObjectMeta, OwnerReference, own
from ..scheduling.kube.reading import Reader
from ..scheduling.model.interner import Interner
from ..scheduling.model.pod_template import spec_key

T = TypeVar("T")
_ENCODER = msgspec.msgpack.Encoder(enc_hook=dict)
_SHARED = own(ObjectMeta, "generate_name", "namespace", "labels", "owner_references")
_SPECS, _STATUSES = Reader(PodSpec, "spec"), Reader(PodStatus, "status")


# Of a pod's metadata: generateName, namespace, labels and owners.
_Parts = tuple[str, str, dict[str, str], tuple[OwnerReference, ...]]


class Sharing:
    def __init__(self) -> None:
        self._specs: Interner[bytes, PodSpec] = Interner()
        self._metadata: Interner[bytes, _Parts] = Interner()
        self._texts: Interner[str, str] = Interner()

    def shared(self, item: T) -> T:
        """Returns an equal pod that shares its parts with others; an object of another kind is
        returned as it is. Raises UnreadableError.
        """
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
        key = spec_key(spec)
        first = self._specs.get(key)
        if first is None:
            _SPECS.check(spec)
            first = self._specs.put(key, spec)
        if first.node_name == spec.node_name:
            return first
        return msgspec.structs.replace(first, node_name=self._text(spec.node_name))

    def _meta(self, metadata: ObjectMeta) -> ObjectMeta:
        same = _SHARED(metadata)
        # Only these fields are kept, and not the annotations of a pod that is long gone.
        generate_name, namespace, labels, owners = self._metadata.first(_ENCODER.encode(same), same)
        return msgspec.structs.replace(
            metadata,
            generate_name=generate_name,
            namespace=namespace,
            labels=labels,
            owner_references=owners,
        )

    def _condition(self, condition: PodCondition) -> PodCondition:
        """Returns a condition that shares its texts with those of all pods, and its time with the
        pod's other conditions.
        """
        since = condition.last_transition_time
        return msgspec.structs.replace(
            condition,
            type=self._text(condition.type),
            status=self._text(condition.status),
            reason=self._text(condition.reason),
            last_transition_time=None if since is None else self._text(since),
        )

    def _text(self, text: str) -> str:
        return self._texts.first(text, text)
