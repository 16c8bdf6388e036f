"""PodInfo: a pod with the values that scheduling derives from it once, instead of once for a node.

Mirrors the framework's PodInfo. Immutable; created when a pod enters the queue or the cache.
"""

from __future__ import annotations

from math import inf

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import key
from berth.actors.scheduling.kube.taints import Tolerations
from berth.actors.scheduling.kube.times import seconds_of
from berth.actors.scheduling.model.affinity_terms import AffinityTerms
from berth.actors.scheduling.model.pod_template import (
    GroupKey,
    HostPort,
    PodTemplate,
    same_template,
    template_of,
)

__all__ = ["GroupKey", "PodInfo", "info_of"]

MAX_KEPT = 1024


class PodInfo:
    """A pod, its key (namespace/name), and the requirements that it shares with its template."""

    __slots__ = ("_started", "key", "pod", "priority", "template", "uid")

    def __init__(self, pod: Pod, before: PodInfo | None = None) -> None:
        """`before` is an earlier state of the pod, whose template is reused if it still applies."""
        self.pod: Pod = pod
        if before is not None and same_template(before.pod, pod):
            self.template: PodTemplate = before.template
        else:
            self.template = template_of(pod)
        self._started: float | None = None
        self.key = key(pod)
        self.uid = pod.metadata.uid
        self.priority = pod.spec.priority or 0

    @property
    def group(self) -> GroupKey:
        """The namespace and labels, for selectors, and whether the pod is terminating."""
        return self.template.terminating_group if self._terminates() else self.template.group

    @property
    def claims(self) -> tuple[str, ...]:
        return self.template.claims

    @property
    def requests(self) -> dict[str, int]:
        return self.template.requests

    @property
    def spec_requests(self) -> dict[str, int]:
        return self.template.spec_requests

    @property
    def container_requests(self) -> dict[str, int]:
        return self.template.container_requests

    @property
    def scoring_requests(self) -> tuple[int, int]:
        return self.template.scoring_requests

    @property
    def tolerations(self) -> Tolerations:
        return self.template.tolerations

    @property
    def affinity_terms(self) -> AffinityTerms:
        """The pod's affinity and anti-affinity terms. Raises SelectorError."""
        return self.template.affinity_terms

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        return self.template.host_ports

    @property
    def started(self) -> float:
        """When the kubelet accepted the pod, in seconds since 1970; infinity if it has not yet."""
        started = self._started
        if started is None:
            text = self.pod.status.start_time
            started = self._started = inf if text is None else seconds_of(text)
        return started

    def counts_like(self, other: PodInfo) -> bool:
        """True if the two pods are alike in every sum, every count, and as preemption victims."""
        mine, its = self.pod, other.pod
        alike = self.template is other.template and self._terminates() == other._terminates()
        return alike and (
            mine.status.start_time == its.status.start_time or self.started == other.started
        )

    def _terminates(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


_kept: dict[int, PodInfo] = {}


def info_of(pod: Pod) -> PodInfo:
    """Returns the PodInfo of a pod, and keeps it for the next call.

    Hints call this again and again for the same parked pods. The MAX_KEPT // 2 latest are kept at
    least.
    """
    number = id(pod)
    info = _kept.get(number)
    if info is None or info.pod is not pod:
        if len(_kept) >= MAX_KEPT:
            for oldest in list(_kept)[: MAX_KEPT // 2]:
                del _kept[oldest]
        info = _kept[number] = PodInfo(pod)
    return info
