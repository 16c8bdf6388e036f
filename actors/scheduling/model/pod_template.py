"""PodTemplate: the values that pods of one template have in common, derived once for all of them.

Pods are of one template if their namespaces, labels, annotations and specs are equal; the node and
the names of their claims, for volumes and for devices, do not count, because each replica has
claims of its own.
A rule that reads only what they share decides the same for them. Mirrors kube-scheduler's
signature of a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from ..kube.core import PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume
from ..kube.csi_translation import in_tree_plugin
from ..kube.devices import may_be_devices
from ..kube.labels import SelectorError
from ..kube.meta import ObjectMeta, own
from ..kube.requests import nonzero_requests, pod_requests, reports_resources, resize_of
from ..kube.taints import Tolerations
from .affinity_terms import AffinityTerms, terms_of
from .derived import derived_once
from .interner import LONGEST
from .many_terms import (
    NO_CARRIED_TERMS,
    CarriedTerms,
    few_terms_of,
    has_many_terms,
    many_terms_of,
)

T = TypeVar("T")

_SPEC_FIELDS = own(PodSpec, *(name for name in PodSpec.__struct_fields__ if name != "node_name"))
_LEFT_OUT = ("node_name", "volumes", "resource_claims")
_FIELDS_BUT_CLAIMS = own(
    PodSpec, *(name for name in PodSpec.__struct_fields__ if name not in _LEFT_OUT)
)
_OF_METADATA = own(ObjectMeta, "namespace", "labels", "annotations")
_ENCODER = msgspec.msgpack.Encoder(enc_hook=dict)
LARGE = 1 << 14  # bytes of what scheduling reads of a pod; most pods have a few hundred
SMALL = 64  # so many values of a pod are counted as fast as the pod itself
WILDCARD_IP = "0.0.0.0"  # noqa: S104 - a host port without hostIP, not a listening socket
MOST_KEPT = 256  # templates without pods
MOST_BYTES = 1 << 18  # of what scheduling reads of them
UNKNOWN = 1 << 20  # more volumes than any node attaches


class HostPort(msgspec.Struct, frozen=True, cache_hash=True):
    """A port that a pod claims on its node."""

    ip: str
    protocol: str
    port: int


class Disk(msgspec.Struct, frozen=True, cache_hash=True):
    """A disk that a pod names directly. Pods on one node cannot share it, unless all of them only
    read it. `identity` is the kind of disk and its identifier within the kind.
    """

    identity: tuple[str, ...]
    read_only: bool

    @property
    def conflicting(self) -> tuple[Disk, ...]:
        """The uses of the disk by other pods that conflict with this use."""
        if self.read_only:
            return (Disk(self.identity, read_only=False),)
        return (self, Disk(self.identity, read_only=True))


class Values(msgspec.Struct, frozen=True):
    """The values of a pod that are counted one by one on its node."""

    requests: Mapping[str, int]
    ports: Sequence[HostPort]
    disks: Sequence[Disk]


class GroupKey(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The part of a pod that selectors look at. `labels` are sorted by key."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    terminating: bool


class Signature(NamedTuple):
    """The hash of a template, and in bytes the size of its spec and of all that it consists of, as
    far as scheduling reads it.
    """

    number: int
    size: int
    total: int


class PodTemplate:
    """Values derived from a pod that hold for all pods of its template.

    `requests` are the amounts that a pod takes on its node: cpu in thousandths of a core, all else
    in whole units. `nonzero` is (milli-CPU, bytes of memory) with the defaults for containers that
    request nothing. Only the spec of a pod without a node counts: it cannot have been resized. Two
    templates of equal pods are equal, but derive their values separately. `derived` is for
    PerTemplate and others that derive a value, by the owner of the value.
    """

    def __init__(self, pod: Pod, signature: Signature | None = None) -> None:
        """Makes the template of a pod. `signature` is the pod's, if it is known."""
        self._pod = pod
        self._signature = signature
        self.derived: dict[object, Any] = {}

    def __hash__(self) -> int:
        signature = self._signature
        return (self._sign() if signature is None else signature).number

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PodTemplate) and self.is_of(other._pod))

    def _sign(self) -> Signature:
        encoded, size = _encoded(self._pod)
        self._signature = Signature(hash(encoded), size, len(encoded))
        return self._signature

    @derived_once
    def is_large(self) -> bool:
        """True if the pods may take long to decide about."""
        return (self._signature or self._sign()).size > LARGE

    @derived_once
    def is_heavy(self) -> bool:
        """True if few such templates should be kept without pods."""
        return self.size > LONGEST

    @property
    def size(self) -> int:
        """The bytes of all that scheduling reads of a pod of the template."""
        return (self._signature or self._sign()).total

    def is_of(self, pod: Pod) -> bool:
        """True if a pod is certainly of this template."""
        return same_template(self._pod, pod)

    @derived_once
    def requests(self) -> Mapping[str, int]:
        return MappingProxyType(self._requests)

    @derived_once
    def _requests(self) -> Mapping[str, int]:
        return pod_requests(self._pod)

    @derived_once
    def nonzero(self) -> tuple[int, int]:
        return nonzero_requests(self._pod)

    @derived_once
    def spec_requests(self) -> Mapping[str, int]:
        """The requests that NodeResourcesFit compares with nodes. They ignore the status."""
        if not reports_resources(self._pod.status):
            return self.requests
        return MappingProxyType(pod_requests(self._pod, status=False))

    @derived_once
    def container_requests(self) -> Mapping[str, int]:
        """The requests of the containers, without the pod's own `spec.resources`, as
        NodeResourcesFit scores them.
        """
        if self._pod.spec.resources is None:
            return self.spec_requests
        return MappingProxyType(pod_requests(self._pod, pod_level=False, status=False))

    @derived_once
    def scoring_requests(self) -> tuple[int, int]:
        """The requests for scores: `nonzero` by the spec, without the status and the pod's own
        `spec.resources`.
        """
        if self._pod.spec.resources is None and not reports_resources(self._pod.status):
            return self.nonzero
        return nonzero_requests(self._pod, pod_level=False, status=False)

    @derived_once
    def tolerations(self) -> Tolerations:
        return Tolerations(self._pod.spec.tolerations)

    @derived_once
    def affinity_terms(self) -> AffinityTerms:
        """The affinity terms of the pods. Raises SelectorError."""
        return terms_of(self._pod)

    @derived_once
    def carried_terms(self) -> CarriedTerms:
        """The affinity terms of the pods, for other pods. Raises SelectorError."""
        if self._pod.spec.affinity is None:
            return NO_CARRIED_TERMS
        if has_many_terms(self._pod):
            return many_terms_of(self._pod)
        return few_terms_of(terms_of(self._pod))

    def read_terms(self) -> None:
        """Derives `carried_terms`, unless they cannot be read."""
        if self._pod.spec.affinity is not None:
            with suppress(SelectorError):
                _ = self.carried_terms

    @derived_once
    def group(self) -> GroupKey:
        """The group of the pods that do not terminate."""
        return self._group(terminating=False)

    @derived_once
    def terminating_group(self) -> GroupKey:
        return self._group(terminating=True)

    def _group(self, *, terminating: bool) -> GroupKey:
        metadata = self._pod.metadata
        return GroupKey(metadata.namespace, tuple(sorted(metadata.labels.items())), terminating)

    @derived_once
    def names_claims(self) -> bool:
        """True if a volume names a PersistentVolumeClaim."""
        return any(v.persistent_volume_claim is not None for v in self._pod.spec.volumes)

    @derived_once
    def most_volumes(self) -> int:
        """The most volumes that a pod can attach; UNKNOWN if some volumes do not belong to claims
        that the pod names.
        """
        named = sum(v.persistent_volume_claim is not None for v in self._pod.spec.volumes)
        others = any(v.ephemeral is not None or in_tree_plugin(v) for v in self._pod.spec.volumes)
        return UNKNOWN if others else named

    @derived_once
    def attaches(self) -> bool:
        """True if a volume may be attached to the node."""
        return any(map(may_attach, self._pod.spec.volumes))

    @derived_once
    def asks_devices(self) -> bool:
        """True if the pods have ResourceClaims, or request resources that devices may provide."""
        return bool(self._pod.spec.resource_claims) or any(
            amount and may_be_devices(name) for name, amount in self.requests.items()
        )

    @derived_once
    def has_own_claims(self) -> bool:
        """True if a rule must look at the claims of each single pod, for volumes or for devices."""
        return self.attaches or self.asks_devices

    @derived_once
    def disks(self) -> tuple[Disk, ...]:
        """The disks of the volumes. An RBD image is a disk for each of its monitors: two images are
        the same if they have a monitor in common.
        """
        return tuple(disk for volume in self._pod.spec.volumes for disk in _disks_of(volume))

    @derived_once
    def conflicting_disks(self) -> tuple[Disk, ...]:
        """The uses of disks by other pods with which the pods conflict."""
        return tuple(use for disk in self.disks for use in disk.conflicting)

    @derived_once
    def values(self) -> Values:
        """The values that are counted when a pod comes to a node or leaves it."""
        return Values(self._requests, self.host_ports, self.disks)

    @derived_once
    def excess(self) -> int:
        """The number of `values` beyond SMALL."""
        return max(len(self.requests) + len(self.host_ports) + len(self.disks) - SMALL, 0)

    @derived_once
    def volumes_excess(self) -> int:
        """The number of volumes beyond SMALL."""
        return max(len(self._pod.spec.volumes) - SMALL, 0)

    def values_for(self, other: PodTemplate) -> Values:
        """Returns the values that another pod's filters compare: the resources, ports and disks
        that both have.
        """
        resources = self.requests.keys() & (other.requests.keys() | other.spec_requests.keys())
        requests = {name: self.requests[name] for name in resources}
        ports: list[HostPort] = []
        if other.host_ports:
            for number in self._ports_by_number.keys() & other._ports_by_number.keys():
                ports += self._ports_by_number[number]
        disks: list[Disk] = []
        if other.disks:
            for identity in self._disks_by_identity.keys() & other._disks_by_identity.keys():
                disks += self._disks_by_identity[identity]
        return Values(requests, ports, disks)

    def values_if_added(self, other: PodTemplate) -> Values:
        """Returns `values_for` the other pod, for a case in which pods are only added to nodes.

        Of the ports and disks it has only one that conflicts with the other pod, because one is as
        decisive as all.
        """
        resources = self.requests.keys() & (other.requests.keys() | other.spec_requests.keys())
        requests = {name: self.requests[name] for name in resources}
        ports = self._port_in_conflict(other) if other.host_ports else ()
        held = filter(self._disk_set.__contains__, other.conflicting_disks)
        return Values(requests, ports, tuple(islice(held, 1)))

    def _port_in_conflict(self, other: PodTemplate) -> tuple[HostPort, ...]:
        """Returns one of the host ports that conflicts with another pod's, if there is one."""
        for port in filter(other._port_set.__contains__, self.host_ports):
            return (port,)
        for number in other._numbers_on_any_ip:
            if number in self._ports_by_number:
                return (self._ports_by_number[number][0],)
        for number in self._numbers_on_any_ip:
            if number in other._ports_by_number:
                return (HostPort(WILDCARD_IP, *number),)
        return ()

    @derived_once
    def _port_set(self) -> frozenset[HostPort]:
        return frozenset(self.host_ports)

    @derived_once
    def _numbers_on_any_ip(self) -> list[tuple[str, int]]:
        return [(port.protocol, port.port) for port in self.host_ports if port.ip == WILDCARD_IP]

    @derived_once
    def _disk_set(self) -> frozenset[Disk]:
        return frozenset(self.disks)

    @derived_once
    def _ports_by_number(self) -> dict[tuple[str, int], list[HostPort]]:
        by_number: dict[tuple[str, int], list[HostPort]] = {}
        for port in self.host_ports:
            by_number.setdefault((port.protocol, port.port), []).append(port)
        return by_number

    @derived_once
    def _disks_by_identity(self) -> dict[tuple[str, ...], list[Disk]]:
        by_identity: dict[tuple[str, ...], list[Disk]] = {}
        for disk in self.disks:
            by_identity.setdefault(disk.identity, []).append(disk)
        return by_identity

    @derived_once
    def host_ports(self) -> tuple[HostPort, ...]:
        """The host ports. An ip "" is normalised to 0.0.0.0, a protocol "" to TCP."""
        spec = self._pod.spec
        sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
        return tuple(
            HostPort(p.host_ip or WILDCARD_IP, p.protocol or "TCP", p.host_port)
            for container in (*spec.containers, *sidecars)
            for p in container.ports
            if p.host_port > 0
        )


def may_attach(volume: Volume) -> bool:
    """True if a volume may be attached to the node: if it has a claim, or is a cloud disk."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or in_tree_plugin(volume) is not None
    )


def _disks_of(volume: Volume) -> Iterator[Disk]:
    gce, aws, rbd = volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd
    if gce is not None:
        yield Disk(("gce", gce.pd_name), gce.read_only)
    if aws is not None:
        yield Disk(("aws", aws.volume_id), read_only=False)
    if volume.iscsi is not None:
        yield Disk(("iscsi", volume.iscsi.iqn), volume.iscsi.read_only)
    if rbd is not None:
        for monitor in rbd.monitors:
            yield Disk(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)


class PerTemplate(Generic[T]):
    """A value that a rule derives from a pod, once for each template.

    It must not depend on anything that the template leaves out.
    """

    def __init__(self, derive: Callable[[Pod], T]) -> None:
        self._derive = derive

    def __call__(self, template: PodTemplate, pod: Pod) -> T:
        try:
            derived: T = template.derived[self]
        except KeyError:
            derived = template.derived[self] = self._derive(pod)
        return derived


class Templates:
    """The templates of one owner's pods. Pods that a template does not tell apart get the same
    object.

    A template is kept as long as one of its pods. So are the latest ones, for the next pods, up to
    a number and a size, unless they are heavy: rules may keep an array over all nodes for each.
    """

    def __init__(self) -> None:
        self._templates: WeakValueDictionary[bytes, PodTemplate] = WeakValueDictionary()
        self._kept: dict[bytes, PodTemplate] = {}
        self._bytes = 0  # of the keys of these
        self._latest: PodTemplate | None = None  # pods come in batches of one template

    def of(self, pod: Pod) -> PodTemplate:
        if self._latest is None or not self._latest.is_of(pod):
            encoded, size = _encoded(pod)
            template = self._templates.get(encoded)
            if template is None:
                template = PodTemplate(pod, Signature(hash(encoded), size, len(encoded)))
                self._templates[encoded] = template
            if not template.is_heavy:
                self._keep(encoded, template)
            self._latest = template
        return self._latest

    def _keep(self, encoded: bytes, template: PodTemplate) -> None:
        if self._kept.pop(encoded, None) is None:
            self._bytes += len(encoded)
        self._kept[encoded] = template
        while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES:
            oldest = next(iter(self._kept))
            self._bytes -= len(oldest)
            del self._kept[oldest]


def same_template(pod: Pod, other: Pod) -> bool:
    """True if two pods are certainly of one template. Equal parts are mostly the same objects."""
    return (
        bool(_OF_METADATA(pod.metadata) == _OF_METADATA(other.metadata))
        and not reports_resources(pod.status)
        and not reports_resources(other.status)
        and (pod.spec is other.spec or _same_spec(pod.spec, other.spec))
    )


def _same_spec(spec: PodSpec, other: PodSpec) -> bool:
    """True if two specs differ in nothing but the node and the names of claims."""
    if spec.volumes != other.volumes and _without_claim_names(spec.volumes) != _without_claim_names(
        other.volumes
    ):
        return False
    if spec.resource_claims != other.resource_claims and _claims_without_names(
        spec
    ) != _claims_without_names(other):
        return False
    return bool(_FIELDS_BUT_CLAIMS(spec) == _FIELDS_BUT_CLAIMS(other))


_ANY_CLAIM = {
    read_only: PersistentVolumeClaimVolumeSource(read_only=read_only) for read_only in (False, True)
}


def _without_claim_names(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Returns the volumes with the names of their claims removed."""
    if all(volume.persistent_volume_claim is None for volume in volumes):
        return volumes
    return tuple(
        [
            volume
            if volume.persistent_volume_claim is None
            else msgspec.structs.replace(
                volume,
                persistent_volume_claim=_ANY_CLAIM[volume.persistent_volume_claim.read_only],
            )
            for volume in volumes
        ]
    )


def _claims_without_names(spec: PodSpec) -> tuple[tuple[str, bool], ...]:
    """Returns the ResourceClaims without their names, and whether each is made from a template."""
    return tuple((claim.name, claim.resource_claim_name is None) for claim in spec.resource_claims)


def spec_key(spec: PodSpec) -> bytes:
    """Returns a spec without its node, encoded: equal for equal specs."""
    return _ENCODER.encode(_SPEC_FIELDS(spec))


def _encoded(pod: Pod) -> tuple[bytes, int]:
    """Returns the encoded values by which templates differ, and how many of the bytes belong to the
    spec.
    """
    fields: tuple[object, ...] = _OF_METADATA(pod.metadata)
    if reports_resources(pod.status):
        fields = (*fields, resize_of(pod))
    parts = (
        _FIELDS_BUT_CLAIMS(pod.spec),
        _without_claim_names(pod.spec.volumes),
        _claims_without_names(pod.spec),
    )
    spec = _ENCODER.encode(parts)
    return _ENCODER.encode(fields) + spec, len(spec)
