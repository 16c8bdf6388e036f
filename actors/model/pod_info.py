"""PodInfo: a pod with what scheduling derives from it once, instead of once a node.

Mirrors the framework's PodInfo. Immutable; made when a pod enters the queue or the cache.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from actors.kube.core import Pod
from actors.kube.meta import key
from actors.kube.requests import nonzero_requests, pod_requests
from actors.model.affinity_terms import AffinityTerms, terms_of


class GroupKey(msgspec.Struct, frozen=True):
    """What selectors look at. `labels` are sorted by key."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    terminating: bool


class HostPort:
    """A port that a pod claims on its node; ip "" is normalised to 0.0.0.0 and protocol "" to TCP."""

    __slots__ = ("ip", "port", "protocol")

    def __init__(self, ip: str, protocol: str, port: int) -> None:
        self.ip = ip or "0.0.0.0"  # noqa: S104 - the wildcard address is what the empty hostIP means
        self.protocol = protocol or "TCP"
        self.port = port


class PodInfo:
    """A pod, its key, its requests and its host ports.

    `requests` are what NodeResourcesFit counts: cpu in thousandths of a core, all else in whole units.
    `nonzero` is (milli-CPU, bytes of memory) with the defaults for containers that request nothing.
    """

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.key = key(pod)
        self.uid = pod.metadata.uid
        self.priority = pod.spec.priority or 0

    @cached_property
    def requests(self) -> dict[str, int]:
        return pod_requests(self.pod)

    @cached_property
    def nonzero(self) -> tuple[int, int]:
        return nonzero_requests(self.pod)

    @cached_property
    def container_requests(self) -> dict[str, int]:
        """The requests without regard to the pod's own `spec.resources`, which scoring ignores."""
        return pod_requests(self.pod, pod_level=False)

    @cached_property
    def scoring_requests(self) -> tuple[int, int]:
        """`nonzero` without regard to the pod's own `spec.resources`."""
        return nonzero_requests(self.pod, pod_level=False)

    @cached_property
    def affinity_terms(self) -> AffinityTerms:
        """What the pod asks of other pods. Raises SelectorError."""
        return terms_of(self.pod)

    @cached_property
    def group(self) -> GroupKey:
        """What selectors look at."""
        metadata = self.pod.metadata
        labels = tuple(sorted(metadata.labels.items()))
        return GroupKey(metadata.namespace, labels, metadata.deletion_timestamp is not None)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        spec = self.pod.spec
        sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
        return tuple(
            HostPort(p.host_ip, p.protocol, p.host_port)
            for container in (*spec.containers, *sidecars)
            for p in container.ports
            if p.host_port > 0
        )

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"
