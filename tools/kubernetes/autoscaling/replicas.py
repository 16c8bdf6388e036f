"""The number of replicas that a metric asks for. Mirrors the replica calculator of the
podautoscaler.

Amounts are in thousandths, times in seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil

import msgspec

from berth.actors.scheduling.kube.quantity import milli_value
from berth.actors.scheduling.kube.requests import pod_requests
from berth.actors.scheduling.kube.times import seconds_of

from ..objects.properties import condition_of, deleting, phase_of
from ..objects.structs import Pod

INITIALIZATION_SECONDS = 300  # after the start of a pod, in which its usage of cpu may mislead
READINESS_DELAY_SECONDS = 30  # after the start of a pod, in which it may become ready at first


class NoMetricsError(Exception):
    """The metric gives no number of replicas; the message says why."""


class PodMetric(msgspec.Struct, frozen=True):
    value: int
    at: float = 0.0
    window: float = 0.0


class Tolerances(msgspec.Struct, frozen=True):
    """The distances of usage/target from 1 within which nothing is scaled, up and down."""

    down: float = 0.1
    up: float = 0.1

    def include(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(msgspec.Struct, frozen=True):
    """The replicas that a metric asks for, its average, and its utilization in percent."""

    replicas: int
    average: int
    utilization: int | None = None


class Goal(msgspec.Struct, frozen=True):
    """The desired average: in thousandths, or in percent of the requests of each pod."""

    amount: int
    requests: Mapping[str, int] | None = None

    def ratio(self, metrics: Mapping[str, PodMetric]) -> tuple[float, int, int | None]:
        """Returns usage over target, the average, and the utilization. Raises NoMetricsError."""
        total = sum(metric.value for metric in metrics.values())
        average = total // len(metrics)
        if self.requests is None:
            return average / self.amount, average, None
        requested = sum(self.requests[name] for name in metrics)
        if requested == 0:
            raise NoMetricsError("no metrics returned matched known pods")
        utilization = total * 100 // requested
        return utilization / self.amount, average, utilization

    def assumed(self, name: str) -> int:
        """Returns the usage that is assumed for a pod without a metric when the others use too
        little.
        """
        if self.requests is None:
            return self.amount
        return self.requests[name] * max(100, self.amount) // 100


class _Groups(msgspec.Struct, frozen=True):
    """The pods by what their metrics are worth: counted, unready, without a metric, or ignored."""

    ready: int
    unready: Sequence[str]
    missing: Sequence[str]
    ignored: Sequence[str]


def propose(
    pods: Sequence[Pod],
    metrics: Mapping[str, PodMetric],
    resource: str,
    goal_of: Callable[[], Goal],
    current: int,
    tolerances: Tolerances,
    now: float,
) -> Proposal:
    """Returns the replicas for the metrics of pods, by name. Raises NoMetricsError.

    `goal_of` may raise it too, and is asked once some pods have metrics that count.
    """
    if not pods:
        raise NoMetricsError("no pods returned by selector while calculating replica count")
    groups = _groups_of(pods, metrics, resource, now)
    left = {*groups.ignored, *groups.unready}
    counted = {name: metric for name, metric in metrics.items() if name not in left}
    if not counted:
        raise NoMetricsError("did not receive metrics for targeted pods (pods might be unready)")
    goal = goal_of()
    ratio, average, utilization = goal.ratio(counted)
    unchanged = Proposal(current, average, utilization)
    counts_unready = bool(groups.unready) and ratio > 1.0
    if not counts_unready and not groups.missing:
        if tolerances.include(ratio):
            return unchanged
        return Proposal(ceil(ratio * groups.ready), average, utilization)
    if ratio < 1.0:
        counted |= {name: PodMetric(goal.assumed(name)) for name in groups.missing}
    elif ratio > 1.0:
        counted |= dict.fromkeys(groups.missing, PodMetric(0))
    if counts_unready:
        counted |= dict.fromkeys(groups.unready, PodMetric(0))
    corrected, _, _ = goal.ratio(counted)
    turned = (ratio < 1.0 < corrected) or (corrected < 1.0 < ratio)
    if turned or tolerances.include(corrected):
        return unchanged
    replicas = ceil(corrected * len(counted))
    if (corrected < 1.0 and replicas > current) or (corrected > 1.0 and replicas < current):
        return unchanged
    return Proposal(replicas, average, utilization)


def requests_of(pods: Iterable[Pod], container: str, resource: str) -> dict[str, int]:
    """Returns the requests of each pod, or of its container of this name. Raises NoMetricsError."""
    return {pod.metadata.name: _request(pod, container, resource) for pod in pods}


def _request(pod: Pod, container: str, resource: str) -> int:
    name = pod.metadata.name
    if not container and pod.spec.resources is not None and pod.spec.resources.requests:
        amounts = pod_requests(pod, status=False)
        if resource not in amounts:
            raise NoMetricsError(f"missing pod-level request for {resource} in Pod {name}")
        return amounts[resource] * (1 if resource == "cpu" else 1000)
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    total = 0
    for each in (*pod.spec.containers, *sidecars):
        if container not in ("", each.name):
            continue
        if resource not in each.resources.requests:
            what = f"{resource} in container {each.name} of Pod {name}"
            raise NoMetricsError(f"missing request for {what}")
        total += milli_value(each.resources.requests[resource])
        if container:
            return total
    if container:
        raise NoMetricsError(f"container {container} not found in Pod {name}")
    return total


def _groups_of(
    pods: Iterable[Pod], metrics: Mapping[str, PodMetric], resource: str, now: float
) -> _Groups:
    ready, unready, missing, ignored = 0, list[str](), list[str](), list[str]()
    for pod in pods:
        name, phase = pod.metadata.name, phase_of(pod)
        metric = metrics.get(name)
        if deleting(pod) or phase == "Failed":
            ignored.append(name)
        elif phase == "Pending":
            unready.append(name)
        elif metric is None:
            missing.append(name)
        elif resource == "cpu" and _is_misleading(pod, metric, now):
            unready.append(name)
        else:
            ready += 1
    return _Groups(ready, unready, missing, ignored)


def _is_misleading(pod: Pod, metric: PodMetric, now: float) -> bool:
    """True if the pod was not ready for all of the time over which its cpu usage was measured."""
    condition, started = condition_of(pod.status.conditions, "Ready"), pod.status.start_time
    if condition is None or not started:
        return True
    start, unready = seconds_of(started), condition.status == "False"
    since = seconds_of(condition.last_transition_time) if condition.last_transition_time else 0.0
    if start + INITIALIZATION_SECONDS > now:
        return unready or metric.at < since + metric.window
    return unready and start + READINESS_DELAY_SECONDS > since
