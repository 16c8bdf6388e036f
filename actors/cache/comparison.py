"""The comparison of the cache with the API server, whose objects the informers hold. Pure; mirrors
kube-scheduler's CacheComparer.

A pod that has no node at the API server may be assumed here, and a finished pod counts nowhere.
Everything else must be the same on both sides, including the resourceVersion. Each key is compared
on its own, so a large cluster can be compared in slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import compress
from operator import is_not
from typing import TypeVar

from ..messages.comparison import Difference
from ..scheduling.kube.core import FINISHED, Node, Pod
from ..scheduling.model.node_info import NodeInfo

T = TypeVar("T")


def takes_room(pod: Pod) -> bool:
    """True if the pod takes room on a node, according to the API server."""
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED


def node_differences(
    expected: Mapping[str, Node | None], infos: Mapping[str, NodeInfo]
) -> Iterator[Difference]:
    """Yields the differences of the cache from the `expected` nodes; a node that is None is
    gone.
    """
    for name, node in expected.items():
        info = infos.get(name)
        cached = None if info is None else info.node
        if node is None:
            if cached is not None:
                yield Difference("redundant", "Node", name)
        elif cached is None:
            yield Difference("missed", "Node", name)
        elif cached is not node and _differing(cached, node):
            yield Difference("stale", "Node", name)


def pod_differences(
    expected: Mapping[str, Pod | None], counted: Mapping[str, Pod], assumed: Set[str]
) -> Iterator[Difference]:
    """Yields the differences of the counted pods from the `expected` ones; a pod that is None is
    gone.
    """
    for name, pod in _not_identical(expected, counted):
        cached = counted.get(name)
        if pod is None or not takes_room(pod):
            if cached is not None and not (name in assumed and _may_be_assumed(cached, pod)):
                yield Difference("redundant", "Pod", name)
        elif cached is None:
            yield Difference("missed", "Pod", name)
        elif (
            name in assumed
            or cached.spec.node_name != pod.spec.node_name
            or _differing(cached, pod)
        ):
            yield Difference("stale", "Pod", name)


def _not_identical(
    expected: Mapping[str, T | None], cached: Mapping[str, T]
) -> Iterator[tuple[str, T | None]]:
    """Yields the expected objects that are not the cached objects themselves, which nearly all
    are.
    """
    different = map(is_not, map(cached.get, expected), expected.values())
    return compress(expected.items(), different)


def _may_be_assumed(cached: Pod, expected: Pod | None) -> bool:
    if expected is None or expected.spec.node_name:
        return False
    return expected.metadata.uid == cached.metadata.uid


def _differing(cached: Node | Pod, expected: Node | Pod) -> bool:
    before, after = cached.metadata, expected.metadata
    return (before.uid, before.resource_version) != (after.uid, after.resource_version)
