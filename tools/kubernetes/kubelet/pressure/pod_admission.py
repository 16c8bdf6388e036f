"""The pods that a kubelet rejects although they are bound to its node, and those that a critical
pod preempts.

Mirrors pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/preemption, and Admit of the eviction
manager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Address

import msgspec

from berth.actors.scheduling.kube.core import Node, Taint
from berth.actors.scheduling.kube.node_selector import node_selector_matches
from berth.actors.scheduling.kube.quantity import milli_value, value
from berth.actors.scheduling.kube.requests import pod_requests
from berth.actors.scheduling.kube.taints import tolerates_any

from ...objects.structs import Pod
from ..resizing.allocation import Allocation, requests_changed
from ..resizing.resizes import INFEASIBLE
from .eviction_ranking import is_critical, is_static
from .messages import EVICTED
from .thresholds import MEMORY_PRESSURE

PREEMPTING, PREEMPTED = "Preempting", "Preempted in order to admit critical pod"
MOST_PODS = 110  # of a kubelet, by default
_OS = "kubernetes.io/os"  # a label
_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")
_ORDER = ("BestEffort", "Burstable", "Guaranteed")
_STATIC_MANAGERS = (("cpu", "CPU", "static"), ("memory", "Memory", "Static"))
Amounts = Mapping[str, int]


class Rejection(msgspec.Struct, frozen=True):
    reason: str
    message: str


class Shortage(msgspec.Struct, frozen=True):
    """A resource of which less is left than a pod requests. Cpu is in thousandths."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        return self.requested - (self.capacity - self.used)

    def rejection(self) -> Rejection:
        return Rejection(
            f"OutOf{self.resource}",
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}",
        )


def under_pressure(pod: Pod, qos: str, conditions: Sequence[str]) -> Rejection | None:
    """Returns why a node with these conditions rejects the pod; None if it admits it."""
    if not conditions or is_critical(pod):
        return None
    if tuple(conditions) == (MEMORY_PRESSURE,):
        taint = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
        if qos != "BestEffort" or tolerates_any(pod.spec.tolerations, taint):
            return None
    return Rejection(EVICTED, f"The node had condition: [{' '.join(conditions)}]. ")


def wrong_os(pod: Pod, node: Node) -> Rejection | None:
    """Returns the rejection of a pod for another operating system than the node's; None for other
    pods.
    """
    system = node.metadata.labels.get(_OS, "linux")
    if pod.metadata.labels.get(_OS, system) != system:
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return Rejection("PodOSSelectorNodeLabelDoesNotMatch", message)
    if pod.spec.os is not None and pod.spec.os.name != system:
        message = "Failed to admit pod as the OS field doesn't match node OS"
        return Rejection("PodOSNotSupported", message)
    return None


def infeasible(
    pod: Pod, qos: str, allocation: Allocation, static: Sequence[str]
) -> Rejection | None:
    """Returns why this kubelet could never perform a resize of the pod, by its policies.

    `static` are the resources that it allots to Guaranteed pods in whole units.
    """
    for resource, manager, policy in _STATIC_MANAGERS:
        if (
            qos == "Guaranteed"
            and resource in static
            and requests_changed(pod, allocation, resource)
        ):
            message = (
                f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager "
                f'policy "{policy}"'
            )
            return Rejection(INFEASIBLE, message)
    return None


def shortages(requests: Amounts, used: Amounts, pods: int, node: Node) -> list[Shortage]:
    """Returns the resources that the node lacks for a pod. The node has `pods` other pods, which
    use `used`.

    Resources that the node does not declare are ignored: extended resources, or all of a new node.
    """
    allocatable = node.status.allocatable
    lacking = []
    most = value(allocatable.get("pods", MOST_PODS))
    if pods + 1 > most:
        lacking.append(Shortage("pods", 1, pods, most))
    for resource in sorted(requests, key=lambda name: (*_FIRST, name).index(name)):
        if requests[resource] == 0 or resource not in allocatable:
            continue
        read = milli_value if resource == "cpu" else value
        capacity, in_use = read(allocatable[resource]), used.get(resource, 0)
        if requests[resource] > capacity - in_use:
            lacking.append(Shortage(resource, requests[resource], in_use, capacity))
    return lacking


def mismatch(pod: Pod, node: Node, others: Iterable[Pod]) -> Rejection | None:
    """Returns why the pod must not run on the node, whatever resources are free."""
    if not _selects(pod, node):
        return _failed_predicate(
            "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"
        )
    claims = set(_ports(pod))
    if claims and any(_ports_conflict(claims, other) for other in others):
        return _failed_predicate(
            "NodePorts", "node(s) didn't have free ports for the requested pod ports"
        )
    if not is_static(pod) and any(
        taint.effect == "NoExecute" and not tolerates_any(pod.spec.tolerations, taint)
        for taint in node.spec.taints
    ):
        return _failed_predicate(
            "TaintToleration", "node(s) had taints that the pod didn't tolerate"
        )
    return None


def _failed_predicate(predicate: str, reason: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {reason}")


def _selects(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value_ for key, value_ in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return not required or node_selector_matches(required.node_selector_terms, node)


def _ports(pod: Pod) -> Iterable[tuple[str, int, str]]:
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    for container in (*sidecars, *pod.spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield port.protocol or "TCP", port.host_port, port.host_ip or ""


def _ports_conflict(claims: set[tuple[str, int, str]], other: Pod) -> bool:
    everywhere = ("", str(IPv4Address(0)))
    return any(
        (protocol, port) == (mine[0], mine[1])
        and (address == mine[2] or address in everywhere or mine[2] in everywhere)
        for protocol, port, address in _ports(other)
        for mine in claims
    )


# ------------------------------------------------------------------------------------- preemption


def victims_of(
    pod: Pod, others: Iterable[Pod], lacking: Iterable[Shortage], qos: Callable[[Pod], str]
) -> list[Pod] | None:
    """Returns as few pods as possible for a critical pod to preempt; None if all would not suffice.

    Guaranteed pods are preempted only if all others do not suffice, and burstable pods only if all
    best-effort pods do not suffice.
    """
    needs = {shortage.resource: shortage.missing for shortage in lacking}
    classes: dict[str, list[Pod]] = {name: [] for name in _ORDER}
    for other in others:
        if _preemptable(pod, other):
            classes[qos(other)].append(other)
    best_effort, burstable, guaranteed = classes.values()
    chosen_guaranteed = _nearest_pods(guaranteed, _still_needed(needs, [*best_effort, *burstable]))
    if chosen_guaranteed is None:
        return None
    chosen_burstable = _nearest_pods(
        burstable, _still_needed(needs, [*best_effort, *chosen_guaranteed])
    )
    if chosen_burstable is None:
        return None
    chosen = _nearest_pods(
        best_effort, _still_needed(needs, [*chosen_burstable, *chosen_guaranteed])
    )
    return None if chosen is None else [*chosen, *chosen_burstable, *chosen_guaranteed]


def _preemptable(pod: Pod, other: Pod) -> bool:
    if is_critical(pod) and not is_critical(other):
        return True
    return (
        pod.spec.priority is not None
        and other.spec.priority is not None
        and pod.spec.priority > other.spec.priority
    )


def _nearest_pods(pods: Iterable[Pod], needs: dict[str, int]) -> list[Pod] | None:
    """Returns pods that together meet the needs. Each is the one whose requests come nearest to
    what is still needed.
    """
    left, chosen = list(pods), []
    while needs:
        if not left:
            return None
        # Of equal pods, the kubelet takes the last.
        nearest = min(reversed(left), key=lambda pod: (_distance(pod, needs), _size(pod)))
        left.remove(nearest)
        chosen.append(nearest)
        needs = _still_needed(needs, [nearest])
    return chosen


def _still_needed(needs: Mapping[str, int], pods: Iterable[Pod]) -> dict[str, int]:
    left = dict(needs)
    for pod in pods:
        requests = _requests(pod)
        left = {name: amount - requests.get(name, 0) for name, amount in left.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _distance(pod: Pod, needs: Mapping[str, int]) -> float:
    requests = _requests(pod)
    return sum(
        (max(amount - requests.get(name, 0), 0) / amount) ** 2 for name, amount in needs.items()
    )


def _size(pod: Pod) -> tuple[int, int]:
    requests = _requests(pod)
    return requests.get("memory", 0), requests.get("cpu", 0)


def _requests(pod: Pod) -> dict[str, int]:
    return {**pod_requests(pod), "pods": 1}
