"""The cache: every node with the pods that run on it, assumed ones included, and the snapshot made from it.

A pod is absent, assumed (placed by us, binding under way), or added (the API server says so). Invariant: a pod counts
on exactly one node, and every NodeInfo equals a recount of its pods. Nodes that changed since the last snapshot are
remembered, so that bringing it up to date costs only what changed. Mirrors kube-scheduler's cacheImpl.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from actors.kube.core import Node, Pod
from actors.kube.meta import key
from actors.messages import (
    AssignedPodAdded,
    AssignedPodDeleted,
    AssignedPodUpdated,
    Assume,
    CacheMessage,
    FinishBinding,
    Forget,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominate,
    ObjectPut,
    ObjectRemoved,
    ReturnSnapshot,
    TakeSnapshot,
    Unnominate,
)
from actors.model.cluster_objects import ClusterObjects
from actors.model.node_info import NodeInfo
from actors.model.node_tree import NodeTree
from actors.model.nominations import Nominations
from actors.model.pod_info import PodInfo
from actors.model.snapshot import Snapshot


class CacheStatistics(msgspec.Struct, frozen=True):
    """cache_size by type."""

    nodes: int
    pods: int
    assumed_pods: int


class Refused(msgspec.Struct, frozen=True):
    """An order that does not fit what the cache knows; it changed nothing."""

    key: str
    problem: str


class Lend(msgspec.Struct, frozen=True):
    """Answer this order with the snapshot, which is up to date."""

    order: TakeSnapshot
    snapshot: Snapshot


Effect = Refused | Lend


class CacheState:
    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._node_of: dict[str, str] = {}  # pod key -> node name
        self._assumed: set[str] = set()
        self._tree = NodeTree()
        self._generation = 0
        self._dirty: dict[str, None] = {}
        self._reorder = False
        self._objects = ClusterObjects()
        self._nominations = Nominations()
        self._snapshot = Snapshot(self._objects, self._nominations)

    def handle(self, message: CacheMessage) -> tuple[Effect, ...]:
        """Take one message; O(1) but for TakeSnapshot, which costs what changed since the last one."""
        match message:
            case Assume(info, node):
                return self._assume(info, node)
            case FinishBinding() | ReturnSnapshot():
                pass  # Assumed pods never expire; and who may change the snapshot when is the actor's business.
            case Forget(info, node):
                return self._forget(info, node)
            case TakeSnapshot():
                return (Lend(message, self._take_snapshot()),)
            case AssignedPodAdded(pod):
                self._put(pod)
            case AssignedPodUpdated(old, new):
                if old.metadata.uid != new.metadata.uid:
                    self._drop(key(old))
                self._put(new)
            case AssignedPodDeleted(pod):
                self._drop(key(pod))
            case NodeAdded(node) | NodeUpdated(_, node):
                self._put_node(node)
            case NodeDeleted(node):
                self._drop_node(node)
            case Nominate(info, node):
                self._nominations.put(info, node)
            case Unnominate(name):
                self._nominations.drop(name)
            case ObjectPut(item):
                self._objects.put(item)
            case ObjectRemoved(item):
                self._objects.remove(item)
            case _:
                assert_never(message)
        return ()

    # ------------------------------------------------------------------------------------------- pods

    def _assume(self, info: PodInfo, node: str) -> tuple[Effect, ...]:
        if info.key in self._node_of:
            return (Refused(info.key, f"cannot be assumed on {node}: it counts on {self._node_of[info.key]}"),)
        self._count(info, node)
        self._assumed.add(info.key)
        self._nominations.drop(info.key)
        return ()

    def _forget(self, info: PodInfo, node: str) -> tuple[Effect, ...]:
        if info.key not in self._assumed or self._node_of[info.key] != node:
            return (Refused(info.key, f"cannot be forgotten: it is not assumed on {node}"),)
        self._drop(info.key)
        return ()

    def _put(self, pod: Pod) -> None:
        """Count a pod as the API server tells it, wherever it was counted before."""
        info, node = PodInfo(pod), pod.spec.node_name
        if self._node_of.get(info.key) == node and self._infos[node].replace_pod(info):
            self._assumed.discard(info.key)
            return
        self._drop(info.key)
        self._count(info, node)

    def _drop(self, name: str) -> None:
        node = self._node_of.pop(name, None)
        if node is None:
            return
        self._assumed.discard(name)
        info = self._infos[node]
        info.remove_pod(name)
        self._touch(info)
        if info.node is None and not info.pods:
            del self._infos[node]

    def _count(self, pod: PodInfo, node: str) -> None:
        info = self._infos.get(node)
        if info is None:
            info = self._infos[node] = NodeInfo(node)
        info.add_pod(pod)
        self._node_of[pod.key] = node
        self._touch(info)

    # ------------------------------------------------------------------------------------------- nodes

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        info = self._infos.get(name)
        if info is None:
            info = self._infos[name] = NodeInfo(name)
        if info.node is None:
            self._tree.add(node)
            self._reorder = True
        elif self._tree.update(info.node, node):
            self._reorder = True
        info.set_node(node)
        self._touch(info)

    def _drop_node(self, node: Node) -> None:
        info = self._infos.get(node.metadata.name)
        if info is None or info.node is None:
            return
        self._tree.remove(info.node)
        self._reorder = True
        info.node = None
        self._touch(info)
        if not info.pods:
            del self._infos[info.name]

    def _touch(self, info: NodeInfo) -> None:
        self._generation += 1
        info.generation = self._generation
        self._dirty[info.name] = None

    # ------------------------------------------------------------------------------------------- snapshot

    def _take_snapshot(self) -> Snapshot:
        snapshot = self._snapshot
        for name in self._dirty:
            info = self._infos.get(name)
            if info is None or info.node is None:
                snapshot.columns.remove(name)
            else:
                snapshot.columns.refresh(info)
        self._dirty.clear()
        if self._reorder:
            snapshot.columns.reorder(self._tree.names())
            self._reorder = False
        return snapshot

    # ------------------------------------------------------------------------------------------- looking

    def statistics(self) -> CacheStatistics:
        return CacheStatistics(len(self._tree), len(self._node_of), len(self._assumed))

    def validate(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        counted = {name: info.name for info in self._infos.values() for name in info.pods}
        assert counted == self._node_of, counted.items() ^ self._node_of.items()
        assert self._assumed <= self._node_of.keys()
        for info in self._infos.values():
            info.validate()
            assert info.node is not None or info.pods, f"{info.name}: an empty ghost"
        if not self._dirty:
            self._snapshot.columns.counts.validate()
        live = {name for name, info in self._infos.items() if info.node is not None}
        assert live == set(self._tree.names())
