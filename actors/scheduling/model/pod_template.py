"""PodTemplate: what pods made from one template share, worked out once for all of them.

Pods whose namespace, labels, annotations and spec are the same (the node they were given apart) ask
for the same, and every rule that looks at nothing else of a pod decides the same for them.
Templates are found by the bytes of these fields; the few that were met last are kept. Mirrors what
kube-scheduler calls a pod's signature.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from berth.actors.scheduling.kube.core import Pod, PodSpec
from berth.actors.scheduling.kube.requests import (
    nonzero_requests,
    pod_requests,
    resize_is_infeasible,
)
from berth.actors.scheduling.kube.taints import Tolerations
from berth.actors.scheduling.model.affinity_terms import AffinityTerms, terms_of

T = TypeVar("T")

MOST_TEMPLATES = 8192
MOST_BYTES = (
    64 << 20
)  # of signatures: few pods are so large that thousands of them are too much to keep
_SPEC = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "node_name"))
_RESIZE = attrgetter(
    "container_statuses", "init_container_statuses", "resources", "allocated_resources"
)
_ENCODER = msgspec.msgpack.Encoder()


class HostPort(msgspec.Struct, frozen=True):
    """A port that a pod claims on its node."""

    ip: str
    protocol: str
    port: int


class GroupKey(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What selectors look at. `labels` are sorted by key."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    terminating: bool


class PodTemplate:
    """`requests` are what a pod counts with on its node: cpu in thousandths of a core, all else in
    whole units.

    `nonzero` is (milli-CPU, bytes of memory) with the defaults for containers that request nothing.
    A pod that still needs a node is judged by its spec alone: nothing of it can have been resized.
    """

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    def is_of(self, pod: Pod) -> bool:
        """Whether a pod is of this template for certain."""
        return same_template(self._pod, pod)

    @cached_property
    def requests(self) -> dict[str, int]:
        return pod_requests(self._pod)

    @cached_property
    def nonzero(self) -> tuple[int, int]:
        return nonzero_requests(self._pod)

    @cached_property
    def spec_requests(self) -> dict[str, int]:
        """What NodeResourcesFit wants of a node: the requests without regard to the status."""
        return pod_requests(self._pod, status=False) if _is_resized(self._pod) else self.requests

    @cached_property
    def container_requests(self) -> dict[str, int]:
        """`spec_requests` without regard to the pod's own `spec.resources`, which
        NodeResourcesFit's scores ignore.
        """
        return pod_requests(self._pod, pod_level=False, status=False)

    @cached_property
    def scoring_requests(self) -> tuple[int, int]:
        """`nonzero` without regard to the status and the pod's own `spec.resources`."""
        return nonzero_requests(self._pod, pod_level=False, status=False)

    @cached_property
    def tolerations(self) -> Tolerations:
        return Tolerations(self._pod.spec.tolerations)

    @cached_property
    def affinity_terms(self) -> AffinityTerms:
        """What the pods ask of other pods. Raises SelectorError."""
        return terms_of(self._pod)

    @cached_property
    def group(self) -> GroupKey:
        """The group of the pods that do not terminate."""
        return self._group(terminating=False)

    @cached_property
    def terminating_group(self) -> GroupKey:
        return self._group(terminating=True)

    def _group(self, *, terminating: bool) -> GroupKey:
        metadata = self._pod.metadata
        return GroupKey(metadata.namespace, tuple(sorted(metadata.labels.items())), terminating)

    @cached_property
    def claims(self) -> tuple[str, ...]:
        """The PersistentVolumeClaims that the volumes name, as namespace/name, once a volume."""
        namespace = self._pod.metadata.namespace
        volumes = (volume.persistent_volume_claim for volume in self._pod.spec.volumes)
        return tuple(f"{namespace}/{source.claim_name}" for source in volumes if source is not None)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """An ip "" is normalised to 0.0.0.0, a protocol "" to TCP."""
        spec = self._pod.spec
        sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
        return tuple(
            HostPort(p.host_ip or "0.0.0.0", p.protocol or "TCP", p.host_port)  # noqa: S104 - what "" stands for
            for container in (*spec.containers, *sidecars)
            for p in container.ports
            if p.host_port > 0
        )


class PerTemplate(Generic[T]):
    """What a rule derives from a pod, once a template; it must look at nothing that the template
    leaves out.
    """

    def __init__(self, derive: Callable[[Pod], T]) -> None:
        self._derive = derive
        self._derived: WeakKeyDictionary[PodTemplate, T] = WeakKeyDictionary()

    def __call__(self, template: PodTemplate, pod: Pod) -> T:
        try:
            return self._derived[template]
        except KeyError:
            derived = self._derived[template] = self._derive(pod)
            return derived


_templates: dict[bytes, PodTemplate] = {}
_held = [0]  # bytes of signatures
_latest: list[PodTemplate] = []  # the one that was met last: pods come in batches of one template


def template_of(pod: Pod) -> PodTemplate:
    """The template of a pod: the same object for pods that differ in nothing that it stands for."""
    if _latest and _latest[0].is_of(pod):
        return _latest[0]
    signature = _signature(pod)
    template = _templates.get(signature)
    if template is None:
        _held[0] += len(signature)
        if len(_templates) >= MOST_TEMPLATES or _held[0] > MOST_BYTES:
            for oldest in list(_templates)[: len(_templates) // 2 + 1]:
                _held[0] -= len(oldest)
                del _templates[oldest]
        template = _templates[signature] = PodTemplate(pod)
    _latest[:] = [template]
    return template


def same_template(one: Pod, other: Pod) -> bool:
    """Whether two pods are of one template for certain; most of what they have in common is mostly
    the same object.
    """
    mine, its = one.metadata, other.metadata
    return (
        mine.namespace == its.namespace
        and mine.labels == its.labels
        and mine.annotations == its.annotations
        and not _is_resized(one)
        and not _is_resized(other)
        and (one.spec is other.spec or bool(_SPEC(one.spec) == _SPEC(other.spec)))
    )


def _is_resized(pod: Pod) -> bool:
    """Whether the status says of the pod's resources what the spec does not."""
    status = pod.status
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources
        or status.allocated_resources
    )


def _signature(pod: Pod) -> bytes:
    metadata, status = pod.metadata, pod.status
    fields = (metadata.namespace, metadata.labels, metadata.annotations, _SPEC(pod.spec))
    if _is_resized(pod):
        return _ENCODER.encode((*fields, _RESIZE(status), resize_is_infeasible(pod)))
    return _ENCODER.encode(fields)
