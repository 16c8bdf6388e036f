"""The choice of the container that the kernel kills when memory runs out, and the time of its
restart.

Mirrors GetContainerOOMScoreAdjust of pkg/kubelet/qos/policy.go, the score of the Linux kernel, and
the back-off of the kubelet. A container is killed if it exceeds its limit; if the containers of a
pod exceed the pod's, or all exceed the node's memory, that of the highest score is killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from berth.actors.scheduling.kube.core import Container, Pod, ResourceRequirements
from berth.actors.scheduling.kube.quantity import value

from ..usage_models import PodUsage
from .eviction_ranking import is_critical

GUARANTEED_ADJUST, BEST_EFFORT_ADJUST = -997, 1000
NODE_CRITICAL = "system-node-critical"
FIRST_BACKOFF_SECONDS, MOST_BACKOFF_SECONDS = 10.0, 300.0


class Victim(msgspec.Struct, frozen=True):
    """A container to kill. `of_node` is True if the node's memory has run out, and not only a limit
    is exceeded.
    """

    pod: Pod
    container: str
    of_node: bool = False


Used = Sequence[tuple[Pod, PodUsage]]


def score_adjust(pod: Pod, container: Container, qos: str, capacity: int) -> int:
    """Returns the kernel's oom_score_adj of a container on a node with this many bytes."""
    if is_critical(pod) and pod.spec.priority_class_name == NODE_CRITICAL:
        return GUARANTEED_ADJUST
    if qos == "Guaranteed":
        return GUARANTEED_ADJUST
    if qos == "BestEffort":
        return BEST_EFFORT_ADJUST
    request, shared = _request(container), _share_of_pod_requests(pod)
    if any(container is sidecar for sidecar in pod.spec.init_containers if _is_sidecar(sidecar)):
        request = max(request, min(map(_request, pod.spec.containers), default=0))
    adjust = 1000 - 1000 * (request + shared) // capacity
    return min(max(adjust, 1000 + GUARANTEED_ADJUST), BEST_EFFORT_ADJUST - 1)


def next_victim(used: Used, qos: dict[str, str], memory: int) -> Victim | None:
    """Returns the container to kill next; None if the memory is enough.

    `used` are the running pods, `qos` their classes by uid, `memory` the bytes of the node.
    """
    for pod, usage in used:
        name = beyond_limit(pod, usage, qos.get(pod.metadata.uid, ""), memory)
        if name:
            return Victim(pod, name)
    if not memory or sum(usage.memory for _, usage in used) <= memory:
        return None
    scores = [score for pod, usage in used for score in _scores(pod, usage, qos, memory)]
    if not scores:
        return None
    _, pod, name = max(scores, key=lambda score: score[0])
    return Victim(pod, name, of_node=True)


def restarts(pod: Pod, name: str) -> bool:
    """True if this container is started again after it was killed: always unless its own policy, or
    else the pod's, is Never.
    """
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    own = next(c.restart_policy for c in containers if c.name == name)
    return (own or pod.spec.restart_policy) != "Never"


class Restarts:
    """The times at which the killed containers of a node are started again, by pod and
    container.
    """

    def __init__(self) -> None:
        self._backoffs: dict[tuple[str, str], tuple[float, float]] = {}
        self._at: dict[tuple[str, str], float] = {}

    @property
    def next(self) -> float:
        return min(self._at.values(), default=float("inf"))

    def wait(self, uid: str, name: str, now: float) -> float:
        """Returns the seconds until the restart of a container that is killed now."""
        seconds, until = next_backoff(self._backoffs.get((uid, name)), now)
        self._backoffs[uid, name] = (seconds, until)
        if seconds:
            self._at[uid, name] = until
        return seconds

    def due(self, now: float) -> list[tuple[str, str]]:
        """Removes and returns the containers to start now."""
        due = [place for place, at in self._at.items() if at <= now]
        for place in due:
            del self._at[place]
        return due

    def forget(self, uid: str) -> None:
        for places in (self._backoffs, self._at):
            for place in [place for place in places if place[0] == uid]:
                del places[place]


def next_backoff(before: tuple[float, float] | None, now: float) -> tuple[float, float]:
    """Returns the seconds to wait before a restart, and the time until which this wait is
    remembered.

    `before` is the result for the last restart.
    """
    if before is None or now - before[1] > 2 * MOST_BACKOFF_SECONDS:
        return 0.0, now
    seconds = min(2 * before[0], MOST_BACKOFF_SECONDS) or FIRST_BACKOFF_SECONDS
    return seconds, now + seconds


def beyond_limit(pod: Pod, usage: PodUsage, qos: str, memory: int) -> str:
    """Returns the container to kill for a limit of its own or of its pod; "" if there is none."""
    in_effect = _resources_in_effect(pod)
    for used in usage.containers:
        limit = in_effect[used.name].limits.get("memory")
        if limit is not None and used.memory > value(limit) > 0:
            return used.name
    own = pod.spec.resources and (pod.status.resources or pod.spec.resources)
    limits = own.limits if own is not None else {}
    if "memory" not in limits or usage.memory <= value(limits["memory"]):
        return ""
    scores = _scores(pod, usage, {pod.metadata.uid: qos}, memory)
    return max(scores, key=lambda score: score[0], default=(0.0, pod, ""))[2]


def _resources_in_effect(pod: Pod) -> dict[str, ResourceRequirements]:
    """Returns the resources that containers have now, whatever a resize requests."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    of = {container.name: container.resources for container in containers}
    return of | {s.name: s.resources for s in statuses if s.resources is not None}


def _scores(
    pod: Pod, usage: PodUsage, qos: dict[str, str], memory: int
) -> Iterator[tuple[float, Pod, str]]:
    containers = {c.name: c for c in (*pod.spec.containers, *pod.spec.init_containers)}
    for used in usage.containers:
        if used.memory:
            adjust = score_adjust(
                pod, containers[used.name], qos.get(pod.metadata.uid, ""), memory or 1
            )
            yield used.memory + adjust * memory / 1000, pod, used.name


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _request(container: Container) -> int:
    return value(container.resources.requests.get("memory", 0))


def _share_of_pod_requests(pod: Pod) -> int:
    """Returns a container's share of the pod's own requests that its containers do not request."""
    requests = pod.spec.resources.requests if pod.spec.resources is not None else {}
    if "memory" not in requests:
        return 0
    containers = [*pod.spec.containers, *filter(_is_sidecar, pod.spec.init_containers)]
    left = value(requests["memory"]) - sum(map(_request, containers))
    return max(left, 0) // max(len(containers), 1)
