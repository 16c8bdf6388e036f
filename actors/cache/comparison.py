"""The comparison of the cache with what the API server last told. Pure; mirrors kube-scheduler's
CacheComparer.

Pods that the API server has without a node may be assumed, and those that are over count nowhere;
all else must be the same on both sides, down to the resourceVersion. Each key is compared for
itself, so that a large cluster can be compared a slice at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from berth.actors.messages import Difference
from berth.actors.scheduling.kube.core import OVER, Node, Pod
from berth.actors.scheduling.model.node_info import NodeInfo


def counts(pod: Pod) -> bool:
    """Whether the API server says of a pod that it takes room on a node."""
    return bool(pod.spec.node_name) and pod.status.phase not in OVER


def node_differences(
    told: Mapping[str, Node | None], infos: Mapping[str, NodeInfo]
) -> Iterator[Difference]:
    """What is otherwise in the cache than told, of these nodes; None is a node that is gone."""
    for name, node in told.items():
        info = infos.get(name)
        cached = None if info is None else info.node
        if node is None:
            if cached is not None:
                yield Difference("redundant", "Node", name)
        elif cached is None:
            yield Difference("missed", "Node", name)
        elif cached is not node and _changed(cached, node):
            yield Difference("stale", "Node", name)


def pod_differences(
    told: Mapping[str, Pod | None], counted: Mapping[str, Pod], assumed: Set[str]
) -> Iterator[Difference]:
    """What is otherwise among the pods that count than told, of these pods; None is a pod that is
    gone.
    """
    for name, pod in told.items():
        cached = counted.get(name)
        if cached is pod:
            continue
        if pod is None or not counts(pod):
            if cached is not None and not (name in assumed and _may_be_assumed(cached, pod)):
                yield Difference("redundant", "Pod", name)
        elif cached is None:
            yield Difference("missed", "Pod", name)
        elif (
            name in assumed or cached.spec.node_name != pod.spec.node_name or _changed(cached, pod)
        ):
            yield Difference("stale", "Pod", name)


def _may_be_assumed(cached: Pod, told: Pod | None) -> bool:
    return told is not None and not told.spec.node_name and told.metadata.uid == cached.metadata.uid


def _changed(known: Node | Pod, told: Node | Pod) -> bool:
    before, after = known.metadata, told.metadata
    return (before.uid, before.resource_version) != (after.uid, after.resource_version)
