"""PodInfo: a pod with what scheduling derives from it once, instead of once a node.

Mirrors the framework's PodInfo. Immutable; made when a pod enters the queue or the cache.
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

MOST_ASKED_ABOUT = 1024


class PodInfo:
    """A pod, its key (namespace/name), and what it asks for, which it shares with the other pods of
    its template.
    """

    __slots__ = ("_started", "key", "pod", "priority", "template", "uid")

    def __init__(self, pod: Pod, before: PodInfo | None = None) -> None:
        """`before` is the same pod as it was: what has not changed need not be worked out again."""
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
        """What selectors look at."""
        return self.template.terminating_group if self._terminates() else self.template.group

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
        """What the pod asks of other pods. Raises SelectorError."""
        return self.template.affinity_terms

    @property
    def host_ports(self) -> tuple[HostPort, ...]:
        return self.template.host_ports

    @property
    def started(self) -> float:
        """When the kubelet took the pod, in seconds since 1970; infinity if it has not, which is
        later than any.
        """
        started = self._started
        if started is None:
            text = self.pod.status.start_time
            started = self._started = inf if text is None else seconds_of(text)
        return started

    def counts_like(self, other: PodInfo) -> bool:
        """True if no sum over pods, no count of them and no comparison of victims can tell the two
        apart.
        """
        mine, its = self.pod, other.pod
        alike = self.template is other.template and self._terminates() == other._terminates()
        return alike and (
            mine.status.start_time == its.status.start_time or self.started == other.started
        )

    def _terminates(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


_asked_about: dict[int, PodInfo] = {}


def info_of(pod: Pod) -> PodInfo:
    """The PodInfo of a pod that is asked about again and again, as parked pods are by hints; the
    latest are kept.
    """
    number = id(pod)
    info = _asked_about.get(number)
    if info is None or info.pod is not pod:
        if len(_asked_about) >= MOST_ASKED_ABOUT:
            for oldest in list(_asked_about)[: MOST_ASKED_ABOUT // 2]:
                del _asked_about[oldest]
        info = _asked_about[number] = PodInfo(pod)
    return info
