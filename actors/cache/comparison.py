"""The comparison of the cache with what the API server last told. Pure; mirrors kube-scheduler's CacheComparer.

Pods that the API server has without a node may be assumed, and those that are over count nowhere; all else must be the
same on both sides, down to the resourceVersion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from actors.kube.core import OVER, Node, Pod
from actors.messages import Difference
from actors.model.node_info import NodeInfo


def counts(pod: Pod | None) -> bool:
    """Whether the API server says of a pod that it takes room on a node."""
    return pod is not None and bool(pod.spec.node_name) and pod.status.phase not in OVER


def differences(
    nodes: Mapping[str, Node],
    pods: Mapping[str, Pod],
    infos: Mapping[str, NodeInfo],
    counted: Mapping[str, Pod],
    assumed: Set[str],
) -> Iterator[Difference]:
    """What is otherwise in the cache (`infos`, and by key the pods that count on them) than in `nodes` and `pods`."""
    for name, node in nodes.items():
        info = infos.get(name)
        if info is None or info.node is None:
            yield Difference("missed", "Node", name)
        elif info.node is not node and _changed(info.node, node):
            yield Difference("stale", "Node", name)
    for name, info in infos.items():
        if info.node is not None and name not in nodes:
            yield Difference("redundant", "Node", name)
    yield from _of_pods(pods, counted, assumed)


def _of_pods(pods: Mapping[str, Pod], counted: Mapping[str, Pod], assumed: Set[str]) -> Iterator[Difference]:
    """Once over what is told, mostly by identity; over what is cached only if that is more."""
    known = 0
    for name, pod in pods.items():
        cached = counted.get(name)
        if cached is pod:
            known += 1
        elif not counts(pod):
            known += cached is not None and name in assumed and _may_be_assumed(cached, pod)
        elif cached is None:
            yield Difference("missed", "Pod", name)
        else:
            known += 1
            if name in assumed or cached.spec.node_name != pod.spec.node_name or _changed(cached, pod):
                yield Difference("stale", "Pod", name)
    if known == len(counted):
        return
    for name, cached in counted.items():
        told = pods.get(name)
        if not counts(told) and not (told is not None and name in assumed and _may_be_assumed(cached, told)):
            yield Difference("redundant", "Pod", name)


def _may_be_assumed(cached: Pod, told: Pod) -> bool:
    return not told.spec.node_name and told.metadata.uid == cached.metadata.uid


def _changed(known: Node | Pod, told: Node | Pod) -> bool:
    before, after = known.metadata, told.metadata
    return (before.uid, before.resource_version) != (after.uid, after.resource_version)
