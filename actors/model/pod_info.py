"""PodInfo: a pod with what scheduling derives from it once, instead of once a node.

Mirrors the framework's PodInfo. Immutable; made when a pod enters the queue or the cache.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from math import inf

import msgspec

from actors.kube.core import Pod
from actors.kube.meta import key
from actors.model.affinity_terms import AffinityTerms
from actors.model.pod_template import HostPort, PodTemplate, template_of


class GroupKey(msgspec.Struct, frozen=True):
    """What selectors look at. `labels` are sorted by key."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    terminating: bool


class PodInfo:
    """A pod, its key (namespace/name), and what it asks for, which it shares with the other pods of its template."""

    __slots__ = ("__dict__", "key", "pod", "priority", "uid")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.key = key(pod)
        self.uid = pod.metadata.uid
        self.priority = pod.spec.priority or 0

    @cached_property
    def template(self) -> PodTemplate:
        return template_of(self.pod)

    @cached_property
    def group(self) -> GroupKey:
        """What selectors look at."""
        metadata = self.pod.metadata
        return GroupKey(metadata.namespace, self.template.sorted_labels, metadata.deletion_timestamp is not None)

    @property
    def claims(self) -> tuple[str, ...]:
        return self.template.claims

    @property
    def requests(self) -> dict[str, int]:
        return self.template.requests

    @property
    def nonzero(self) -> tuple[int, int]:
        return self.template.nonzero

    @property
    def container_requests(self) -> dict[str, int]:
        return self.template.container_requests

    @property
    def scoring_requests(self) -> tuple[int, int]:
        return self.template.scoring_requests

    @property
    def affinity_terms(self) -> AffinityTerms:
        """What the pod asks of other pods. Raises SelectorError."""
        return self.template.affinity_terms

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        return self.template.host_ports

    @cached_property
    def started(self) -> float:
        """When the kubelet took the pod, in seconds since 1970; infinity if it has not, which is later than any."""
        text = self.pod.status.start_time
        return inf if text is None else datetime.fromisoformat(text).timestamp()

    def counts_like(self, other: PodInfo) -> bool:
        """True if no sum over pods, no count of them and no comparison of victims can tell the two apart."""
        alike = self.template is other.template and self.group.terminating == other.group.terminating
        return alike and self.started == other.started

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"
