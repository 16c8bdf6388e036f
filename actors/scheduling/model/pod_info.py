"""PodInfo: a pod with values that are derived from it once, instead of once for each node.

Mirrors the framework's PodInfo. Immutable; created when a pod enters the queue or the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import msgspec
from msgspec.structs import force_setattr

from ..kube.claims import named_claims
from ..kube.core import Pod
from ..kube.meta import key
from ..kube.times import seconds_of
from .pod_template import GroupKey, PodTemplate, Templates, same_template

MAX_KEPT = 1024
NO_TEMPLATE = PodTemplate(Pod())


class PodInfo(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod, its key (namespace/name), and the requirements that it shares with its template.

    `template` is one that other pods share; without it the pod gets a new one. The other fields
    are made from the pod.
    """

    pod: Pod
    template: PodTemplate = NO_TEMPLATE
    key: str = ""
    uid: str = ""
    priority: int = 0
    _started: float | None = None

    def __post_init__(self) -> None:
        if self.key:
            return  # Its maker has given all.
        pod = self.pod
        if self.template is NO_TEMPLATE:
            force_setattr(self, "template", PodTemplate(pod))
        force_setattr(self, "key", key(pod))
        force_setattr(self, "uid", pod.metadata.uid)
        force_setattr(self, "priority", pod.spec.priority or 0)

    @property
    def group(self) -> GroupKey:
        """The namespace and labels, for selectors, and whether the pod is terminating."""
        terminates = self.pod.metadata.deletion_timestamp is not None
        return self.template.terminating_group if terminates else self.template.group

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims (namespace/name) that the volumes name; one entry for each volume."""
        if not self.template.names_claims:
            return ()
        namespace = self.pod.metadata.namespace
        return tuple([f"{namespace}/{name}" for name in named_claims(self.pod)])

    @property
    def requests(self) -> Mapping[str, int]:
        return self.template.requests

    @property
    def started(self) -> float:
        """When the kubelet accepted the pod, in seconds since 1970; infinity if it has not yet."""
        started = self._started
        if started is None:
            text = self.pod.status.start_time
            started = inf if text is None else seconds_of(text)
            force_setattr(self, "_started", started)
        return started

    def counts_like(self, other: PodInfo) -> bool:
        """True if two pods are equal in every sum and every count, and as victims of preemption."""
        if self.template is not other.template:
            return False
        mine, theirs = self.pod, other.pod
        terminates = mine.metadata.deletion_timestamp is not None
        if terminates != (theirs.metadata.deletion_timestamp is not None):
            return False
        if self.template.names_claims and self.claims != other.claims:
            return False
        return mine.status.start_time == theirs.status.start_time or self.started == other.started

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


class PodInfos:
    """The maker of the PodInfos of one owner; pods of one template share it."""

    def __init__(self) -> None:
        self._templates = Templates()

    def of(self, pod: Pod, before: PodInfo | None = None) -> PodInfo:
        """Returns the PodInfo of a pod, with the template of its earlier state `before` if that
        still applies.
        """
        if before is not None and same_template(before.pod, pod):
            template = before.template
        else:
            template = self._templates.of(pod)
        return PodInfo(pod, template, key(pod), pod.metadata.uid, pod.spec.priority or 0)


class LatestPodInfos:
    """The PodInfos of the pods that hints are about, except heavy ones.

    When there are MAX_KEPT, every other one is forgotten, and not the oldest half. Otherwise, if
    more pods than that were asked about in turn, each would be forgotten just before its turn.
    """

    def __init__(self) -> None:
        self._infos = PodInfos()
        self._kept: dict[int, PodInfo] = {}

    def of(self, pod: Pod) -> PodInfo:
        number = id(pod)
        info = self._kept.get(number)
        if info is None or info.pod is not pod:
            if len(self._kept) >= MAX_KEPT:
                for forgotten in list(self._kept)[::2]:
                    del self._kept[forgotten]
            info = self._infos.of(pod)
            if not info.template.is_heavy:
                self._kept[number] = info
        return info
