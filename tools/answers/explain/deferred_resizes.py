"""Pods whose resize is deferred: the resources that it holds and the pod does not have yet."""

from __future__ import annotations

from msgspec.structs import replace

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.requests import Amounts, pod_requests

PENDING, DEFERRED, INFEASIBLE = "PodResizePending", "Deferred", "Infeasible"


def is_deferred(pod: Pod) -> bool:
    """True if the resize of a pod waits for room on its node."""
    pending = next((each for each in pod.status.conditions if each.type == PENDING), None)
    return pending is not None and pending.reason == DEFERRED


def held_by_resize(pod: Pod) -> Amounts:
    """Returns the amount of each resource that a pod holds for its deferred resize alone, in the
    units of requests.
    """
    if not is_deferred(pod):
        return {}
    refused = tuple(
        replace(each, reason=INFEASIBLE) if each.type == PENDING else each
        for each in pod.status.conditions
    )
    without = pod_requests(replace(pod, status=replace(pod.status, conditions=refused)))
    held = {name: of - without.get(name, 0) for name, of in pod_requests(pod).items()}
    return {name: amount for name, amount in held.items() if amount > 0}
